"""Extracts the reply from a model's answer: without the agent's name, a trailing decision, or repeated sentences.

Complete and streamed answers give the same reply. Pure functions over text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache, partial

from ld_agent.languages import ENGLISH, Language, stock_phrases
from ld_agent.passed import NOTHING_PASSED, Passed
from ld_agent.text import words_of
from ld_agent.types import Utterance

DECISION = re.compile(
    r"(?:^|\n|(?<=[.!?…\"'”)。！？]))[\s<*_\[(#-]{0,40}+(?:remember|decision)[\s>*_\])]{0,40}+:", re.IGNORECASE
)
"""The beginning of a decision: on a separate line, or after a sentence."""
SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*(?=.)")
BORDER = re.compile(r"(?:^|[\n。.!?！？…”’」』\"'])[\s*#\-【\[（(]*")
"""Where a line or sentence begins."""
FEWEST_REPEATED = 4
"""Minimum number of words of a sentence that must not be repeated; shorter ones ("Oh no!") may be."""
CJK = "\u2e80"
"""The first character of scripts that write no blanks between words."""
COMING = re.compile(
    r"(?:^|\n|(?<=[.!?…\"'”)。！？]))[\s<*_\[(#-]{0,40}+(?:"
    r"r(?:e(?:m(?:e(?:m(?:b(?:er?)?)?)?)?)?)?|d(?:e(?:c(?:i(?:s(?:i(?:on?)?)?)?)?)?)?)?[\s>*_\])]{0,40}$",
    re.IGNORECASE,
)
"""An end of a text that may become the beginning of a decision."""


def decision(answer: str) -> bool | None:
    """Parse whether the utterance is worth remembering; None: the answer does not say."""
    decisions = list(DECISION.finditer(answer))
    return yes_or_no(answer[decisions[-1].end() :]) if decisions else None


def yes_or_no(text: str) -> bool | None:
    """Parse the leading yes or no of a text; None: neither."""
    match = re.match(r"\A\W*+(yes|no)\b", text, re.IGNORECASE)
    return None if match is None else match.group(1).casefold() == "yes"


def reply_text(
    answer: str, agent: str, speakers: Sequence[str], *, decides: bool = False, said: Collection[str] | None = None
) -> str:
    """The reply in a model's answer: without the agent's leading name, and ending before another speaker.

    Args:
        decides: a decision follows the reply and is removed.
        said: sentences not to say again (`repeatable`), removed unless nothing else remains; nor is one said twice in
            the reply. None: sentences may come again.
    """
    if decides:
        answer = DECISION.split(answer)[0]
    text = re.sub(
        rf"^\W*(?:{re.escape(agent)}|reply|response)\W{{0,2}}?\s*[:：][\s*]*", "", answer.strip(), flags=re.IGNORECASE
    )
    for name in speakers:
        text = re.split(rf"\n\W{{0,40}}{re.escape(name)}\W{{0,2}}?\s*[:：]", text)[0]
    text = re.split(r"</?(?:utterance|conversation|memory|traits)>", text)[0].strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    return text if said is None else _unrepeated(text, said)


def continued(passed: Passed, said: str) -> str:
    """What to append to a reply that has begun: with the blank that models leave out, except in a client's form, and without the
    beginning that some repeat."""
    begun = passed.begun
    if not begun or said.startswith(begun):
        return said[len(begun) :]
    spaced = said[:1].isalnum() and said[:1] < CJK and not passed.formatted
    return f" {said}" if spaced and (begun[-1].isalnum() or begun[-1] in ".,;:!?…") else said


def repeatable(lines: Iterable[str]) -> frozenset[str]:
    """The sentences that a person would not repeat, because they have enough words.

    A Chinese, Japanese or Korean character counts as a word.
    """
    return frozenset(sentence for line in lines for sentence in long_sentences(line))


def statements(text: str) -> str:
    """A text without its questions, which may be returned: "I'm well. How are you?"."""
    return " ".join(one for one in SENTENCE.split(text) if not one.rstrip().endswith(("?", "？")))


def is_stock_phrase(said: Utterance, agent: str, language: Language) -> bool:
    """Whether this tells nothing: the agent said it because its model gave no reply, or it is all that was kept of what was said
    about forgetting something."""
    by_agent = said.speaker == agent
    words = language.words.telling_nothing if by_agent else (language.words.forget,)
    return said.text in words or (by_agent and said.text in stock_phrases())


def only_repeats(text: str, said: Collection[str]) -> bool:
    """Whether all sentences of a reply that are worth saying have been said, and there is one.

    Args:
        said: as for `reply_text`.
    """
    sentences = repeatable([text])
    return bool(sentences) and sentences.issubset(said)


@lru_cache(4096)
def long_sentences(line: str) -> tuple[str, ...]:
    """The sentences of a text that have enough words, in order, as `_plain` text."""
    sentences = (_plain(sentence) for sentence in SENTENCE.split(line))
    return tuple(sentence for sentence in sentences if len(words_of(sentence)) >= FEWEST_REPEATED)


def _unrepeated(text: str, said: Collection[str]) -> str:
    parts = re.split(f"({SENTENCE.pattern})", text)
    seen, kept = set(said), list[int]()
    for n in range(0, len(parts), 2):
        sentences = long_sentences(parts[n])
        if seen.isdisjoint(sentences):
            kept.append(n)
        seen.update(sentences)
    if not kept:
        return _unrepeated(text, ())
    if len(kept) == (len(parts) + 1) // 2:
        return text
    return "".join(parts[n] + (parts[n + 1] if n + 1 < len(parts) else "") for n in kept).strip()


def _plain(sentence: str) -> str:
    return " ".join(re.findall(r"[\w'’]+", sentence.casefold()))


class ReplyStream:
    """Shows a reply while it is generated, but only what `reply_text` will keep; one in the client's form as it is.

    A line that may begin with a speaker's name is held back until that is clear.

    Args:
        show: called with each piece to show.
        decides: a decision follows the reply and is not shown.
        said: as for `reply_text`; a potential repetition is held back until it differs, and so are short sentences
            before it, because an answer that `only_repeats` may be replaced.
        language: that of the prompt; its own markers are not shown either.
        passed: see `continued`.
    """

    def __init__(
        self,
        agent: str,
        speakers: Sequence[str],
        show: Callable[[str], None],
        *,
        decides: bool = False,
        said: Collection[str] | None = None,
        language: Language = ENGLISH,
        passed: Passed = NOTHING_PASSED,
    ) -> None:
        self._passed = passed
        self._read = partial(language.canonical_reply, decides=decides)
        self._markers = [marker.casefold() for marker in language.reply_markers(decides=decides)]
        self._agent, self._speakers, self._show, self._decides, self._said = agent, speakers, show, decides, said
        self._labels = [f"{name}{c}".casefold() for name in (agent, *speakers, "reply", "response") for c in ":："]
        self._text, self._shown = "", ""

    def __call__(self, piece: str) -> None:
        """Process the next piece of the model's answer."""
        self._text += piece
        kept = self._text if self._passed.formatted else self._kept()
        if self._said and repeatable([kept]).issubset(self._said):
            return  # shown only if nothing else comes
        if self._passed.begun.startswith(kept):
            return  # perhaps repeated
        kept = continued(self._passed, kept)
        if len(kept) > len(self._shown) and kept.startswith(self._shown):
            self._show(kept[len(self._shown) :])
            self._shown = kept

    def _kept(self) -> str:
        """What of the reply is settled."""
        line = self._text[self._text.rfind("\n") + 1 :]
        begun = line.lstrip(' \t*"').casefold()
        held = len(line) + 1 if any(label.startswith(begun) for label in self._labels) else 0
        if self._decides and (coming := COMING.search(self._text)):
            held = max(held, len(self._text) - coming.start())
        start = max((end.end() for end in SENTENCE.finditer(self._text)), default=0)
        begun, said = _plain(self._text[start:]), self._said
        if said is not None:
            said = {*said, *repeatable([self._text[:start]])}
        if any(sentence.startswith(begun) for sentence in said or ()):
            held = max(held, len(self._text) - start)
        settled = self._read(self._text[: max(len(self._text) - max(held, self._marked()), 0)])
        return reply_text(settled, self._agent, self._speakers, decides=self._decides, said=self._said)

    def _marked(self) -> int:
        """The length of an end that may become a marker in the prompt's language, or begins with one."""
        start = [border.end() for border in BORDER.finditer(self._text)][-1]
        begun = self._text[start:].casefold()
        marked = any(marker.startswith(begun) or begun.startswith(marker) for marker in self._markers)
        return len(self._text) - start if begun and marked else 0
