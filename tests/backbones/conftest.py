"""Tiny models and adapters that several tests share, made once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stage import Call, Stage
from tiny_models import EMBEDDED, save_adapter

from ld_agent.backbones.endpoint import EndpointBackbone
from ld_agent.backbones.local import LocalBackbone


@pytest.fixture(scope="session")
def adapters(tmp_path_factory: pytest.TempPathFactory, tiny_llama: Path) -> dict[str, Path]:
    """Two adapters of the tiny Llama, of different rank and modules."""
    folder = tmp_path_factory.mktemp("adapters")
    everywhere = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return {
        "summarizer": save_adapter(folder / "summarizer", tiny_llama, 1, everywhere, rank=3),
        "extractor": save_adapter(folder / "extractor", tiny_llama, 2, ["q_proj", "v_proj"], use_rslora=True),
    }


@pytest.fixture(scope="session")
def llama(tiny_llama: Path, adapters: dict[str, Path]) -> LocalBackbone:
    return LocalBackbone(
        str(tiny_llama), dtype="float32", device="cpu", adapters={k: str(v) for k, v in adapters.items()}
    )


@pytest.fixture(scope="session")
def embedded() -> LocalBackbone:
    return LocalBackbone(EMBEDDED, device="cpu")


@pytest.fixture
def pauses() -> list[float]:
    """The seconds that the backbone asked to wait between tries; none of them is waited."""
    return []


@pytest.fixture
def connect(stage: Stage, pauses: list[float]) -> Iterator[Callable[..., EndpointBackbone]]:
    made: list[EndpointBackbone] = []

    def make(*plays: Callable[[Call], None], **options: Any) -> EndpointBackbone:
        stage.plays = list(plays)

        async def pause(seconds: float) -> None:
            pauses.append(seconds)

        url = f"http://127.0.0.1:{stage.server_port}/v1"
        made.append(EndpointBackbone("base", **{"base_url": url, "pause": pause, "timeout": 20.0, **options}))
        return made[-1]

    yield make
    for backbone in made:
        backbone.close()
