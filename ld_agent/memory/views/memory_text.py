"""A memory as facts by speaker: parsed from a model's answer, counted, compared and rendered. Pure functions; knows no
model."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

from ld_agent.languages.reading import Reading
from ld_agent.text import EAST_ASIAN, REPORTING, stems_of, words_of

Facts = dict[str, list[str]]
"""Sentences by speaker, oldest first; under "" those about nobody in particular."""

_MARK = re.compile(r"^\s*(?:[-*•–]+|\(?\d{1,2}[.):])\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“(]?[^\W\d_a-z])|(?<=[。！？])\s*")
_PIECE_END = re.compile(r"(?<=[,;])\s+|(?<=[.!?])(?:\s+|$)|(?<=[，；。！？])|\n+")
FEWEST_WORDS = 2
SUPPORTED = 0.5
"""Share of a note's content words that the dialogue must contain."""
_NAME = re.compile(
    r"(?<=[^.!?:\s\d] )([A-Z][^\W\d_]+)|(?:^|[.!?:] )([A-Z][^\W\d_]+?)(?<!ed)(?<!ing)(?= (?:\w+s|will|had)\b)"
)
"""A capitalized word: within a sentence, or as its subject."""


def facts_from(answer: str, speakers: Sequence[str], reading: Reading) -> Facts:
    """Parse facts from an answer: lines or sentences under a speaker's name, or sentences that begin with it.

    Questions, exact repetitions and texts of fewer than two words are dropped.
    """
    names = {name.casefold(): name for name in speakers if name}
    facts: Facts = {}
    current, nothing = "", reading.patterns["nothing"]
    seen: set[tuple[str, ...]] = set()
    for line in _labelled(answer.replace("**", ""), speakers).splitlines():
        line = _MARK.sub("", line).strip()
        if "<" in line and re.search(r"</?(?:memory|conversation)>", line):
            continue
        head, colon, rest = re.sub("：", ":", line, count=1).partition(":")
        label = head.strip(" *_#\"'[]").casefold()
        if colon and label in names:
            current, line = names[label], rest.strip()
        for sentence in _SENTENCE_END.split(line):
            sentence = " ".join(_MARK.sub("", sentence).split())
            key = tuple(words_of(sentence))
            if len(key) < FEWEST_WORDS or nothing.fullmatch(sentence.strip(" .。")) or key in seen:
                continue
            if sentence.endswith(("?", "？")) or (not current and sentence.endswith(":")):  # "Here is the new memory:"
                continue
            seen.add(key)
            facts.setdefault(current or _subject(sentence, names), []).append(sentence)
    return facts


def _labelled(answer: str, speakers: Sequence[str]) -> str:
    """An answer in which every speaker's name with a colon begins a line: "Ann: Skis. Ben: Swims."."""
    names = "|".join(re.escape(name) for name in speakers if name)
    return re.sub(rf"(?<=[.!?。！？])[ \t]*(?=(?:{names})\s*[:：])", "\n", answer) if names else answer


def _subject(sentence: str, names: dict[str, str]) -> str:
    lowered = sentence.casefold()
    return next((name for key, name in names.items() if re.match(rf"{re.escape(key)}{_ends(key)}", lowered)), "")


def _ends(name: str) -> str:
    """What must not follow a name: letters, except in scripts without spaces between words."""
    return "" if EAST_ASIAN.match(name[-1]) else r"(?!\w)"


def capped(facts: Facts, most: int) -> Facts:
    """Keep at most that many sentences in all; the speaker with most loses the oldest."""
    kept = {speaker: list(sentences) for speaker, sentences in facts.items() if sentences}
    for _ in range(sum(map(len, kept.values())) - most):
        longest = max(kept, key=lambda speaker: len(kept[speaker]))
        kept[longest].pop(0)
    return {speaker: sentences for speaker, sentences in kept.items() if sentences}


def lost(old: Facts, new: Facts, reading: Reading) -> float:
    """The share of old sentences, in [0, 1], less than half of whose content words are in the new memory."""
    before = [meaning(sentence, reading) for sentences in old.values() for sentence in sentences]
    before = [words for words in before if words]
    if not before:
        return 0.0
    after = meaning(memory_text(new), reading)
    return sum(len(words & after) * 2 < len(words) for words in before) / len(before)


def meaning(text: str, reading: Reading) -> set[str]:
    """The content of a text: stems of its words, or the characters of East Asian scripts."""
    return set(EAST_ASIAN.findall(text)) | stems_of(EAST_ASIAN.sub(" ", text), reading)


def supported(text: str, source: str, reading: Reading, names: str = "", share: float = SUPPORTED) -> bool:
    """Whether the dialogue contains all names and a share of the other words of a text, so that the text is not made
    up.

    Args:
        source: the utterances, with their speakers.
        names: further names that are allowed.
    """
    people, said = meaning(names, reading), meaning(source, reading)
    mentioned = {word for pair in _NAME.findall(text) for word in pair if word}
    if any(stems_of(name, reading) - said - people for name in mentioned):
        return False
    words = meaning(text, reading) - people - REPORTING
    return len(words & said) >= share * len(words)


def repetitive(text: str) -> bool:
    """Whether a text repeats one phrase over and over."""
    words = words_of(text)
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    return bool(triples) and triples.most_common(1)[0][1] > max(4, len(words) // 6)


def finished(answer: str) -> str:
    """An answer that reached its length limit, without the item that was cut off and, if it repeats the same items up to
    there, with each once."""
    starts = [0, *(end.end() for end in _PIECE_END.finditer(answer))]
    items = [answer[a:b].strip(" ,;.，；。\n").casefold() for a, b in itertools.pairwise(starts)]
    kept = len(items)
    for period in range(1, kept // 2 + 1):
        if items[-period:] == items[-2 * period : -period]:
            while items[kept - 2 * period : kept - period] == items[-period:]:
                kept -= period
            break
    return answer[: starts[kept]].rstrip(" ,;，；\n") if kept else answer


def memory_text(facts: Facts) -> str:
    """The facts as text, one line per speaker."""
    return "\n".join(
        f"{speaker}: {' '.join(map(_closed, sentences))}" if speaker else " ".join(map(_closed, sentences))
        for speaker, sentences in facts.items()
        if sentences
    )


def _closed(sentence: str) -> str:
    return sentence if sentence[-1] in '.!?。！？"”' else sentence + "."
