"""The commands that fill the cells of a paper's table, or the reason why a row has none. Runs nothing.

On the embedded default, an arm is its shipped config; on any other model, that config's settings as overrides. A file
of Multi-Session Chat's session 5 includes the earlier sessions, so one run fills the columns of all of them. Equal runs of
different tables have one folder.

Where a config has no adapter for a tuned row, the commands that tune one come first. LD-Agent tunes summarizer and extractor for
every run with memories and personas, even if the generator is zero-shot: averaged over the sessions, the figures of zero-shot
ChatGLM[LDA] in Table 1 are those of the tuned extractor in Table 3.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ld_agent.evaluation.judging.verdicts import MEASURES, PEOPLE
from ld_agent.evaluation.tables.arms import DEFAULT, LD_AGENT, Settings, based_on, settings_for, typed, values_of
from ld_agent.evaluation.tables.paper_figures import Column, OurRow, PaperTable, Where, satisfied
from ld_agent.files import shipped_path

DATA = {
    "msc": "MSC/msc_dialogue/session_{session}/{split}.txt",
    "conversation_chronicles": "CC/{split}.jsonl",
    "carecall": "CARECALL/{split}.json",
    "ubuntu_irc": "UBUNTU_IRC/{split}.jsonl",
}
ANNOTATED = "MSC/msc_personasummary/session_4/test.txt"
SPLIT = "python -m training.split --from CONVERSATION_CHRONICLES.jsonl --out CC --seed 0"
TRAINING = {
    "summarizer": "--from DIALOGSUM/dialogsum.train.jsonl",
    "extractor": " ".join(f"--from MSC/msc_personasummary/session_{n}/train.txt" for n in range(1, 5)),
    "msc": "--from MSC/msc_dialogue/session_4/train.txt",
    "conversation_chronicles": "--from CC/train.jsonl",
    "ubuntu_irc": "--from UBUNTU_IRC/train.jsonl",
}
"""Data by module or, for the generator, by corpus; Multi-Session Chat's ends with session 4."""
BASELINE, FULL = "context", "full"
PARTS: dict[str, dict[str, Any]] = {
    "memory": {"views": ["events"], "personas": False},
    BASELINE: {"views": ["none"], "personas": False},
    "user": {"views": ["none"], "user_personas": True, "agent_personas": False},
    "agent": {"views": ["none"], "user_personas": False, "agent_personas": True},
    FULL: {"views": ["events"], "personas": True},
}
"""Facts of a run whose prompts have these parts besides the running session (LD-Agent, table 2)."""
BRIEF = {"modules.extractor.prompting": "brief"}
"""An extractor answers as its training rows do."""
TUNED = {"tuned": "generator", "extractor_tuned": "extractor"}
"""The module that a fact is about."""
DPR = ("encoder.model", "encoder.question_model", "encoder.pooling")
SAMPLES = {"continuing": 200, "knowledge": 300, "feedback": 200}
"""Statistics of ECM's benchmarks (Table 2)."""
FIRST_EVALUATED = 2
"""The first session only starts the conversation (LD-Agent, section 3.2)."""
ERRORS_OF = 100
"""Conversations of which Rsum checks the memory (section 6.4)."""
YOURS = {
    "MSC": "the folder of Multi-Session Chat, with msc_dialogue and msc_personasummary",
    "CONVERSATION_CHRONICLES": "Conversation Chronicles, saved as JSON lines",
    "CARECALL": "a folder with CareCall-Memory",
    "UBUNTU_IRC": "a folder with Ubuntu IRC, train.jsonl and test.jsonl",
    "DIALOGSUM": "the folder of DialogSum",
    "DIALOGUES": "conversations with an assistant, in any format",
    "REQUESTS": "requests, one a line",
    "BUILDER": "the config of the model that builds the benchmarks, GPT-4 in the paper",
    "JUDGE": "the config of the judge",
    "RATINGS...": "the ratings that people exported from the page",
}
"""What stands for files of the reader's in the commands."""


def plan(table: PaperTable, configs: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the commands for each row of ours, by label; a row that no command fills has the reason instead. Each config is the
    base of a system, as ``-c`` takes it."""
    planned = []
    for _, row in table.our_rows:
        cells = (_cell(table, row, column, config) for config in configs for column in table.columns)
        named = row.section and not row.label.startswith(f"{row.section}:")
        label = (f"{row.section}: {row.label}" if named else row.label).replace("{backbone}", "…")
        planned.append((label, list(dict.fromkeys(line for lines in cells for line in lines))))
    return planned


def shown(table: PaperTable, configs: Sequence[str]) -> str:
    """Return the command that shows the table with the planned runs, those given to their rows by name included."""
    given = []
    for _, row in table.our_rows:
        runs = [run for config in configs for run in _runs(table, row, table.columns[0], config)[:1]]
        if row.adapter_of:
            given += [f"--row {shlex.quote(f'{row.label}={run.folder}')}" for run in runs if not run.untunable]
    return " ".join([f"ld-agent tables {table.name} --from runs", *given])


def yours(lines: Iterable[str]) -> list[str]:
    """Return what the names in capitals in some commands stand for, one comment each."""
    text = "\n".join(lines)
    there = (name for name in YOURS if re.search(rf"(?<![\w]){re.escape(name)}(?![A-Z_])", text))
    return [f"# {name.removesuffix('...')}: {YOURS[name]}" for name in there]


def _runs(table: PaperTable, row: OurRow, column: Column, config: str) -> list[PlannedRun]:
    return [PlannedRun(table, {**row.where, **side}, config, row.adapter_of) for side in column.sides]


def _cell(table: PaperTable, row: OurRow, column: Column, config: str) -> list[str]:
    runs = _runs(table, row, column, config)
    run, name = runs[0], runs[0].wanted.get("benchmark", "")
    if run.untunable:
        return [f"# {values_of(config)['backbone.model']} answers at an endpoint: nothing here tunes it"]
    if len(runs) > 1:
        lines, folders = [line for one in runs for line in one.command()], [one.folder for one in runs]
        if run.task == "ecm-knowledge":
            return [*lines, *(f"ld-agent judge score {folder} -c JUDGE" for folder in folders)]
        return [*lines, f"ld-agent judge compare {' '.join(folders)} -c JUDGE"]
    if run.task == "ratings":
        form = f"ld-agent judge form {name}.jsonl --questions benchmark --limit 50 --out runs/{name}.html"
        return [_built(name), form, f"ld-agent judge agree RATINGS... --key runs/{name}.key.json --keep"]
    if run.task == "statistics":
        data = f"{name}.jsonl" if name else _data(run.corpus, "test")
        count = f"ld-agent statistics {data} --out runs/statistics_{name or run.corpus}"
        return [_built(name), count] if name else [count]
    if column.measure is None:
        return [f"# {column.name}: nothing here measures it"]
    return [*run.before(), *run.command(), *run.after(column.measure)]


def _built(benchmark: str) -> str:
    """The command that builds a benchmark: one model does, whichever systems are asked."""
    sources = {"feedback": "REQUESTS", "knowledge": ANNOTATED}.get(benchmark, "DIALOGUES")
    return f"ld-agent ecm build {benchmark} --from {sources} --samples {SAMPLES[benchmark]} --out {benchmark}.jsonl -c BUILDER"


class PlannedRun:
    """A run that a cell of a table needs.

    Args:
        wanted: its facts.
        config: the base configuration.
        adapter_of: the corpus that the row says its generator was tuned on; "": the one that it is tried on.
    """

    def __init__(self, table: PaperTable, wanted: Where, config: str, adapter_of: str = "") -> None:
        self._table, self._config, self.wanted, self._have = table, config, dict(wanted), values_of(config)
        self.task, self.corpus = str(wanted.get("task", "response")), str(wanted.get("corpus", "msc"))
        self._local = self._have["backbone.kind"] == "transformers"
        self._sessions = [column.session for column in table.columns if column.session is not None]
        apart = table.tuned_apart or self._lacks("generator")
        self._adapter_of = (adapter_of or self.corpus) if wanted.get("tuned") and apart else ""
        self._part = next((part for part, facts in PARTS.items() if satisfied(wanted, facts)), FULL)

    def _lacks(self, module: str) -> bool:
        return self._have[f"modules.{module}.adapter"] is None

    @property
    def untunable(self) -> bool:
        """Whether it needs an adapter that the config lacks and nothing here can tune."""
        return not self._local and any(self.wanted.get(fact) and self._lacks(TUNED[fact]) for fact in TUNED)

    @property
    def folder(self) -> str:
        """Its folder; the same for every table that needs the same run, and for no other run."""
        paper = self._table.paper.partition(",")[0].lower()  # versions of a paper have one folder
        names = [_slug(self._config), *(self.wanted.get("views") or ()), self.task.replace("response", self.corpus)]
        differs = hashlib.sha256(f"{self._data()} {self._settings()}".encode()).hexdigest()[:6]
        return f"runs/{paper}/{'_'.join(names)}_{differs}"

    def command(self) -> list[str]:
        """The command that makes it, after what prepares its data."""
        if self.task.startswith("ecm-"):
            run = f"ld-agent ecm run {self._data()} {self._settings()} --out {self.folder}"
            return [_built(self.task.removeprefix("ecm-")), run]
        evaluated = min(self._sessions, default=1 if self.corpus == "ubuntu_irc" else FIRST_EVALUATED)
        first = f"--from-session {evaluated}" if evaluated > 1 and self.task == "response" else ""
        split = [SPLIT] if self.corpus == "conversation_chronicles" else []
        run = f"ld-agent eval {self.task} {self._data()} {self._settings()} {first} --out {self.folder}"
        return [*split, " ".join(run.split())]

    def before(self) -> list[str]:
        """Prerequisites: adapters for the modules that its config has none for, or examples."""
        if shots := self.wanted.get("shots", 0):
            valid = f"valid/{_slug(self._config)}"  # not in runs, where it could take the place of a test run
            plain = PlannedRun(self._table, {**self.wanted, "shots": 0}, self._config)._settings()
            source = f"{_data('msc', 'valid')} {plain} --from-session 4 --limit 50 --out {valid}"
            drawn = f"python -m training.reply_examples --from {valid} --count {shots} --out {self._examples()}"
            return [f"ld-agent eval response {source}", drawn]
        published, lines = based_on(self._config, ["events"], self._table.paper)[1], list[str]()
        for module in self._tuned_modules():
            prompts = {key: value for key, value in published.items() if key.startswith(f"modules.{module}.")}
            prompts |= BRIEF if module == "extractor" else {}
            lines += self._tune(module, module, f"-c {self._config} {typed(self._config, prompts)}".rstrip())
        if self._adapter_of:
            lines += [SPLIT] if self._adapter_of == "conversation_chronicles" else []
            lines += self._generator_commands()
        return lines

    def _generator_commands(self) -> list[str]:
        """Build rows with the parts of the prompt that the row of the table has, and tune on them: a part by itself on top of
        the baseline (LD-Agent, section 3.3)."""
        lines, corpus = list[str](), self._adapter_of
        for part in dict.fromkeys([self._part if self._part == FULL else BASELINE, self._part]):
            arm = PlannedRun(self._table, {"task": "response", "corpus": corpus, **PARTS[part]}, self._config)
            start = "" if part in (BASELINE, FULL) else f"adapter={self._generator(BASELINE)}"
            lines += self._tune("generator", f"{corpus}-{part}", arm._settings(), start)
        return lines

    def _tune(self, module: str, name: str, arm: str, start: str = "") -> list[str]:
        """Build rows with ``arm``, a config and its overrides, and tune an adapter with the settings that ship for the model, or
        else the default ones.

        Args:
            name: of the rows: the module or, for the generator, corpus and part.
            start: the override that names the adapter to go on from; "": none.
        """
        rows, model = f"rows/{_slug(self._config)}/{name}.jsonl", str(self._have["backbone.model"])
        file, named = f"configs/training/{_slug(self._config)}.yaml", ""
        if model == values_of(DEFAULT)["backbone.model"]:
            file = f"configs/training/{module}.yaml"
        elif not shipped_path(file).is_file():
            file, named = "configs/training/default.yaml", shlex.quote(f"model={model}")
        out = _adapter(self._config, module if name == module else f"{module}-{name}")
        tune = (
            f"python -m training.{module} -c {file} {named} train_file={rows} eval_file=null {start} output_dir={out}"
        )
        build = f"python -m training.build {module} {TRAINING[name.rpartition('-')[0] or name]} --out {rows} {arm}"
        return [build, " ".join(tune.split())]

    def after(self, measure: str) -> list[str]:
        """What has to be done with the finished run before a measure can be shown."""
        judged, folder = MEASURES.get(measure), self.folder
        if judged == PEOPLE:
            questions = "recursive" if self.task == "response" else "memory"
            return [
                f"ld-agent judge form {folder} --questions {questions} --out {folder}.html --limit 100",
                f"ld-agent judge agree RATINGS... --key {folder}.key.json --keep",
            ]
        if judged is not None:
            limit = f" --limit {ERRORS_OF}" if judged == "errors" else ""
            return [f"ld-agent judge {judged} {folder} -c JUDGE{limit}"]
        return [f"ld-agent eval score {folder} --bert-score default"] if measure == "bert_score" else []

    def _tuned_modules(self) -> list[str]:
        """The modules besides the generator that have to be tuned for it."""
        banks = any(self.wanted.get(name) for name in ("personas", "user_personas", "agent_personas"))
        used = {
            "summarizer": self.wanted.get("views") == ["events"] and self.task != "extraction",
            "extractor": self.wanted.get("extractor_tuned", banks),
        }
        here = self._table.paper == "LD-Agent" and self._local
        return [module for module, needed in used.items() if here and needed and self._lacks(module)]

    def _data(self) -> str:
        if self.task.startswith("ecm-"):
            return f"{self.task.removeprefix('ecm-')}.jsonl"
        return ANNOTATED if self.task == "extraction" else _data(self.corpus, "test", max(self._sessions, default=5))

    def _settings(self) -> str:
        """The config that it is based on and its overrides, as typed into a shell."""
        wanted = self.wanted
        base, settings = based_on(self._config, wanted.get("views") or (), self._table.paper)
        settings |= _untuned(wanted, base)
        if self.task == "memory":
            settings.pop("modules.generator.prompting", None)  # no reply is asked for
        settings |= settings_for(wanted)
        if wanted.get("shots"):
            settings["memory.recursive.examples"] = self._examples()
        if wanted.get("question_encoder"):
            settings |= {key: value for key, value in values_of("dpr").items() if key in DPR}
        for module in self._tuned_modules():
            settings |= {f"modules.{module}.adapter": _adapter(self._config, module)}
            settings |= BRIEF if module == "extractor" else {}
        if self._adapter_of:
            settings["modules.generator.adapter"] = self._generator(self._part)
        return f"-c {base} {typed(base, settings)}".rstrip()

    def _generator(self, part: str) -> str:
        return _adapter(self._config, f"generator-{self._adapter_of}-{part}")

    def _examples(self) -> str:
        return f"examples_{_slug(self._config)}_{self.wanted['shots']}.jsonl"


def _data(corpus: str, split: str, session: int = 5) -> str:
    return DATA[corpus].format(split=split, session=session)


def _slug(config: str) -> str:
    """A config's name as part of a file's name."""
    return Path(config).stem if config.endswith((".yaml", ".yml")) else config.replace("/", "-")


def _adapter(config: str, name: str) -> str:
    return f"adapters/{_slug(config)}/{name}"


def _untuned(wanted: Where, base: str) -> Settings:
    """Settings of modules that are untuned in a row: no adapter, and the prompts of `paper`."""
    names = ("adapter", "prompting", "grounded", *(["repetition_penalty"] if base == LD_AGENT else []))
    keys = (f"modules.{TUNED[fact]}.{name}" for fact in TUNED if wanted.get(fact) is False for name in names)
    return {key: values_of("paper")[key] for key in keys}
