"""The modules that can be tuned, one entry each: all that building rows, tuning, measuring and model cards know of them.

To add one, write its file in this folder and its entry here; its settings are those of its name in `ModulesSection`. What an
entry names as "package.module:function" is imported when it is used, so that looking at the table costs nothing. Knows no
prompt, no corpus and no tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name

from ld_agent.errors import InputError

NO_TRAIT = "NO_TRAIT"


@dataclass(frozen=True, slots=True)
class TunedModule:
    """What a tuned module is.

    Attributes:
        name: in configs (``modules.NAME``), in requests and on the command line.
        purpose: what it does, as its adapter's card says it: "It …".
        prompts: its files in ``a language``, "*" as in a file name.
        rows: the function that makes its training rows; see `training.row_building.BuildRequest`.
        options: options of ``training.build`` that are for this module.
        answer: the function that takes from a raw answer what counts of it, as at inference; None: all of it.
        nothing: the answer that says there is nothing to say; None: there is always something.
        metrics: what is measured of answers to validation rows: ``bleu_n``, ``rouge_n``, ``rouge_l`` and, with ``nothing``,
            ``accuracy`` of saying so.
        error: the metrics whose mean falls short of 1 by the error of an answer, for tuning on the measure itself; none: a
            different answer is not a wrong one.
    """

    name: str
    purpose: str
    prompts: tuple[str, ...]
    rows: str
    metrics: tuple[str, ...]
    options: frozenset[str] = frozenset()
    answer: str | None = None
    nothing: str | None = None
    error: tuple[str, ...] = ()

    def read_answer(self, text: str) -> str:
        """What counts of a raw answer."""
        return text if self.answer is None else str(resolve_name(self.answer)(text))


TUNED: Mapping[str, TunedModule] = {
    module.name: module
    for module in (
        TunedModule(
            "summarizer",
            purpose="summarises a finished session of a conversation in a few sentences",
            prompts=("summarizer*.yaml",),
            rows="training.summarizer:rows",
            options=frozenset({"--longest"}),
            answer="ld_agent.modules.summarizer:cleaned",
            metrics=("rouge_1", "rouge_2", "rouge_l"),
            error=("rouge_1", "rouge_2", "rouge_l"),
        ),
        TunedModule(
            "extractor",
            purpose=f"says what an utterance reveals about its speaker, or {NO_TRAIT}",
            prompts=("extractor_*.yaml",),
            rows="training.extractor:rows",
            answer="training.extractor:answer",
            nothing=NO_TRAIT,
            metrics=("accuracy", "bleu_2", "bleu_3", "rouge_l"),
            error=("rouge_l",),
        ),
        TunedModule(
            "generator",
            purpose="replies in a long-term conversation, given what is remembered and known of the people in it",
            prompts=("generator.yaml",),
            rows="training.generator:rows",
            options=frozenset(
                {
                    "--ablations",
                    "--annotated-personas",
                    "--batch",
                    "--no-agent-personas",
                    "--no-memory",
                    "--no-user-personas",
                    "--on",
                }
            ),
            metrics=("bleu_2", "bleu_3", "rouge_l"),
        ),
        TunedModule(
            "memory",
            purpose="writes the records, memos and memories of the mechanisms other than events, and chooses among them",
            prompts=("conditional_rec*.yaml", "conditional_ref*.yaml", "recursive_rewrite.yaml", "memo*.yaml"),
            rows="training.memory:rows",
            metrics=("rouge_1", "rouge_l"),
        ),
    )
}


def tuned_module(name: str) -> TunedModule:
    """Return a module's entry.

    Raises:
        InputError: no such module; lists those there are.
    """
    if name not in TUNED:
        raise InputError(f"{name!r} is not a module that can be tuned; give one of {', '.join(TUNED)}")
    return TUNED[name]
