"""Tiny models and adapters that several tests share, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import save_adapter, save_model


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "llama", "LlamaForCausalLM")


@pytest.fixture(scope="session")
def tiny_bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "bart", "BartForConditionalGeneration", template=None)


@pytest.fixture(scope="session")
def adapters(tmp_path_factory: pytest.TempPathFactory, tiny_llama: Path) -> dict[str, Path]:
    """Two adapters of the tiny Llama, of different rank and modules."""
    folder = tmp_path_factory.mktemp("adapters")
    everywhere = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return {
        "summarizer": save_adapter(folder / "summarizer", tiny_llama, 1, everywhere, rank=3),
        "extractor": save_adapter(folder / "extractor", tiny_llama, 2, ["q_proj", "v_proj"], use_rslora=True),
    }
