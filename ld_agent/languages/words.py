"""The words of one language: what the code itself says, and looks for in a model's answers. Knows no prompt and no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

UNITS = {"year": 31_557_600, "month": 2_629_800, "week": 604_800, "day": 86_400, "hour": 3600, "minute": 60}
KEYS: Mapping[str, Sequence[str]] = {
    "ago": (*UNITS, "now"),
    "kinds": "golden events recursive conditional history summary bm25 dense memorybank memochat".split(),
    "channels": "observe import tool document".split(),
}
"""The keys of those entries of ``words.yaml`` that are tables."""
PLACES: Mapping[str, frozenset[str]] = {
    "told": frozenset({"date", "ago"}),
    "said_by": frozenset({"names"}),
    "said": frozenset({"speaker", "text"}),
    "corrected": frozenset({"text", "told"}),
    "reminder": frozenset({"told", "question"}),
    "reason": frozenset({"told"}),
    "quoting": frozenset({"told"}),
    "forgotten": frozenset({"told"}),
}
"""What the sentences of ``words.yaml`` have in braces."""


class Words(BaseModel):
    """The words of one language, ``words.yaml``.

    Attributes:
        name: the language's name for itself.
        scripts: first words of the Unicode names of its letters, such as LATIN, CJK, HANGUL.
        encoder: the encoder to use instead of the English default; null: the default will do.
        listed: separators of a list of names: between two names, and before the last.
        nobody: shown in place of a missing name.
        ago: for each unit, the singular and plural texts, with ``{n}``; and ``now``.
        told: says in a prompt for models that follow instructions when a memory was told, with ``{date}`` and ``{ago}``.
        said_by: names the speakers of a memory, with ``{names}``.
        said: renders a quoted utterance, with ``{speaker}`` and ``{text}``.
        corrected: renders the ``{text}`` of a quoted utterance with what was ``{told}`` later that ended what it tells.
        opening: replaces the user's turn if the agent speaks first.
        speechless, not_told: replies used if the model returns none, or an invented one.
        forgotten: what the agent says when it has forgotten something, ``{told}``, on request; it keeps only that it said
            ``forgot``, and of the request ``forget``.
        not_found: the same if there is nothing of the kind to forget.
        reminder: puts a quote, ``{told}``, before a question, in the asker's words.
        reason: follows a yes or no, and quotes what was ``{told}``.
        quoting: an unsure reply that quotes what was ``{told}``.
        kinds: what memories of each mechanism are called in a prompt.
        channels: labels in prompts for texts that were not said in the chat.
        themes: what traits are about, as headings on the page, each with sample traits that resemble most of their kind; one
            without samples takes the rest.
        no_trait: the extractor's answers if there is no trait.
        markers: for each marker that parsers look for, the words that may replace it before a colon.
        answers: the same for yes, no and none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    scripts: tuple[str, ...]
    encoder: str | None
    listed: tuple[str, str]
    nobody: str
    ago: Mapping[str, tuple[str, str]]
    told: str = "{date}, {ago}"
    said_by: str
    said: str
    corrected: str
    opening: str
    speechless: str
    not_told: str
    forgotten: str
    forgot: str
    forget: str
    not_found: str
    reminder: str
    reason: str
    quoting: str
    kinds: Mapping[str, str]
    channels: Mapping[str, str]
    themes: Mapping[str, tuple[str, ...]]
    no_trait: tuple[str, ...]
    markers: Mapping[str, tuple[str, ...]]
    answers: Mapping[str, tuple[str, ...]]

    @field_validator(*KEYS)
    @classmethod
    def _tables_are_complete(cls, table: Mapping[str, object], info: ValidationInfo) -> Mapping[str, object]:
        if missing := [key for key in KEYS[str(info.field_name)] if key not in table]:
            raise ValueError(f"lacks the key {missing[0]!r}")
        return table

    @field_validator(*PLACES)
    @classmethod
    def _sentences_have_their_places(cls, text: str, info: ValidationInfo) -> str:
        places = PLACES[str(info.field_name)]
        if {name for _, name, _, _ in Formatter().parse(text) if name is not None} != places:
            raise ValueError(f"{text!r} must have in braces: {', '.join(sorted(places))}")
        return text

    @field_validator("themes")
    @classmethod
    def _one_theme_takes_the_rest(cls, themes: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        if sorted(map(bool, themes.values()))[:2] != [False, True]:
            raise ValueError("must have themes with sample traits, and exactly one without, which takes the rest")
        return themes

    @property
    def telling_nothing(self) -> tuple[str, ...]:
        """What an agent says of itself that tells nothing, and requests of which nothing else is kept."""
        return self.speechless, self.forgot, self.not_found, self.forget
