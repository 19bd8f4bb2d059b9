"""The tunable modules, one entry each: everything that row building, tuning and model cards know about them.

To add one, write its file in this folder and its entry here; its settings are under its name in `ModulesSection`.
Functions named as "package.module:function" are imported on use, so that reading the table costs nothing. Knows no
prompt, no corpus and no tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NO_TRAIT = "NO_TRAIT"
NOT_SAID = "NOT_SAID"


@dataclass(frozen=True, slots=True)
class TunedModule:
    """The description of a tunable module.

    Attributes:
        name: in configs (``modules.NAME``), in requests and on the command line.
        purpose: what it does, completing "It …" on its adapter's card.
        prompts: its files in ``a language``, "*" as in a file name.
        rows: the function that makes its training rows; see `training.rows.BuildRequest`.
        options: options of ``training.build`` for this module only.
    """

    name: str
    purpose: str
    prompts: tuple[str, ...]
    rows: str
    options: frozenset[str] = frozenset()


TUNED: Mapping[str, TunedModule] = {
    module.name: module
    for module in (
        TunedModule(
            "summarizer",
            purpose="summarises a finished session of a conversation in a few sentences",
            prompts=("summarizer*.yaml",),
            rows="training.summarizer:rows",
            options=frozenset({"--longest"}),
        ),
        TunedModule(
            "extractor",
            purpose=f"says what an utterance reveals about its speaker, or {NO_TRAIT}",
            prompts=("extractor_*.yaml",),
            rows="training.extractor:rows",
        ),
        TunedModule(
            "generator",
            purpose="replies in a long-term conversation, given what is remembered and known of the people in it",
            prompts=("generator.yaml",),
            rows="training.generator:rows",
            options=frozenset({"--batch"}),
        ),
        TunedModule(
            "memory",
            purpose="writes the records, memos and memories of the mechanisms other than events, and chooses among them",
            prompts=("conditional_rec*.yaml", "conditional_ref*.yaml", "recursive_rewrite.yaml", "memo*.yaml"),
            rows="training.memory:rows",
        ),
        TunedModule(
            "reader",
            purpose=f"answers a question about the past from one passage, or says {NOT_SAID}",
            prompts=("reader.yaml",),
            rows="training.reader:rows",
        ),
    )
}
