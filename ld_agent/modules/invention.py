"""Notice what a reply makes up when it is asked for something that the asker once told: names, numbers and things that
nothing in its prompt shows.

A model answers "What was my husband's name?" with a name, told or not. Pure functions over text; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ld_agent.modules.wording import SENTENCE_END, stems_of

Topics = Callable[[Sequence[str]], list[tuple[str, ...]]]
"""The nouns of each text, as lemmas (`TopicExtractor.extract`)."""

NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty"
).split()
DIGITS = {word: str(number) for number, word in enumerate(NUMBERS)} | {
    word: str(10 * number) for number, word in enumerate("thirty forty fifty sixty seventy eighty ninety".split(), 3)
}
SAYING_NOTHING = stems_of("year month week day time thing name lot bit information answer sorry memory conversation i")
"""Nouns that a truthful answer may add: "it was a year ago"."""
_WORD = re.compile(r"[^\W_]+")
_BLANK = re.compile(r"<[^\W\d][\w ]*>|\[[^\W\d][\w ]*\]")
"""A form that a model did not fill in: "You live in <city>."."""
_QUESTION = re.compile(r"[^.!?]*\?")
_OWN = re.compile(r"\b(?:i|i['’](?:m|ve)|my|mine|myself|me|we|we['’](?:re|ve)|our|ours|us)\b", re.IGNORECASE)
_ASIDE = re.compile(
    r"\b(?:tell|told|let|remind|excuse|show|give)\s+(?:me|us)\b|\bi(?:['’]m|\s+was|\s+am)?\s+(?:\w+n['’]t\s+|just\s+|do not\s+)?"
    r"(?:mean|wonder|wondering|guess|think|hear|heard|see|understand|know)\b",
    re.IGNORECASE,
)
_WH = re.compile(r"\b(?:what|which|who|whom|whose|where|when|why|how)(?:['’]s)?\b", re.IGNORECASE)
_REMEMBERS = re.compile(r"\b(?:do|did) you (?:still )?(?:remember|recall)\b", re.IGNORECASE)
_SOMEONE = re.compile(r"\b(?:is|was|does|did|has|are)\s+([^\W\d_a-z][^\W_]+)|([^\W\d_a-z][^\W_]+)['’]s\b")
_ADVICE = re.compile(
    r"\b(?:should|shall|could|would|might|may|can|can['’]t|cannot|will|if|you|you['’]\w+|yours?|recommend|suggest\w*|advice|"
    r"advise|tips?|ideas?|help|best|good|better|guess)\b|\bhow (?:do|to)\b|\bto (?:do|make|get|cook|say|wear)\b",
    re.IGNORECASE,
)


def asks_what_was_told(text: str, known: str = "") -> bool:
    """Whether an utterance asks for a fact about its speaker, or about someone known, and not for advice or news: "What's my
    dog called?", "How old is Mina?".

    It says no in doubt, since a good answer to another question would be withheld: of 3,195 utterances of MSC's test part it
    says yes to 7, of the 320 questions of ``data/samples/questions.jsonl`` to 264.

    Args:
        known: what is remembered; a name counts where it contains it.
    """
    for question in _QUESTION.findall(text):
        fact = _ASIDE.sub(" ", _REMEMBERS.sub(" ", question)).strip()
        if _WH.search(fact) and not _ADVICE.search(fact) and (_OWN.search(fact) or _names_someone(fact, known)):
            return True
    return False


def _names_someone(question: str, known: str) -> bool:
    names = {_plain(name) for pair in _SOMEONE.findall(question) for name in pair if name}
    return not names.isdisjoint(map(_plain, _WORD.findall(known)))


def made_up(text: str, shown: str, topics: Topics) -> list[str]:
    """The names, numbers and nouns that a text states and nothing shown contains, each once; its questions state nothing.

    Args:
        shown: all that the text's writer could know, the question included.
    """
    known, stems = {_plain(word) for word in _WORD.findall(shown)}, stems_of(shown) | SAYING_NOTHING
    found: list[str] = []
    stated = [sentence for sentence in SENTENCE_END.split(text) if not sentence.rstrip().endswith("?")]
    for sentence, nouns in zip(stated, topics(stated), strict=True):
        words = _WORD.findall(sentence)
        found += [w for n, w in enumerate(words) if _names(w, first=n == 0) and _plain(w) not in known]
        found += _BLANK.findall(sentence)
        found += [noun for noun in nouns if not stems_of(noun) <= stems and _plain(noun) not in known]
    first: dict[str, str] = {}
    for word in found:
        first.setdefault(_plain(word), word)
    return list(first.values())


def supported(reply: str, shown: str, topics: Topics) -> tuple[str, list[str]]:
    """The sentences of a reply that make nothing up, "" where none of them says anything, and what the others made up."""
    kept, invented = [], list[str]()
    for sentence in SENTENCE_END.split(reply):
        words = made_up(sentence, shown, topics)
        invented += words
        kept += [] if words else [sentence]
    says_something = any(topics([sentence])[0] for sentence in kept if not sentence.rstrip().endswith("?"))
    return (" ".join(kept) if says_something or not invented else ""), list(dict.fromkeys(invented))


def _names(word: str, *, first: bool) -> bool:
    """Whether a word is a number or, not being the first of its sentence, a name."""
    return word[0].isdigit() or word.casefold() in DIGITS or (word[0].isupper() and word != "I" and not first)


def _plain(word: str) -> str:
    low = word.casefold()
    return DIGITS.get(low, low).removesuffix("s")
