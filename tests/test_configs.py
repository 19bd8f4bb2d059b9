"""The shipped agent configs, and what `load_config` says about a config that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ld_agent.backbones import BACKBONES
from ld_agent.config import Config, load_config
from ld_agent.errors import ConfigError
from ld_agent.shipped import shipped_path

SHIPPED = sorted(shipped_path("configs/agent").glob("*.yaml"))
PROMISED = {
    "default",
    "qwen3-0.6b",
    "llama-3.1-8b",
    "chatglm3-6b",
    "blenderbot-400m",
    "bart-base",
    "openai",
    "vllm-adapters",
    "ollama",
}


def dotted_keys(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Every key of a section, in order; a section that may be null counts as one key."""
    for key, value in values.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from dotted_keys(value, f"{prefix}{key}.")


def test_the_promised_configs_are_there():
    assert {path.stem for path in SHIPPED} >= PROMISED


def test_the_default_file_is_the_default_config_with_the_adapters_that_ship():
    shipped = load_config()
    bare = Config().modules
    tuned = {name: f"shipped:adapters/{name}" for name in ("summarizer", "extractor", "generator")}
    changes = {name: getattr(bare, name).model_copy(update={"adapter": path}) for name, path in tuned.items()}
    changes["summarizer"] = changes["summarizer"].model_copy(update={"max_new_tokens": 192})
    changes["extractor"] = changes["extractor"].model_copy(update={"prompting": "brief", "grounded": False})
    changes["generator"] = changes["generator"].model_copy(update={"repetition_penalty": 1.0})
    assert load_config("default") == shipped
    assert shipped == Config().model_copy(update={"modules": bare.model_copy(update=changes)})


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_config_loads_and_is_complete(path: Path):
    config = load_config(path)
    assert load_config(path.stem) == config
    assert config.backbone.kind in BACKBONES
    written = list(dotted_keys(yaml.safe_load(path.read_text(encoding="utf-8"))))
    assert written == list(dotted_keys(Config().model_dump()))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_answers_of_a_shipped_config_leave_most_of_the_window_to_the_prompt(path: Path):
    config = load_config(path)
    modules = (config.modules.summarizer, config.modules.extractor, config.modules.generator)
    longest = max(module.max_new_tokens for module in modules)
    assert config.backbone.context_window is None or longest <= config.backbone.context_window / 4
    assert config.backbone.kind != "openai" or (config.backbone.base_url and not any(m.adapter for m in modules))


def test_what_sets_the_special_configs_apart():
    adapters = load_config("vllm-adapters").modules
    assert len({adapters.summarizer.model, adapters.extractor.model, adapters.generator.model, None}) == 4
    assert load_config("blenderbot-400m").backbone.context_window == 128
    assert [path.stem for path in SHIPPED if load_config(path).backbone.trust_remote_code] == ["chatglm3-6b"]


def test_overrides_are_applied_in_order_and_leave_the_rest_alone():
    overrides = ["memory.k=5", "memory.tau=null", "memory.views=[events]", "memory.k=7", "agent.name=Ada=Lovelace"]
    config = load_config("default", overrides)
    assert (config.memory.k, config.memory.tau, config.memory.views) == (7, None, ("events",))
    assert config.agent.name == "Ada=Lovelace"
    assert config.modules == load_config().modules


def refusal(path: str | Path | None = None, overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("memory.kk=5", ("memory.kk", "gamma")),
        ("memry.k=5", ("memry", "memory")),
        ("modules.generator.max_tokens=5", ("modules.generator.max_tokens", "max_new_tokens")),
        ("memory.k=many", ("memory.k", "'many'")),
        ("memory.k=2.5", ("memory.k", "2.5")),
        ("memory=3", ("memory", "3")),
        ("memory.k=-1", ("memory.k", "-1")),
        ("memory.tau=0", ("memory.tau", "0")),
        ("memory.gamma=1.5", ("memory.gamma", "1.5")),
        ("modules.extractor.max_new_tokens=0", ("modules.extractor.max_new_tokens", "0")),
        ("modules.extractor.prompting=wild", ("modules.extractor.prompting", "'wild'", "chain_of_thought")),
        ("backbone.dtype=int4", ("backbone.dtype", "'int4'", "bfloat16")),
        ("memory.views=[events,events]", ("memory", "events", "twice")),
        ("agent.name=", ("agent.name",)),
        ("memory.k", ("'memory.k'", "memory.k=5")),
        ("memory.views=[events", ("memory.views",)),
        ("=5", ("'=5'", "memory.k=5")),
        ("memory.beta=${nowhere}", ("memory.beta=", "nowhere")),
    ],
)
def test_an_override_that_cannot_be_used(override: str, parts: tuple[str, ...]):
    message = refusal("default", (override,))
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("memory:\n  kk: 5\n", ("memory.kk",)),
        ("memory:\n  k: []\n", ("memory.k",)),
        ("personas:\n  recency: 7\n", ("personas.recency", "7")),
        ("memory: [\n", ("YAML",)),
        ("memory:\n\tk: 5\n", ("YAML",)),
        ("- one\n- two\n", ("list",)),
        ("just words\n", ()),
        ("\x00\x01", ("YAML",)),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, parts: tuple[str, ...]):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    message = refusal(path)
    assert str(path) in message
    assert all(part in message for part in parts), message


def test_a_file_of_other_bytes_is_named(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xff\xfe\x00garbage\x80")
    assert str(path) in refusal(path)


@pytest.mark.parametrize("missing", ["nowhere.yaml", "folder/nowhere.yaml", "defualt", ""])
def test_a_config_that_is_not_there(missing: str):
    message = refusal(missing)
    assert missing in message
    assert "default" in message
