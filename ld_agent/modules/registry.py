"""The tunable modules, one entry each: everything that row building, tuning, measuring and model cards know about them.

To add one, write its file in this folder and its entry here; its settings are under its name in `ModulesSection`.
Functions named as "package.module:function" are imported on use, so that reading the table costs nothing. Knows no
prompt, no corpus and no tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name

from ld_agent.errors import InputError
from ld_agent.languages.reading import Reading

NO_TRAIT = "NO_TRAIT"
NOT_SAID = "NOT_SAID"


@dataclass(frozen=True, slots=True)
class TunedModule:
    """The description of a tunable module.

    Attributes:
        name: in configs (``modules.NAME``), in requests and on the command line.
        purpose: what it does, completing "It …" on its adapter's card.
        prompts: its files in ``a language``, "*" as in a file name.
        rows: the function that makes its training rows; see `training.row_building.BuildRequest`.
        options: options of ``training.build`` for this module only.
        answer: the function that parses a raw answer as at inference; None: use it unchanged.
        nothing: the answer that means there is nothing to say; None: there always is.
        metrics: the metrics of answers to validation rows: ``bleu_n``, ``rouge_n``, ``rouge_l`` and, with ``nothing``,
            ``accuracy`` of that decision.
    """

    name: str
    purpose: str
    prompts: tuple[str, ...]
    rows: str
    metrics: tuple[str, ...]
    options: frozenset[str] = frozenset()
    answer: str | None = None
    nothing: str | None = None

    def read_answer(self, text: str, reading: Reading) -> str:
        """Parse a raw answer."""
        return text if self.answer is None else str(resolve_name(self.answer)(text, reading))


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
        ),
        TunedModule(
            "extractor",
            purpose=f"says what an utterance reveals about its speaker, or {NO_TRAIT}",
            prompts=("extractor_*.yaml",),
            rows="training.extractor:rows",
            answer="training.extractor:answer",
            nothing=NO_TRAIT,
            metrics=("accuracy", "bleu_2", "bleu_3", "rouge_l"),
        ),
        TunedModule(
            "generator",
            purpose="replies in a long-term conversation, given what is remembered and known of the people in it",
            prompts=("generator.yaml",),
            rows="training.generator:rows",
            options=frozenset({"--annotated-personas", "--batch", "--on"}),
            metrics=("bleu_2", "bleu_3", "rouge_l"),
        ),
        TunedModule(
            "memory",
            purpose="writes the records, memos and memories of the mechanisms other than events, and chooses among them",
            prompts=("conditional_rec*.yaml", "conditional_ref*.yaml", "recursive_rewrite.yaml", "memo*.yaml"),
            rows="training.memory:rows",
            metrics=("rouge_1", "rouge_l"),
        ),
        TunedModule(
            "reader",
            purpose=f"answers a question about the past from one passage, or says {NOT_SAID}",
            prompts=("reader.yaml",),
            rows="training.reader:rows",
            nothing=NOT_SAID,
            metrics=("accuracy", "bleu_2", "rouge_l"),
        ),
    )
}


def tuned_module(name: str) -> TunedModule:
    """Return a module's entry.

    Raises:
        InputError: no such module; lists the existing ones.
    """
    if name not in TUNED:
        raise InputError(f"{name!r} is not a module that can be tuned; give one of {', '.join(TUNED)}")
    return TUNED[name]
