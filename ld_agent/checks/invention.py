"""Detects what a reply makes up when the user asks about something they said earlier: names, numbers, things and
denials without support in the prompt.

A model answers "What was my husband's name?" with a name, whether it knows one or not. Pure functions over text; knows
no model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache

from ld_agent.checks.not_knowing import says_unknown
from ld_agent.checks.numbers import counted, numbers
from ld_agent.languages.reading import Reading
from ld_agent.text import EAST_ASIAN, SENTENCE_END, WORD_RUN, simplified, stems_listed, stems_of

Topics = Callable[[Sequence[str]], list[tuple[str, ...]]]
"""The nouns of each text, as lemmas (`TopicExtractor.extract`)."""

LONGEST_ELLIPSIS = 5
"""Number of words of a question without a verb: "And my dog's name?"."""
_BLANK = re.compile(r"<[^\W\d][\w ]*>|\[[^\W\d][\w ]*\]")
"""A placeholder that a model did not fill in: "You live in <city>."."""
_NAME_AFTER_NAME = re.compile(r"\b([A-Z]\w+), ([A-Z]\w+)[.!]?\s*$")
_SENTENCE = re.compile(r"[^.!?。！？]+[.!?。！？]?")


def asks_what_was_told(text: str, reading: Reading, known: str = "") -> bool:
    """Whether an utterance asks to be told a fact about its speaker or someone known, rather than for advice or news:
    "What's my dog called?", "Tell me my dog's name.", "How old is Mina?".

    False if in doubt, because good answers to other questions would be withheld: it is true for 13 of 8,323 utterances
    of sessions 2 and 3 of MSC's test set, and for 264 of the 320 questions in ``data/samples/questions.jsonl``.

    Args:
        known: the remembered texts; a name counts if they contain it.
    """
    asks, whether, advice, me = map(reading.pattern, ("question_word", "asks_whether", "advice", "first_person"))
    for question in _questions(text, reading):
        fact = _asked(question, reading)
        asked = asks.search(fact) or whether.search(fact) or _is_requested(question, fact, reading)
        if (
            (asked or _is_elliptic(fact, reading))
            and not advice.search(fact)
            and (me.search(fact) or _names_someone(fact, known, reading))
        ):
            return True
    return False


def asks_for_facts(text: str, reading: Reading) -> bool:
    """Whether an utterance asks about something else than the hearer: "Is the sea salty?", "Do you recall my name?".

    The same question has the same answer, however often it is asked.
    """
    you = reading.pattern("second_person")
    return any(not you.search(_asked(question, reading)) for question in _questions(text, reading))


def _asked(question: str, reading: Reading) -> str:
    """What a question asks for, without "do you remember" and the like."""
    rest = reading.pattern("requests").sub(" ", question, count=1) if _requests(question, reading) else question
    return reading.pattern("aside").sub(" ", reading.pattern("remembers").sub(" ", rest)).strip()


def _questions(text: str, reading: Reading) -> list[str]:
    """The sentences that ask something, with or without a question mark."""
    return [one for one in _SENTENCE.findall(text) if one[-1] in "?？" or _requests(one, reading)]


def _requests(sentence: str, reading: Reading) -> bool:
    return reading.pattern("requests").match(sentence) is not None


def _is_requested(question: str, fact: str, reading: Reading) -> bool:
    """Whether a question asks to be told something, and says what."""
    return _requests(question, reading) and bool(stems_of(fact, reading))


def _is_elliptic(fact: str, reading: Reading) -> bool:
    """Whether a question only names something of its speaker's: "And my dog's name?"."""
    mine = {clauses.first_person[1].casefold() for clauses in reading.clauses}
    words = [word.casefold() for word in WORD_RUN.findall(fact)]
    return 2 < len(words) <= LONGEST_ELLIPSIS and not mine.isdisjoint(words[:2])


def _names_someone(question: str, known: str, reading: Reading) -> bool:
    names = {_plain(name) for match in reading.pattern("someone").finditer(question) for name in match.groups() if name}
    unspaced = {name for name in names if EAST_ASIAN.match(name)}
    return not names.isdisjoint(map(_plain, WORD_RUN.findall(known))) or any(
        simplified(name) in simplified(known) for name in unspaced
    )


def made_up(text: str, shown: str, topics: Topics, reading: Reading) -> list[str]:
    """The names, numbers and nouns that a text states without support, each once; questions state nothing.

    Args:
        shown: everything the writer could know, including the question.
    """
    saying_nothing = stems_listed("saying_nothing", reading)
    known, stems = {_plain(word) for word in WORD_RUN.findall(shown)}, stems_of(shown, reading) | saying_nothing
    plain = simplified(shown.casefold())
    values = {value for _, value in numbers(shown)}
    invented: list[str] = []
    stated = [sentence for sentence in SENTENCE_END.split(text) if not sentence.rstrip().endswith("?")]
    for sentence, nouns in zip(stated, topics(stated), strict=True):
        where = _elaboration(sentence, known)
        names = [
            w for n, w in enumerate(WORD_RUN.findall(sentence)) if _names(w, first=n == 0) and _plain(w) not in known
        ]
        names = [name for name in names if name != where and not stems_of(name, reading) & saying_nothing]
        counts = [count for count, value in counted(sentence, reading) if value not in values]
        invented += sorted(dict.fromkeys([*names, *counts]), key=sentence.index)
        invented += _BLANK.findall(sentence)
        written = [_plain(word) for word in WORD_RUN.findall(sentence)]
        for noun in (noun for noun in nouns if _plain(noun) != _plain(where)):
            if EAST_ASIAN.match(noun):
                invented += [] if _written(noun, plain) or stems_of(noun, reading) <= saying_nothing else [noun]
                continue
            forms = (
                [noun] if _plain(noun) in written else [word for word in written if word[:1] == noun[:1]]
            )  # "feet" of "foot"
            if not all(stems_of(form, reading) <= stems or _plain(form) in known for form in forms):
                invented.append(noun)
    first: dict[str, str] = {}
    for word in invented:
        first.setdefault(_plain(word), word)
    return list(first.values())


def _elaboration(sentence: str, known: Collection[str]) -> str:
    """The name that ends a sentence and says more about a supported one before it: "Italy" of "Rome, Italy."; "": none."""
    named = _NAME_AFTER_NAME.search(sentence)
    return named[2] if named and _plain(named[1]) in known else ""


def _written(noun: str, plain: str) -> bool:
    """Whether a noun without spaces is in a text, where words may begin anywhere; or a longer and a shorter part of it
    are: a name may be cut off together with its verb ("叫碧茜")."""
    cuts = ((noun[:n], noun[n:]) for n in range(1, len(noun)))
    return noun in plain or any(len(noun) > 2 and head in plain and rest in plain for head, rest in cuts)


def supported(
    reply: str, shown: str, topics: Topics, reading: Reading, question: str = "", people: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """The sentences of a reply that make nothing up ("" if none of them says anything), and what the others made up.

    Args:
        shown: everything the writer could know.
        question: the question. A name asked for is not that of a participant or of the person asked about; a question
            about "my goats" is answered with "you".
        people: the names of the participants.
    """
    kept, invented = [], list[str]()
    for sentence in SENTENCE_END.split(reply):
        words = (
            made_up(sentence, shown, topics, reading)
            or _denied(sentence, shown, people, reading)
            or _named(sentence, question, people, reading)
            or _unanswered(sentence, question, people, reading)
        )
        invented += words
        kept += [] if words else [addressed(sentence, question, reading)]
    says_something = any(topics([sentence])[0] for sentence in kept if not sentence.rstrip().endswith("?"))
    return (" ".join(kept) if says_something or not invented else ""), list(dict.fromkeys(invented))


def answers_nothing(answer: str, question: str, reading: Reading, asker: str = "") -> bool:
    """Whether an answer repeats the question, or states no number although one is asked for: "You passed the exam." to
    "How many tries did I need?"."""
    asked = " ".join(_questions(question, reading)) or question
    if not _beyond(answer, f"{asked} {asker}", reading):
        return True
    has_number = numbers(answer) or reading.pattern("some_number").search(answer)
    return bool(reading.pattern("asks_number").search(asked)) and not has_number


def _beyond(text: str, known: str, reading: Reading) -> set[str]:
    """The stems in a text that are not among those of another, be it in another form: "fixed", "fix"."""
    others = stems_of(known, reading)
    return {stem for stem in stems_of(text, reading) if not any(_one_word(stem, other) for other in others)}


def _one_word(stem: str, other: str) -> bool:
    return stem == other or (min(len(stem), len(other)) > 2 and (stem.startswith(other) or other.startswith(stem)))


def _denied(sentence: str, shown: str, people: Sequence[str], reading: Reading) -> list[str]:
    """A denial without support: "You don't have any cats." if no cat was mentioned."""
    denial = reading.pattern("negated")
    if not denial.search(sentence) or says_unknown(sentence, reading) or sentence.rstrip().endswith(("?", "？")):
        return []
    denied = stems_of(sentence, reading) - stems_of(" ".join(people), reading) - {"not"}
    denied = {stem for stem in denied if not (EAST_ASIAN.match(stem) and denial.search(stem))}
    denials = (stems_of(line, reading) for line in re.split(r"[.!?。！？\n]", shown) if denial.search(line))
    return [] if not denied or any(denied & stems for stems in denials) else [sentence.strip(" .!。！")]


def _named(sentence: str, question: str, people: Sequence[str], reading: Reading) -> list[str]:
    """The names in an answer that the question cannot have asked for."""
    question = " ".join(_questions(question, reading))
    if not reading.pattern("asks_name").search(question) or says_unknown(sentence, reading):
        return []
    asked = {_plain(word) for word in WORD_RUN.findall(question)}
    spent = asked | {_plain(word) for name in people for word in WORD_RUN.findall(name)}
    words = [word for word in WORD_RUN.findall(sentence) if word.casefold() not in reading.turned]
    names = [w for n, w in enumerate(words) if _names(w, first=False) and (n or _plain(w) in spent)]
    further = _beyond(sentence, f"{question} {' '.join(people)}", reading) - stems_listed("saying_nothing", reading)
    return names if names and all(_plain(name) in spent for name in names) and not further else []


def _unanswered(sentence: str, question: str, people: Sequence[str], reading: Reading) -> list[str]:
    """A sentence without spaces that repeats a question, or contains no number if one is asked for."""
    question = " ".join(_questions(question, reading))
    if not EAST_ASIAN.search(question) or says_unknown(sentence, reading):
        return []
    rest = sentence
    for name in people:
        rest = rest.replace(name, "")
    stated = numbers(rest)  # with the characters of "다섯" and "이십" that otherwise mean nothing
    rest = simplified(reading.pattern("filling").sub("", rest))
    news = {character for character in rest if character.isalnum()} - set(simplified(question))
    numberless = reading.pattern("asks_number").search(question) and not stated and not re.search(r"[一半\d]", sentence)
    return [sentence.strip(" .!。！")] if not news or numberless else []


def addressed(sentence: str, question: str, reading: Reading) -> str:
    """Turn an answer in the asker's person towards them: "I keep 3 goats." becomes "You keep 3 goats."."""
    if not (reading.pattern("as_asker").match(sentence) and reading.pattern("first_person").search(question)):
        return sentence
    if reading.pattern("second_person").search(f"{sentence} {reading.pattern('remembers').sub(' ', question)}"):
        return sentence
    aside = reading.pattern("aside").search(sentence) or says_unknown(sentence, reading)
    if aside or not _shared(sentence, question, reading):
        return sentence
    to = reading.turned
    exchanged = _first_persons(reading).sub(lambda word: to[word.group().casefold().replace("’", "'")], sentence)
    return exchanged[0].upper() + exchanged[1:]


def _shared(sentence: str, question: str, reading: Reading) -> bool:
    """Whether two sentences share more than pronouns."""
    if EAST_ASIAN.search(sentence):
        filling = reading.pattern("filling")
        return bool(set(filling.sub("", sentence)) & set(filling.sub("", question)) - set("，。！？,.!? "))
    return bool(stems_of(sentence, reading) & stems_of(question, reading))


@cache
def _first_persons(reading: Reading) -> re.Pattern[str]:
    words = sorted(reading.turned, key=len, reverse=True)
    spaced = "|".join(word for word in words if not EAST_ASIAN.match(word)).replace("'", "['’]")
    unspaced = "|".join(word for word in words if EAST_ASIAN.match(word)) or "(?!)"
    return re.compile(rf"\b(?:{spaced})\b|{unspaced}", re.IGNORECASE)


def _names(word: str, *, first: bool) -> bool:
    """Whether a word that does not begin its sentence is a name."""
    return word[0].isupper() and word != "I" and not first


def _plain(word: str) -> str:
    return word.casefold().removesuffix("s")
