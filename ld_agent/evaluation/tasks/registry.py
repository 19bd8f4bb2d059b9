"""The evaluation tasks, one entry each, as used by ``ld-agent eval``, ``eval score``, ``tables`` and stored runs.

A task predicts something for every item of a corpus and is measured against references. To add one, write its file in this
folder and its entry here: the command ``ld-agent eval NAME`` follows from the entry. Its module is imported on use, so that
``--help`` stays fast. Knows no terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ld_agent.errors import InputError

if TYPE_CHECKING:
    from ld_agent.config import Config
    from ld_agent.evaluation.metrics import Measure
    from ld_agent.evaluation.run_files import Prediction, Run
    from ld_agent.evaluation.runner import Task


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a single task: a flag, a word, a number from 1, or files.

    Attributes:
        flag: on the command line; without its dashes, the name of the task's argument.
        default: False for a flag, () for files.
    """

    flag: str
    help: str
    default: bool | int | str | tuple[()] | None = None

    @property
    def name(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """One task.

    Attributes:
        name: its command, and its name in a run's first line.
        task: "module:class" in this folder; the class is called with the data's path, the configuration, the limit and the
            options. The module's ``measures`` turns predictions into measures by name, of which ``--json`` gives each with
            its interval and by session; its ``figures``, if any, into figures that are not sums over predictions; and its
            ``labelled``, if any, adds people's labels to finished runs, given the options.
        data: describes the argument DATA.
        help: the command's help, without its examples.
        examples: calls of the command, without the program's name.
        options: options of this task alone.
    """

    name: str
    task: str
    data: str = "Recorded conversations, of any corpus."
    help: str = ""
    examples: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()

    def make(self, data: Path, config: Config, limit: int | None = None, **options: Any) -> Task:
        """The task over the first ``limit`` (None: all) episodes, dialogues or samples of a file; the help of each option says
        what it does."""
        task: Task = self._named(self.task.partition(":")[2])(data, config, limit, **options)
        return task

    def measures(self, predictions: Sequence[Prediction]) -> dict[str, Measure]:
        return dict(self._named("measures")(predictions))

    def figures(self, predictions: Sequence[Prediction]) -> dict[str, Any]:
        return dict(self._named("figures", lambda predictions: {})(predictions))

    def labelled(self, runs: Sequence[Run], **options: Any) -> Sequence[Run]:
        return list(self._named("labelled", lambda runs, **options: runs)(runs, **options))

    def _named(self, name: str, default: Any = None) -> Any:
        return getattr(import_module(f".{self.task.partition(':')[0]}", __package__), name, default)


ANNOTATED = "data/samples/msc_personasummary/session_4/valid.txt"
FREE = Option("--free", "The agent's own replies enter its memory, not the recorded ones.", default=False)
RECORDS = (
    "How sessions are stored: summaries of the corpus (the default if it has any), summaries by the pipeline, or extracts "
    "(two utterances)."
)

ECM = TaskEntry(
    "ecm",
    "ecm:EcmTask",
    data="A file of ld-agent ecm build.",
    help=(
        "Ask agents the questions of a benchmark after playing its dialogues; report ROUGE of the answers.\n\n"
        "GPT-score, good/same/bad and multiple choice come from ld-agent judge on the stored runs."
    ),
    examples=("ecm run knowledge.jsonl -c conditional -c history --out runs/knowledge",),
    options=(Option("--merge", "Number of samples per memory. Default: 10, or 1 for knowledge."),),
)
"""``ld-agent ecm run``; its runs are named after their benchmark."""
_ENTRIES = (
    TaskEntry(
        "extraction",
        "extraction:ExtractionTask",
        data="Utterances with annotated traits, such as msc_personasummary.",
        help='Score the extractor against annotated traits: accuracy of "trait or none", BLEU and ROUGE-L.',
        examples=(
            f"eval extraction {ANNOTATED} --limit 25",
            f"eval extraction {ANNOTATED} -c default -c qwen3-1.7b --out runs/extraction",
        ),
    ),
    TaskEntry(
        "summary",
        "summary:SummaryTask",
        data="Dialogues with summaries: DialogSum, a LoCoMo file, or MSC with annotated traits.",
        help="Score the summarizer on DialogSum, LoCoMo or MSC: ROUGE-1, -2 and -L against the best reference.",
        examples=(
            "eval summary data/samples/dialogsum.jsonl --limit 60 modules.summarizer.adapter=null",
            "eval summary data/samples/locomo.json --limit 2",
        ),
    ),
    TaskEntry(
        "response",
        "response:ResponseTask",
        help=(
            "Score the agent's replies by teacher-forced replay: BLEU, ROUGE, METEOR, F1, Distinct, perplexity, by session.\n\n"
            "`repeated` is the share of replies with a sentence of an earlier reply, `echoed` with one of the utterance just "
            "heard."
        ),
        examples=(
            "eval response data/samples/msc_session_3.txt --limit 20 --from-session 2 --out runs/response",
            "eval response test.txt -c default -c history --json",
            "eval response data/samples/three_sessions.jsonl --free",
        ),
        options=(
            Option("--from-session", "Store the sessions before this one without replying.", 1),
            Option("--no-perplexity", "Omit the perplexity of the recorded replies.", default=False),
            FREE,
        ),
    ),
    TaskEntry(
        "memory",
        "memory_quality:MemoryTask",
        data="Conversations with personas or annotated traits.",
        help="Compare the words of a memory with annotated facts: precision, recall and F1 (Rsum, Figure 5).",
        examples=(f"eval memory {ANNOTATED} -c recursive -c memorybank --limit 20 --out runs/memory",),
    ),
    TaskEntry(
        "questions",
        "questions:QuestionsTask",
        data="Conversations with questions about them: JSON lines with `questions`, or a LoCoMo file.",
        help="Ask about what was said weeks before: answered, F1, unknown_right, and where answers were lost.",
        examples=(
            "eval questions data/samples/questions.jsonl --out runs/questions",
            "eval questions data/samples/locomo.json --limit 1 -c default -c none -c full --json",
        ),
        options=(FREE,),
    ),
    TaskEntry(
        "retrieval",
        "retrieval:RetrievalTask",
        data="A LoCoMo file, a person of RealMem, or conversations with questions.",
        help=(
            "Ask every question of a corpus and measure how often the answering session is recalled.\n\n"
            "Questions of the project's own format query ONE memory of all conversations; the target is the session in which an "
            "answer is said.\n\n"
            "No language model is used unless --records pipeline summarizes the sessions with the configured one."
        ),
        examples=(
            "eval retrieval data/samples/locomo.json --json",
            "eval retrieval data/samples/locomo.json memory.scorer=paper memory.tau=null",
            "eval retrieval data/samples/questions.zh.jsonl -c zh memory.tau=null",
        ),
        options=(Option("--records", RECORDS, ""),),
    ),
    TaskEntry(
        "truth",
        "truth:TruthTask",
        help=(
            "List every statement that the agent stored, for people to label, and measure by the labels what is true.\n\n"
            "Labels are true, wrong_person, not_said, and passing (true, but over tomorrow). `quoted` is the share of labelled "
            "statements that\nare the people's own words."
        ),
        examples=(
            "eval truth data/samples/messy_chats.jsonl --out runs/truth --form truth.html",
            "eval truth data/samples/messy_chats.jsonl --out runs/truth --labels runs/truth/labels-ann.jsonl --json",
        ),
        options=(
            Option("--form", "Write a page on which to label the statements.", ""),
            Option("--labels", "Labels exported from the page; repeat for several people.", ()),
        ),
    ),
    TaskEntry(
        "injection",
        "injection:InjectionTask",
        data="JSON lines with `planted`, `asked`, `marker` and optional keys.",
        help=(
            "Measure how often an instruction planted in the memory is obeyed when it is recalled.\n\n"
            "`obeyed` is measured with the agent's own prompt, `obeyed_plain` with the planted text and the question in one "
            "message, as in\nLD-Agent's released code."
        ),
        examples=("eval injection data/samples/injection.jsonl -c default memory.gamma=-1",),
    ),
)
TASKS: Mapping[str, TaskEntry] = {task.name: task for task in _ENTRIES} | dict.fromkeys(
    ("ecm-continuing", "ecm-knowledge", "ecm-feedback"), ECM
)


def task_entry(name: str) -> TaskEntry:
    """The entry of a run's task."""
    if name not in TASKS:
        raise InputError(f"a run of {name!r} cannot be scored here; known are {', '.join(TASKS)}")
    return TASKS[name]
