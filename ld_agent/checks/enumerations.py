"""Splits sentences that list several things about one person, "Ann keeps bees, has a son and sails.", and joins them again.

A summary lists what somebody said, and the owner of each item must be checked separately. Pure functions; in languages whose
rules name no verbs, sentences are returned unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ld_agent.languages.rules import Clauses
from ld_agent.text import SENTENCE_END


def unfolded(text: str, names: Sequence[str], rules: Clauses) -> list[list[str]]:
    """The sentences of a text, each split into its items; most have one."""
    return [_items(sentence, names, rules) for sentence in SENTENCE_END.split(text)]


def folded(items: Sequence[str], names: Sequence[str], rules: Clauses) -> str:
    """One sentence for each person that the items of a sentence are about, in order."""
    by_subject: dict[str, list[str]] = {}
    for item in items:
        by_subject.setdefault(_subject(item, names, rules), []).append(item)
    return " ".join(
        " ".join(of_one)
        if not subject
        else f"{subject} {listed([item[len(subject) + 1 :].rstrip('.') for item in of_one], rules)}."
        for subject, of_one in by_subject.items()
    )


def with_subject(sentence: str, person: str, names: Sequence[str], rules: Clauses) -> str:
    """A sentence from under a person's name, "Has a son, sails.", or about "he" or "she", with the name as its subject."""
    if not person or not rules.verb or sentence.startswith(tuple(names)):
        return sentence
    pronoun = rules.pattern("pronoun").match(sentence)
    predicate = sentence[pronoun.end() :].lstrip() if pronoun and pronoun["pronoun"] else sentence
    predicate = predicate[:1].lower() + predicate[1:]
    return f"{person} {predicate}" if re.match(rules.verb, predicate) else sentence


def listed(things: Sequence[str], rules: Clauses) -> str:
    """ "keeps bees", "has a son", "sails" → "keeps bees, has a son and sails"."""
    between, before_last = rules.listed
    return before_last.join([between.join(things[:-1]), things[-1]] if len(things) > 1 else things)


def _items(sentence: str, names: Sequence[str], rules: Clauses) -> list[str]:
    subject = _subject(sentence, names, rules)
    alone = subject and sum(sentence.count(name) for name in names) == 1
    if not alone or not rules.lists or re.search(rules.nested, sentence):
        return [sentence]
    begin = f"{subject} "
    parts = re.split(rf"(?:{rules.lists})(?={rules.verb})", sentence[len(begin) :].rstrip(".! "))
    return [f"{begin}{part}." for part in parts] if len(parts) > 1 else [sentence]


def _subject(sentence: str, names: Sequence[str], rules: Clauses) -> str:
    """The person a sentence begins with, if a verb follows; "": nobody."""
    longest = sorted(names, key=len, reverse=True)
    return next((n for n in longest if rules.verb and re.match(rf"{re.escape(n)} (?:{rules.verb})", sentence)), "")
