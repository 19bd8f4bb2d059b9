"""Notice what a reply makes up when it is asked for something that the asker once told: names, numbers, things and denials
that nothing in its prompt shows.

A model answers "What was my husband's name?" with a name, told or not. Pure functions over text; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ld_agent.modules.attribution import NEGATED
from ld_agent.modules.not_knowing import says_unknown
from ld_agent.modules.numbers import numbers
from ld_agent.modules.wording import SENTENCE_END, stems_of

Topics = Callable[[Sequence[str]], list[tuple[str, ...]]]
"""The nouns of each text, as lemmas (`TopicExtractor.extract`)."""

SAYING_NOTHING = stems_of(
    "degree celsius fahrenheit year month week day time thing name lot bit information answer sorry memory conversation i"
)
"""Nouns that a truthful answer may add: "it was a year ago"."""
_WORD = re.compile(r"[^\W_]+")
_BLANK = re.compile(r"<[^\W\d][\w ]*>|\[[^\W\d][\w ]*\]")
"""A form that a model did not fill in: "You live in <city>."."""
_QUESTION = re.compile(r"[^.!?]*\?")
_OWN = re.compile(r"\b(?:i|i['’](?:m|ve)|my|mine|myself|me|we|we['’](?:re|ve)|our|ours|us)\b", re.IGNORECASE)
_ASIDE = re.compile(
    r"\b(?:tell|told|let|remind|excuse|show|give)\s+(?:me|us)\b|\bi(?:['’]m|\s+was|\s+am)?\s+(?:\w+n['’]t\s+|just\s+|do not\s+)?"
    r"(?:mean|wonder|wondering|guess|think|hear|heard|see|understand|know|remember|recall|believe|hope)\b",
    re.IGNORECASE,
)
_WH = re.compile(r"\b(?:what|which|who|whom|whose|where|when|why|how)(?:['’]s)?\b", re.IGNORECASE)
_REMEMBERS = re.compile(r"\b(?:do|did) you (?:still )?(?:remember|recall)\b", re.IGNORECASE)
_YOU = re.compile(r"\b(?:you|you['’]\w+|yours?|yourself)\b", re.IGNORECASE)
_ASKS_NAME = re.compile(r"\b(?:names?|called|named|who|whom|whose)\b", re.IGNORECASE)
_AS_ASKER = re.compile(r"\W*(?:I|I['’](?:m|ve|d|ll)|My|We|We['’](?:re|ve|d|ll)|Our)\b")
_TURNED = {
    "i am": "you are", "i was": "you were", "am i": "are you", "i'm": "you're", "i've": "you've", "i'd": "you'd",
    "i'll": "you'll", "i": "you", "me": "you", "my": "your", "mine": "yours", "myself": "yourself",
    "we're": "you're", "we've": "you've", "we'd": "you'd", "we'll": "you'll", "we": "you", "us": "you", "our": "your",
    "ours": "yours", "ourselves": "yourselves",
}  # fmt: skip
_FIRST = re.compile(rf"\b(?:{'|'.join(sorted(_TURNED, key=len, reverse=True))})\b".replace("'", "['’]"), re.IGNORECASE)
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
    values = {value for _, value in numbers(shown)}
    found: list[str] = []
    stated = [sentence for sentence in SENTENCE_END.split(text) if not sentence.rstrip().endswith("?")]
    for sentence, nouns in zip(stated, topics(stated), strict=True):
        names = [w for n, w in enumerate(_WORD.findall(sentence)) if _names(w, first=n == 0) and _plain(w) not in known]
        names = [name for name in names if not stems_of(name) & SAYING_NOTHING]
        counts = [count for count, value in numbers(sentence) if value not in values]
        found += sorted(dict.fromkeys([*names, *counts]), key=sentence.index)
        found += _BLANK.findall(sentence)
        written = [_plain(word) for word in _WORD.findall(sentence)]
        for noun in nouns:
            forms = (
                [noun] if _plain(noun) in written else [word for word in written if word[:1] == noun[:1]]
            )  # "feet" of "foot"
            if not all(stems_of(form) <= stems or _plain(form) in known for form in forms):
                found.append(noun)
    first: dict[str, str] = {}
    for word in found:
        first.setdefault(_plain(word), word)
    return list(first.values())


def supported(
    reply: str, shown: str, topics: Topics, question: str = "", people: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """The sentences of a reply that make nothing up, "" where none of them says anything, and what the others made up.

    Args:
        shown: all that the reply's writer could know.
        question: what it answers. Asked for a name, it does not answer with that of somebody who takes part, or of the one
            asked about; asked about "my goats", it says "you" to their owner.
        people: the names of those who take part.
    """
    kept, invented = [], list[str]()
    for sentence in SENTENCE_END.split(reply):
        words = (
            made_up(sentence, shown, topics) or _denied(sentence, shown, people) or _named(sentence, question, people)
        )
        invented += words
        kept += [] if words else [addressed(sentence, question)]
    says_something = any(topics([sentence])[0] for sentence in kept if not sentence.rstrip().endswith("?"))
    return (" ".join(kept) if says_something or not invented else ""), list(dict.fromkeys(invented))


def _denied(sentence: str, shown: str, people: Sequence[str]) -> list[str]:
    """A sentence that denies what nothing shown denies: "You don't have any cats." where no cat was spoken of."""
    if not NEGATED.search(sentence) or says_unknown(sentence) or sentence.rstrip().endswith("?"):
        return []
    own = stems_of(sentence) - stems_of(" ".join(people)) - {"not"}
    denials = (stems_of(line) for line in re.split(r"[.!?\n]", shown) if NEGATED.search(line))
    return [] if not own or any(own & stems for stems in denials) else [sentence.strip(" .!")]


def _named(sentence: str, question: str, people: Sequence[str]) -> list[str]:
    """The names of a sentence that answers a question for one with those that the asker could not mean."""
    question = " ".join(_QUESTION.findall(question))
    if not _ASKS_NAME.search(question) or says_unknown(sentence):
        return []
    asked = {_plain(word) for word in _WORD.findall(question)}
    spent = asked | {_plain(word) for name in people for word in _WORD.findall(name)}
    words = [word for word in _WORD.findall(sentence) if word.casefold() not in _TURNED]
    names = [w for n, w in enumerate(words) if _names(w, first=False) and (n or _plain(w) in spent)]
    further = stems_of(sentence) - stems_of(f"{question} {' '.join(people)}") - SAYING_NOTHING
    return names if names and all(_plain(name) in spent for name in names) and not further else []


def addressed(sentence: str, question: str) -> str:
    """A sentence that answers in the asker's person, turned to them: "I keep 3 goats." becomes "You keep 3 goats."."""
    begins = _AS_ASKER.match(sentence)
    if not begins or not _OWN.search(question) or _YOU.search(f"{sentence} {_REMEMBERS.sub(' ', question)}"):
        return sentence
    if _ASIDE.search(sentence) or says_unknown(sentence) or not stems_of(sentence) & stems_of(question):
        return sentence
    turned = _FIRST.sub(lambda word: _TURNED[word.group().casefold().replace("’", "'")], sentence)
    return turned[0].upper() + turned[1:]


def _names(word: str, *, first: bool) -> bool:
    """Whether a word is a name, not being the first of its sentence."""
    return word[0].isupper() and word != "I" and not first


def _plain(word: str) -> str:
    return word.casefold().removesuffix("s")
