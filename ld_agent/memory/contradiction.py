"""When does a newer trait contradict an older one? Rules over the two sentences; no model, no store.

A contradiction is either another value for something that has one value at a time (where one lives, one's age, how many
dogs one has), or the same statement with its polarity turned ("I like coffee", "I can't stand coffee").
"""

from __future__ import annotations

import re

COUNTS = "no one two three four five six seven eight nine ten".split()
NUMBER_WORDS = {word: number for number, word in enumerate(COUNTS)} | {"a": 1, "an": 1, "zero": 0}
NEGATION = re.compile(
    r"\b(?:not|never|no longer|no more|anymore|used to|quit|quitted|stopped|gave up|given up|without|former|formerly|"
    r"\w+n['’]t|cannot|hate|hated|dislike|despise|can['’]?t stand)\b",
    re.IGNORECASE,
)
IGNORED = frozenset(
    (
        "i me my a an the and or but of in on at to for from with by as is am are was were be been have has had do "
        "does did not never no longer more any anymore used now still really very also just quit stopped gave given "
        "up like likes love loves loved enjoy enjoys enjoyed liked prefer hate hated hates dislike despise stand "
        "cannot can will would currently former formerly that this it"
    ).split()
)
_NOW = r"(?:just |recently |now |currently |still |actually |presently )*"
_HERE = r"(?: now| currently| these days| at the moment| today)?\W*$"
SLOTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "home",
        re.compile(
            rf"^i (?:have |am |'m )?{_NOW}(?:live|living|reside|moved|relocated|based)(?: back)? (?:in|to|at|near) (?P<value>.+?){_HERE}"
        ),
    ),
    ("work as", re.compile(rf"^i (?:am |'m )?{_NOW}(?:work|working) as (?:an? |the )?(?P<value>.+?){_HERE}")),
    ("work at", re.compile(rf"^i (?:am |'m )?{_NOW}(?:work|working) (?:at|for) (?:an? |the )?(?P<value>.+?){_HERE}")),
    ("name", re.compile(r"^(?:my name is|my name's|i am called|i'm called) (?P<value>[\w' -]+)")),
    ("age", re.compile(r"^i(?: am|'m) (?P<value>\d{1,3}|[a-z]+(?:-[a-z]+)?)(?: years old| years of age)\b")),
    ("age", re.compile(r"^i(?: am|'m) (?P<value>\d{1,3})\W*$")),
    (
        "marriage",
        re.compile(rf"^i(?: am|'m| got| have been)? {_NOW}(?P<value>single|married|divorced|engaged|widowed)\b"),
    ),
    (
        "favorite {of}",
        re.compile(r"^my favou?rite (?P<of>[\w ]{1,30}?)(?: of all time)? (?:is|are|was) (?P<value>.+?)\W*$"),
    ),
    (
        "name of my {of}",
        re.compile(r"^my (?P<of>\w+)(?:'s name)? is (?:named |called )(?P<value>[\w' -]+?)\W*$"),
    ),
    ("name of my {of}", re.compile(r"^my (?P<of>\w+)'s name is (?P<value>[\w' -]+?)\W*$")),
    (
        "number of {of}",
        re.compile(
            rf"^i (?:have |own |have got |'ve got ){_NOW}(?P<value>\d+|{'|'.join(NUMBER_WORDS)}) (?P<of>\w+)\W*$"
        ),
    ),
)


def slot(trait: str) -> tuple[str, str] | None:
    """The one-valued thing that a trait is about and the value it gives, both in plain lower case; None: no such thing.

    >>> slot("I now live in Lisbon.")
    ('home', 'lisbon')
    """
    text = " ".join(trait.casefold().replace("’", "'").split()).rstrip(".! ")
    for name, pattern in SLOTS:
        found = pattern.match(text)
        if found:
            parts = found.groupdict()
            of = _singular(parts.get("of") or "")
            value = parts["value"].strip(" .!,")
            value = str(NUMBER_WORDS.get(value, value)) if name.startswith("number") else value
            return name.format(of=of), value
    return None


def contradicts(newer: str, older: str) -> bool:
    """Whether the newer trait says of the same thing what the older one excludes."""
    slot_newer, slot_older = slot(newer), slot(older)
    if slot_newer and slot_older and slot_newer[0] == slot_older[0]:
        return not _same_value(slot_newer[1], slot_older[1]) and negated(newer) == negated(older)
    if negated(newer) == negated(older):
        return False
    words_newer, words_older = _content(newer), _content(older)
    shared = len(words_newer & words_older)
    return shared > 0 and shared / min(len(words_newer), len(words_older)) >= 2 / 3


def negated(trait: str) -> bool:
    """Whether a trait denies, ends or dislikes what it is about."""
    return len(NEGATION.findall(trait)) % 2 == 1 or bool(re.search(r"\b(?:used to|no longer)\b", trait, re.IGNORECASE))


def _same_value(a: str, b: str) -> bool:
    """One value may say more than the other: "portland, oregon" is still "portland"."""
    words_a, words_b = set(re.findall(r"\w+", a)), set(re.findall(r"\w+", b))
    return words_a <= words_b or words_b <= words_a


def _content(trait: str) -> set[str]:
    words = re.findall(r"\w+(?:['’]\w+)?", trait.casefold())
    return {_singular(w) for w in words if w not in IGNORED and not re.search(r"n['’]t$", w)}


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
