"""When does a newer trait contradict an older one? Rules over the two sentences; no model, no store.

A contradiction is either another value for something that has one value at a time (where one lives, one's age, how many
dogs one has), or the same statement with its polarity turned ("I like coffee", "I can't stand coffee"). In doubt there is
none: two traits that stand side by side do less harm than a true one that is gone.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ld_agent.memory import east_asian_contradiction as east_asian
from ld_agent.modules.wording import EAST_ASIAN

COUNTS = "no one two three four five six seven eight nine ten".split()
NUMBER_WORDS = {word: str(number) for number, word in enumerate(COUNTS)} | {"zero": "0"}
SOME = "at least 1"  # "I have a dog" does not say that there is no second one
NEGATION = re.compile(
    r"\b(?:not|never|no longer|(?<!am )(?<!'m )(?<!get )(?<!got )used to|quit|quitted|stopped|gave up|given up|without|"
    r"former|formerly|can't stand|cannot stand|\w+n't|cannot|hate|hated|dislike|disliked|despise)\b"
)
WISH = re.compile(r"\b(?:want|wish|hope|hoping|plan|dream|learn)")
LIKING = frozenset("like liked love loved enjoy enjoyed prefer hate hated dislike disliked despise stand".split())
IGNORED = frozenset(
    (
        "i me my a an the and or but of in on at to for from with by as is am are was were be been has had do does did "
        "not never no longer more any anymore used now still really very also just quit stopped gave given up without "
        "cannot can will would currently former formerly that this it"
    ).split()
)
_NOW = r"(?:just |recently |now |currently |still |actually |presently )*"
_BEGIN = rf"^i (?:have been |have |am |got |recently )?{_NOW}"
_NO_PLACE = r"(?!(?:an?|my|our|his|her|their|with|be|get|last|this|next|order|\d\S*)\b)"
_NO_EMPLOYER = rf"(?!(?:nights?|home|days?|long|myself|many|over|years|\d\S*|{'|'.join(COUNTS)})\b)"
_NUMBER = rf"\d+|an?|{'|'.join(NUMBER_WORDS)}"
SLOTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("home", rf"{_BEGIN}(?:live|living|reside|moved|relocated|based)(?: back)? (?:in|to) {_NO_PLACE}(?P<value>.+)"),
        ("work as", rf"{_BEGIN}(?:started )?(?:work|working|a job) as (?:an? |the )?(?P<value>.+)"),
        ("work at", rf"{_BEGIN}(?:started )?(?:work|working) (?:at|for) {_NO_EMPLOYER}(?:an? |the )?(?P<value>.+)"),
        ("name", r"^(?:my name is|i am called) (?P<value>[\w' -]+)"),
        ("age", r"^i am (?P<value>\d{1,3}|[a-z]+(?:-[a-z]+)?) years (?:old|of age)\b"),
        ("age", r"^i am (?P<value>\d{1,3})$"),
        (
            "marriage",
            rf"{_BEGIN}(?:got |happily |newly )*(?P<value>single|married|divorced|engaged(?! (?:in|with|by)\b)|widowed)\b",
        ),
        ("favorite {of}", r"^my favou?rite (?P<of>[\w ]{1,30}?)(?: of all time)? (?:is|are|was) (?P<value>.+)"),
        ("name of my {of}", r"^my (?P<of>\w+)(?:'s name)? is (?:named|called) (?P<value>[\w' -]+)"),
        ("name of my {of}", r"^my (?P<of>\w+)'s name is (?P<value>[\w' -]+)"),
        ("number of {of}", rf"^i (?:have got|have|own) {_NOW}(?P<value>{_NUMBER}) (?P<of>\w+)(?: now| these days)?$"),
        (
            "number of {of}",
            r"^i (?P<none>don't|do not|no longer) (?:have|own) (?:an? |any )?(?P<of>\w+)(?: anymore| any more)?$",
        ),
    )
)
MORE = re.compile(  # where a place or an employer is named in full and a circumstance begins
    r"(?: (?:with|for|since|because|where|when|and|but|near|after|during|from|about|as|in|at|on|to|last|this|next|now|"
    rf"currently|these|today|a|an|{'|'.join(COUNTS)}|\d+)\b| ?[;(]).*"
)


@lru_cache(maxsize=4096)
def slot(trait: str) -> tuple[str, str] | None:
    """The one-valued thing that a trait is about and the value it gives, both in plain lower case; None: no such thing.

    >>> slot("I now live in Lisbon.")
    ('home', 'lisbon')
    """
    if EAST_ASIAN.search(trait):
        return east_asian.slot(trait)
    text = _plain(trait)
    for name, pattern in SLOTS:
        found = pattern.match(text)
        if not found:
            continue
        parts = found.groupdict()
        of = _singular(parts.get("of") or "")
        if name.startswith("number"):
            value = "0" if parts.get("none") else parts["value"]
            return name.format(of=of), SOME if value in ("a", "an") else NUMBER_WORDS.get(value, value)
        if negated(trait):
            return None
        value = MORE.sub("", parts["value"]) if name in ("home", "work as", "work at") else parts["value"]
        return name.format(of=of), value.strip(" .!,")
    return None


def same_slot(newer: str, older: str) -> bool:
    """Whether two traits give a value to the same one-valued thing: then they are of one topic, however they are worded."""
    slot_newer, slot_older = slot(newer), slot(older)
    return slot_newer is not None and slot_older is not None and slot_newer[0] == slot_older[0]


def contradicts(newer: str, older: str) -> bool:
    """Whether the newer trait says of the same thing what the older one excludes."""
    slot_newer, slot_older = slot(newer), slot(older)
    if slot_newer and slot_older and slot_newer[0] == slot_older[0]:
        return not _agree(slot_newer[1], slot_older[1])
    if negated(newer) == negated(older) or bool(WISH.search(_plain(newer))) != bool(WISH.search(_plain(older))):
        return False
    words_newer, words_older = _content(newer), _content(older)
    shared = len(words_newer & words_older)
    return shared > 0 and shared / min(len(words_newer), len(words_older)) >= 2 / 3


def differ(a: str, b: str) -> bool:
    """Whether two traits cannot be one, however near their embeddings are: another number, or the other polarity."""
    return negated(a) != negated(b) or _numbers(a) != _numbers(b)


def negated(trait: str) -> bool:
    """Whether a trait denies, ends or dislikes what it is about; two negations undo each other."""
    if EAST_ASIAN.search(trait):
        return east_asian.negated(trait)
    return len(NEGATION.findall(_plain(trait))) % 2 == 1


def _agree(newer: str, older: str) -> bool:
    """One value may say more than the other: "portland, oregon" is still "portland", and who has two dogs has a dog."""
    if EAST_ASIAN.search(newer + older):
        return east_asian.agree(newer, older)
    if SOME in (newer, older):
        return older != "0" if newer == SOME else newer == "1"
    words_newer, words_older = set(re.findall(r"\w+", newer)), set(re.findall(r"\w+", older))
    return words_newer <= words_older or words_older <= words_newer


def _plain(trait: str) -> str:
    text = " ".join(trait.casefold().replace("’", "'").split()).rstrip(".! ")
    return re.sub(r"\bi've\b", "i have", re.sub(r"\bi'm\b", "i am", text))


def _numbers(trait: str) -> set[str]:
    words = re.findall(r"\w+", trait.casefold())
    return {n for w in words if (n := NUMBER_WORDS.get(w, w)).isdigit() and n != "1"}


def _content(trait: str) -> set[str]:
    if EAST_ASIAN.search(trait):
        return east_asian.content(trait)
    words = re.findall(r"\w+(?:'\w+)?", _plain(trait))
    return {"like" if w in LIKING else _stem(w) for w in words if w not in IGNORED and not w.endswith("n't")}


def _stem(word: str) -> str:
    """A crude stem, enough to see "smoking" in "smoke" and "teacher" in "teaching"."""
    stem = re.sub(r"(?:ing|er|ed|e)$", "", _singular(word)) if len(word) > 4 else word
    return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
