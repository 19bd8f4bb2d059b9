"""Notice names and numbers that a reply makes up: they stand nowhere in what its prompt shows.

A model that follows instructions still answers "What was my husband's name?" with a name, told or not. Pure functions over
text; knows no model.
"""

from __future__ import annotations

import re

from ld_agent.modules.attribution import FIRST_PERSON
from ld_agent.modules.wording import SENTENCE_END

NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty"
).split()
DIGITS = {word: str(number) for number, word in enumerate(NUMBERS)} | {
    word: str(10 * number) for number, word in enumerate("thirty forty fifty sixty seventy eighty ninety".split(), 3)
}
_WORD = re.compile(r"[^\W_]+")


def asks_of_oneself(text: str) -> bool:
    """Whether an utterance asks about its speaker: "What's my dog called?"."""
    return "?" in text and FIRST_PERSON.search(text) is not None


def made_up(reply: str, shown: str) -> list[str]:
    """The names and numbers that a reply states and nothing shown contains, each once.

    Args:
        shown: all that the reply could know, the question included.
    """
    known = {_plain(word) for word in _WORD.findall(shown)}
    found = []
    for sentence in SENTENCE_END.split(reply):
        if not sentence.rstrip().endswith("?"):
            words = _WORD.findall(sentence)
            found += [w for n, w in enumerate(words) if _tells(w, first=n == 0) and _plain(w) not in known]
    return list(dict.fromkeys(found))


def _tells(word: str, *, first: bool) -> bool:
    """Whether a word is a number or, not being the first of its sentence, a name."""
    return word[0].isdigit() or word.casefold() in DIGITS or (word[0].isupper() and len(word) > 1 and not first)


def _plain(word: str) -> str:
    low = word.casefold()
    return DIGITS.get(low, low).removesuffix("s")
