"""Whether a newer trait contradicts an older one: rules over the two sentences, worded in each language's folder. No model,
no store.

A contradiction is either a different value for something that has one value at a time (home, age, number of dogs), or
the same statement with opposite polarity ("I like coffee", "I can't stand coffee"). If in doubt there is none: keeping
two traits does less harm than losing a true one.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ld_agent.languages.reading import Reading
from ld_agent.text import EAST_ASIAN

SOME = "at least 1"  # "I have a dog" does not rule out a second one


@lru_cache(maxsize=4096)
def slot(trait: str, reading: Reading) -> tuple[str, str] | None:
    """Return the single-valued attribute that a trait is about and its value, both in lower case; None if there is
    none.

    >>> from ld_agent.languages import ENGLISH
    >>> slot("I now live in Lisbon.", ENGLISH.reading)
    ('home', 'lisbon')
    """
    text = _plain(trait, fold=False)
    for name, pattern in reading.slots:
        match = pattern.match(text)
        if not match:
            continue
        parts = {group: value and value.casefold() for group, value in match.groupdict().items()}
        of = _singular(parts.get("of") or "")
        if name.startswith("number"):
            value = "0" if parts.get("none") else reading.numerals.get(parts["value"], parts["value"])
            return name.format(of=of), value if value.isdigit() else SOME
        if negated(trait, reading):
            return None
        value = parts["value"]
        if name in ("home", "work as", "work at"):
            value = reading.pattern("circumstance").sub("", value)
        return name.format(of=of), value.strip(" .!,。，")
    return None


def same_slot(newer: str, older: str, reading: Reading) -> bool:
    """Whether two traits give a value to the same single-valued attribute, and so share a topic however they are
    worded."""
    slot_newer, slot_older = slot(newer, reading), slot(older, reading)
    return slot_newer is not None and slot_older is not None and slot_newer[0] == slot_older[0]


def contradicts(newer: str, older: str, reading: Reading) -> bool:
    """Whether the newer trait says something that the older one excludes."""
    slot_newer, slot_older = slot(newer, reading), slot(older, reading)
    if slot_newer and slot_older and slot_newer[0] == slot_older[0]:
        return not _agree(slot_newer[1], slot_older[1])
    if negated(newer, reading) == negated(older, reading) or _wishes(newer, reading) != _wishes(older, reading):
        return False
    words_newer, words_older = _content(newer, reading), _content(older, reading)
    shared = len(words_newer & words_older)
    return shared > 0 and shared / min(len(words_newer), len(words_older)) >= 2 / 3


def differ(a: str, b: str, reading: Reading) -> bool:
    """Whether two traits must differ, however close their embeddings are: another number or the opposite polarity."""
    return negated(a, reading) != negated(b, reading) or _numbers(a, reading) != _numbers(b, reading)


def negated(trait: str, reading: Reading) -> bool:
    """Whether a trait denies, ends or dislikes what it is about; two negations cancel out."""
    return sum(1 for _ in reading.pattern("denial").finditer(_plain(trait))) % 2 == 1


def _wishes(trait: str, reading: Reading) -> bool:
    return reading.pattern("wish").search(_plain(trait)) is not None


def _agree(newer: str, older: str) -> bool:
    """Whether two values are compatible, one possibly more specific: "portland, oregon" is "portland", and two dogs
    include a dog."""
    if EAST_ASIAN.search(newer + older):
        contained = newer in older or older in newer  # "上海浦东" is still "上海"
        return newer == older or (contained and not newer.isdigit() and not older.isdigit())
    if SOME in (newer, older):
        return older != "0" if newer == SOME else newer == "1"
    words_newer, words_older = ({_stem(word) for word in re.findall(r"\w+", value)} for value in (newer, older))
    return words_newer <= words_older or words_older <= words_newer


def _plain(trait: str, *, fold: bool = True) -> str:
    """A trait without full stops and short forms, in lower case unless not ``fold``ed."""
    text = " ".join((trait.casefold() if fold else trait).replace("’", "'").split()).rstrip(".!。！ ")
    return re.sub(r"(?i)\bi've\b", "i have", re.sub(r"(?i)\bi'm\b", "i am", text))


def _numbers(trait: str, reading: Reading) -> set[str]:
    words = re.findall(r"\w+", trait.casefold())
    return {n for w in words if (n := reading.numerals.get(w, w)).isdigit() and n != "1"}


def _content(trait: str, reading: Reading) -> set[str]:
    """Stems of the words that carry a trait's content; in Chinese and Korean, pairs of characters, or a single one."""
    if EAST_ASIAN.search(trait):
        runs = reading.pattern("empty").sub(" ", trait).split()
        return {run[n : n + 2] for run in runs for n in range(max(len(run) - 1, 1))}
    words = re.findall(r"\w+(?:'\w+)?", _plain(trait))
    empty, tastes = reading.pattern("empty"), reading.tastes
    return {"like" if w in tastes else _stem(w) for w in words if not empty.fullmatch(w) and not w.endswith("n't")}


def _stem(word: str) -> str:
    """A crude stem, enough to match "smoking" with "smoke" and "teacher" with "teaching"."""
    stem = re.sub(r"(?:ing|er|ed|e)$", "", _singular(word)) if len(word) > 4 else word
    return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
