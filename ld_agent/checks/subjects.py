"""Reassigns clauses of a summary: "Sam studies the sea" becomes Mira's if she said it about herself.

A clause is what follows a speaker's name that is its subject. It is assigned to the person whose statements are closest to it
in meaning and words, if they are clearly closer than those of the person named. A language's rules
define clauses. Pure; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ld_agent.checks.attribution import speaks_of_self
from ld_agent.checks.enumerations import folded, unfolded
from ld_agent.languages import Language
from ld_agent.languages.rules import Clauses
from ld_agent.text import HANGUL, REPORTING, SENTENCE_END, stems_of

WORDS = 0.5
"""nearness = cos + WORDS · (share of the clause's stems said)."""
MARGIN, MARGIN_WITHOUT_WORDS, NEAREST_LEAST = 0.03, 0.2, 0.2
"""How much closer another person must be than the one named, if their statement has more of the clause's words and if it
does not; and the minimum closeness."""
MOST_STATEMENTS = 600
FINALS = 28  # of Hangul syllables, none among them
NAME_END = r"(?![^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])"
"""No letter follows, except in languages without spaces, or whose particles follow a name directly."""
Encode = Callable[[Sequence[str]], NDArray[np.float32]]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause with one person as its subject.

    Attributes:
        start, end: position of its subject, a name or pronoun, in the summary.
        subject_end: where in ``text`` what follows the subject begins.
        named: the subject is a name.
        possessive: it is "his" or "her", or a name with "'s".
    """

    subject: str
    text: str
    start: int
    end: int
    subject_end: int
    named: bool = True
    possessive: bool = False


def corrected(summary: str, lines: Sequence[tuple[str, str]], encode: Encode, language: Language) -> str:
    """Return the summary with each clause assigned to the person who said it about themselves, if that is clear.

    Args:
        lines: (speaker, text) of the conversation.
        encode: texts → (n, dimension) unit vectors.
        language: the summary's.
    """
    names, rules = list(dict.fromkeys(speaker for speaker, _ in lines)), language.rules.clauses
    listing = unfolded(summary, names, rules)
    if all(len(items) == 1 for items in listing):
        return _with_owners(summary, lines, encode, language)
    before = [item for items in listing for item in items]
    after = SENTENCE_END.split(_with_owners(" ".join(before), lines, encode, language))
    said = []
    for sentence, items in zip(SENTENCE_END.split(summary), listing, strict=True):
        now, after = after[: len(items)], after[len(items) :]
        said.append(sentence if now == items else folded(now, names, rules))
    return " ".join(said)


def _with_owners(summary: str, lines: Sequence[tuple[str, str]], encode: Encode, language: Language) -> str:
    said, rules = statements(lines, language), language.rules.clauses
    written = clauses(summary, list(dict.fromkeys(speaker for speaker, _ in lines)), rules)
    if not written or len({speaker for speaker, _ in said}) < 2:
        return summary
    said = list(_likeliest(said, written, language))
    near, shares = _nearness(written, said, encode, language)
    for clause, nearness, shared in reversed(list(zip(written, near, shares, strict=True))):
        best: dict[str, tuple[float, float]] = {clause.subject: (-1.0, 0.0)}
        for (speaker, _), value, words in zip(said, nearness.tolist(), shared.tolist(), strict=True):
            nearest, most = best.get(speaker, (-1.0, 0.0))
            best[speaker] = max(nearest, value), max(most, words)
        owner = max(best, key=best.__getitem__)
        (nearest, more), (named, fewer) = best[owner], best[clause.subject]
        if nearest > NEAREST_LEAST and nearest - named > (MARGIN if more > fewer else MARGIN_WITHOUT_WORDS):
            name = f"{owner}{_owning(rules)}" if clause.possessive and not clause.named else owner
            summary = f"{summary[: clause.start]}{name}{_agreeing(summary[clause.end :], name, rules.particles)}"
    return summary


def statements(lines: Sequence[tuple[str, str]], language: Language) -> list[tuple[str, str]]:
    """(speaker, sentence) of people's statements, without questions and statements about "you" alone.

    Clauses of a question count if they are about its speaker: "I'm new to this, could you help?".
    """
    sentences = [(speaker, sentence) for speaker, text in lines for sentence in SENTENCE_END.split(text)]
    stated: list[tuple[str, str]] = []
    part_end, reading = language.rules.clauses.pattern("part"), language.reading
    you = reading.pattern("second_person")
    for speaker, sentence in sentences:
        if sentence.rstrip().endswith(("?", "？")):
            parts = part_end.split(sentence)
            stated += [(speaker, p) for p in parts if speaks_of_self(p, reading) and not you.search(p)]
        elif speaks_of_self(sentence, reading) or not you.search(sentence):
            stated.append((speaker, sentence))
    return stated


def _likeliest(
    said: Sequence[tuple[str, str]], written: Sequence[Clause], language: Language
) -> Sequence[tuple[str, str]]:
    """The `MOST_STATEMENTS` statements that share most words with a clause, in order; a long session is too much to
    encode."""
    if len(said) <= MOST_STATEMENTS:
        return said
    words = [stems_of(clause.text, language.reading) for clause in written]
    shared = [max(len(stems & stems_of(sentence, language.reading)) for stems in words) for _, sentence in said]
    return [said[n] for n in sorted(sorted(range(len(said)), key=lambda n: -shared[n])[:MOST_STATEMENTS])]


def _nearness(
    written: Sequence[Clause], stated: Sequence[tuple[str, str]], encode: Encode, language: Language
) -> tuple[Numbers, Numbers]:
    """(clauses, statements) the closeness of each statement to each clause, rephrased as if its subject said it; and the share
    of the clause's words that the statement has.
    """
    rules, reading = language.rules.clauses, language.reading
    names = stems_of(" ".join(clause.subject for clause in written), reading)
    vectors = encode([*(_first_person(clause, rules) for clause in written), *(sentence for _, sentence in stated)])
    cosines = vectors[: len(written)] @ vectors[len(written) :].T
    said = [stems_of(sentence, reading) for _, sentence in stated]
    words = [stems_of(clause.text, reading) - names - REPORTING for clause in written]
    shares = np.array([[len(wanted & stems) / max(len(wanted), 1) for stems in said] for wanted in words])
    return cosines + WORDS * shares, shares


def _first_person(clause: Clause, rules: Clauses) -> str:
    subject = rules.first_person[clause.possessive]
    return f"{subject}{_agreeing(clause.text[clause.subject_end :], subject, rules.particles)}"


def clauses(summary: str, names: Sequence[str], rules: Clauses) -> list[Clause]:
    """Split a summary into clauses, skipping those with two subjects or none, or about other people too."""
    name = "|".join(re.escape(n) for n in sorted(names, key=len, reverse=True))
    owning = f"(?P<owning>{rules.possessive})?" if rules.possessive else "(?P<owning>(?!))?"
    start = re.compile(rf"(?:{rules.start or '^'})(?P<name>{name}){owning}{NAME_END}")
    joint = re.compile(rf"(?:{name})(?:{rules.possessive})?\s*(?:{rules.joins or '(?!)'})\s*(?:{name}){NAME_END}")
    written: list[Clause] = []
    last = ""
    for offset, sentence in _sentences(summary):
        if joint.search(sentence):
            last = ""
            continue
        marks = list(start.finditer(sentence))
        if not marks:
            last = _spoken_of(last, offset, sentence, name, rules, written)
            continue
        ends = [mark.start("name") for mark in marks[1:]] + [len(sentence)]
        for mark, end in zip(marks, ends, strict=True):
            clause = sentence[mark.start("name") : end].strip(" ,;，；、")
            if re.findall(name, clause) == [mark["name"]]:
                place = (offset + mark.start("name"), offset + mark.end("name"))
                after = mark.end() - mark.start("name")
                written.append(Clause(mark["name"], clause, *place, after, possessive=mark["owning"] is not None))
        last = marks[0]["name"] if len(set(re.findall(name, sentence))) == 1 else ""
    return [
        c for c in written if not (rules.pattern("others").search(c.text) or rules.pattern("of_another").match(c.text))
    ]


def _spoken_of(last: str, offset: int, sentence: str, name: str, rules: Clauses, written: list[Clause]) -> str:
    """Append a sentence that begins with a pronoun, and return the person it is about; "" if that is unclear."""
    pronoun = re.match(rf"\W*(?:{rules.pronoun or '(?!)'})", sentence)
    if not last or pronoun is None or re.search(name, sentence):
        return ""
    owner = pronoun["owner"] is not None
    begins = pronoun.start("owner" if owner else "pronoun")
    place = (offset + begins, offset + pronoun.end())
    written.append(Clause(last, sentence, *place, pronoun.end(), named=False, possessive=owner))
    return last


def _agreeing(rest: str, name: str, particles: Mapping[str, str]) -> str:
    """What follows a name, with the particle that agrees with the end of a Korean name: "민준은", but "수아는"."""
    if not HANGUL.match(name[-1]):
        return rest
    consonant = (ord(name[-1]) - ord("가")) % FINALS > 0
    exchanged = [(b, a) if consonant else (a, b) for a, b in particles.items()]
    fitting = [(was, becomes) for was, becomes in exchanged if rest.startswith(was)]
    was, becomes = max(fitting, key=lambda pair: len(pair[0]), default=("", ""))
    return becomes + rest[len(was) :]


def _owning(rules: Clauses) -> str:
    """What follows the name of an owner."""
    return re.sub(r"\[(.).*?\]", r"\1", rules.possessive)


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for end in SENTENCE_END.finditer(text):
        yield start, text[start : end.start()]
        start = end.end()
    yield start, text[start:]
