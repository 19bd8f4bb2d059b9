"""The evaluation tasks, one entry each, as used by ``ld-agent eval``, ``eval score``, ``tables`` and stored runs.

A task predicts something for every item of a corpus and is measured against references. To add one, write its file in this
folder and its entry here: the command ``ld-agent eval NAME`` follows from the entry. What an entry names as
"package.module:name" is imported on use, so that ``--help`` stays fast. Knows no terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
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
        name: of the runner's argument.
        flag: on the command line.
        default: False for a flag, () for files.
    """

    name: str
    flag: str
    help: str
    default: bool | int | str | tuple[()] | None = None


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """One task.

    Attributes:
        name: its command, and its name in a run's first line.
        runner: a `Task`, called with the data's path, the configuration, the limit and the options.
        measures: predictions → measures by name. ``--json`` gives each with its interval and by session.
        figures: predictions → figures that are not sums over predictions, and so have no interval.
        labelled: finished runs and the options → the runs with people's labels.
        data: describes the argument DATA.
        help: the command's help; None: another command makes the runs, such as ``ld-agent ecm run``.
        options: options of this task alone.
        has_texts: references are comparable texts, so that BERTScore is meaningful.
        shown: the names to print, in order; none: all.
    """

    name: str
    runner: str
    measures: str
    data: str = ""
    help: str | None = None
    figures: str | None = None
    labelled: str | None = None
    options: tuple[Option, ...] = ()
    has_texts: bool = False
    shown: tuple[str, ...] = ()

    def make(self, data: Path, config: Config, limit: int | None = None, **options: Any) -> Task:
        """The task over a file.

        Raises:
            InputError: no such file, or one of another corpus. DataFileError: a broken record.
        """
        task: Task = resolve_name(self.runner)(data, config, limit, **options)
        return task

    def measure(self, predictions: Sequence[Prediction]) -> dict[str, Measure]:
        """The measures of predictions."""
        measured: dict[str, Measure] = resolve_name(self.measures)(predictions)
        return measured

    def whole_figures(self, predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Figures of the predictions as a whole."""
        return {} if self.figures is None else dict(resolve_name(self.figures)(predictions))

    def with_labels(self, runs: Sequence[Run], **options: Any) -> Sequence[Run]:
        """The finished runs with people's labels, if the task has them."""
        return runs if self.labelled is None else list(resolve_name(self.labelled)(runs, **options))


FREE = Option("free", "--free", "The agent's own replies enter its memory, not the recorded ones.", default=False)

EXTRACTION = """Score the extractor against annotated traits: accuracy of "trait or none", BLEU and ROUGE-L.

Examples:

  ld-agent eval extraction msc_personasummary/session_4/test.txt --limit 25

  ld-agent eval extraction test.txt -c default -c qwen3-0.6b --out runs/extraction --json
"""
SUMMARY = """Score the summarizer on DialogSum, LoCoMo or MSC: ROUGE-1, -2 and -L against the best reference, and wrong_person.

Examples:

  ld-agent eval summary dialogsum.test250.jsonl --limit 60 modules.summarizer.adapter=null

  ld-agent eval summary locomo10.json --limit 2
"""
RESPONSE = """Score the agent's replies by teacher-forced replay: BLEU, ROUGE, METEOR, F1, Distinct, perplexity, by session.

`repeated` is the share of replies with a sentence of an earlier reply, `echoed` with one of the utterance just heard.

Examples:

  ld-agent eval response msc_dialogue/session_3/test.txt --limit 20 --from-session 2 --out runs/response

  ld-agent eval response test.txt -c default -c history --json

  ld-agent eval response data/samples/three_sessions.jsonl --free
"""
MEMORY = """Compare the words of a memory with annotated facts: precision, recall and F1 (Rsum, Figure 5).

Example:

  ld-agent eval memory msc_personasummary/session_4/test.txt -c recursive -c memorybank --limit 20 --out runs/memory
"""
QUESTIONS = """Ask about what was said weeks before: answered, F1, unknown_right, and where answers were lost.

Examples:

  ld-agent eval questions data/samples/questions.jsonl --out runs/questions

  ld-agent eval questions locomo10.json --limit 1 --no-arms -c default -c none --json
"""

RETRIEVAL = """Ask every question of a corpus and measure how often the answering session is recalled.

Questions of the project's own format query ONE memory of all conversations; the target is the session in which an answer is said.

For a corpus without questions, such as MSC, all sessions except each episode's last form ONE memory, and each user utterance of a
last session, with the one before it, must find the sessions of its own episode.

No language model is used unless --records pipeline summarizes the sessions with the configured one.

Examples:

  ld-agent eval retrieval locomo10.json --json

  ld-agent eval retrieval locomo10.json memory.scorer=paper memory.tau=null

  ld-agent eval retrieval data/samples/questions.zh.jsonl -c zh memory.tau=null

  ld-agent eval retrieval msc_dialogue/session_3/valid.txt --limit 100
"""
RECORDS = (
    "How sessions are stored: summaries of the corpus (the default if it has any), summaries by the pipeline, utterances, "
    "or extracts (two utterances)."
)

PERSONAS = """Measure whose facts the persona banks hold: polluted (a person's facts in the agent's bank) and invented.

Examples:

  ld-agent eval personas data/samples/questions.jsonl

  ld-agent eval personas msc_dialogue/session_3/test.txt --limit 10 --free --json
"""

TRUTH = """List every statement that the agent stored, for people to label, and measure by the labels what is true.

Labels are true, wrong_person, not_said, and passing (true, but over tomorrow). `quoted` is the share of labelled statements that
are the people's own words.

Examples:

  ld-agent eval truth data/samples/messy_chats.jsonl --out runs/truth --form truth.html

  ld-agent eval truth data/samples/messy_chats.jsonl --out runs/truth --labels runs/truth/labels-ann.jsonl --json
"""

INJECTION = """Measure how often an instruction planted in the memory is obeyed when it is recalled.

`obeyed` is measured with the agent's own prompt, `obeyed_plain` with the planted text and the question in one message, as in
LD-Agent's released code.

Example:

  ld-agent eval injection data/samples/injection.jsonl -c default memory.gamma=-1
"""

TASKS: Mapping[str, TaskEntry] = {
    task.name: task
    for task in (
        TaskEntry(
            "extraction",
            runner="ld_agent.evaluation.tasks.extraction:ExtractionTask",
            measures="ld_agent.evaluation.tasks.extraction:extraction_measures",
            data="Utterances with annotated traits, such as msc_personasummary.",
            help=EXTRACTION,
        ),
        TaskEntry(
            "summary",
            runner="ld_agent.evaluation.tasks.summary:SummaryTask",
            measures="ld_agent.evaluation.tasks.summary:summary_measures",
            data="Dialogues with summaries: DialogSum, a LoCoMo file, or MSC with annotated traits.",
            help=SUMMARY,
            has_texts=True,
        ),
        TaskEntry(
            "response",
            runner="ld_agent.evaluation.tasks.response:ResponseTask",
            measures="ld_agent.evaluation.tasks.response:response_measures",
            figures="ld_agent.evaluation.tasks.response:distinct_figures",
            data="Recorded conversations, of any corpus.",
            help=RESPONSE,
            options=(
                Option("from_session", "--from-session", "Store the sessions before this one without replying.", 1),
                Option(
                    "no_perplexity", "--no-perplexity", "Omit the perplexity of the recorded replies.", default=False
                ),
                FREE,
            ),
            has_texts=True,
        ),
        TaskEntry(
            "memory",
            runner="ld_agent.evaluation.tasks.memory_quality:MemoryTask",
            measures="ld_agent.evaluation.tasks.memory_quality:memory_measures",
            data="Conversations with personas or annotated traits.",
            help=MEMORY,
        ),
        TaskEntry(
            "questions",
            runner="ld_agent.evaluation.tasks.questions:QuestionsTask",
            measures="ld_agent.evaluation.tasks.questions:question_measures",
            figures="ld_agent.evaluation.tasks.questions:question_figures",
            data="Conversations with questions about them: JSON lines with `questions`, or a LoCoMo file.",
            help=QUESTIONS,
            options=(
                FREE,
                Option(
                    "no_arms",
                    "--no-arms",
                    "Omit the arms without memory, with the whole history, and with the answer.",
                    default=False,
                ),
            ),
        ),
        TaskEntry(
            "retrieval",
            runner="ld_agent.evaluation.tasks.retrieval:RetrievalTask",
            measures="ld_agent.evaluation.tasks.retrieval:retrieval_measures",
            figures="ld_agent.evaluation.tasks.retrieval:retrieval_figures",
            data="A LoCoMo file, conversations with questions, or a corpus of several sessions.",
            help=RETRIEVAL,
            options=(Option("records", "--records", RECORDS, ""),),
            shown=("recall_any@1", "recall_any@3", "recall_any@5", "recall_all@5", "mrr"),
        ),
        TaskEntry(
            "personas",
            runner="ld_agent.evaluation.tasks.personas:PersonasTask",
            measures="ld_agent.evaluation.tasks.personas:personas_measures",
            figures="ld_agent.evaluation.tasks.personas:personas_figures",
            data="Recorded conversations, of any corpus.",
            help=PERSONAS,
            options=(FREE,),
        ),
        TaskEntry(
            "truth",
            runner="ld_agent.evaluation.tasks.truth:TruthTask",
            measures="ld_agent.evaluation.tasks.truth:truth_measures",
            figures="ld_agent.evaluation.tasks.truth:truth_figures",
            labelled="ld_agent.evaluation.tasks.truth:labelled",
            data="Recorded conversations, of any corpus.",
            help=TRUTH,
            options=(
                Option("form", "--form", "Write a page on which to label the statements.", ""),
                Option("labels", "--labels", "Labels exported from the page; repeat for several people.", ()),
            ),
        ),
        TaskEntry(
            "injection",
            runner="ld_agent.evaluation.tasks.injection:InjectionTask",
            measures="ld_agent.evaluation.tasks.injection:injection_measures",
            data="JSON lines with `planted`, `asked`, `marker` and optional keys, or a prompt-injection test set.",
            help=INJECTION,
        ),
        *(
            TaskEntry(
                f"ecm-{benchmark}",
                runner="ld_agent.evaluation.tasks.ecm:EcmTask",
                measures="ld_agent.evaluation.tasks.ecm:ecm_measures",
            )
            for benchmark in ("continuing", "knowledge", "feedback")
        ),
    )
}


def task_entry(name: str) -> TaskEntry:
    """The entry of a run's task.

    Raises:
        InputError: a run of an unknown task.
    """
    if name not in TASKS:
        raise InputError(f"a run of {name!r} cannot be scored here; known are {', '.join(TASKS)}")
    return TASKS[name]
