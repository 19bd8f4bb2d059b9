"""Measure whose facts the persona banks hold: the agent's bank must not fill up with facts about other people.

A fact about a person is an active trait of theirs, or one annotated in the corpus. It counts as found in the agent's
bank if a trait of the agent states the same: the vectors are close, and the content words agree (`same_fact`). Facts
that the corpus also annotates for the agent are shared and not counted. Knows no files of predictions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent, Conversation
from ld_agent.config import Config
from ld_agent.datasets.base import Episode
from ld_agent.evaluation.fallbacks import REPLY, Counts, merged, of_reply
from ld_agent.evaluation.metrics import Measure, shares
from ld_agent.evaluation.played import PlayedTask, live, spoken_episodes
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.running.replay import play
from ld_agent.steps import Steps
from ld_agent.text import stems_of
from ld_agent.types import Trait

NEAR, NEAREST = 0.62, 0.9
"""Cosines: from the first on, two traits state the same if their words agree; from the second on, in any case."""
AGREEING = re.compile(
    r"\b(?:too|also|either|neither|same|likewise|as well|so (?:do|am|have|did|was) i)\b"
    r"|\bi (?:do|am|have|did|can)\b[^\w'’]*(?:$|[,.!])|我也|我同样|(?:저|나)도",
    re.IGNORECASE,
)
"""Words by which somebody says that something is true of them too: "I live in Oslo too"."""
SHARED = 0.6
"""Minimum share of the shorter trait's stems that the longer one contains, if both state the same."""


class PersonasTask(PlayedTask):
    """Play every conversation of a file and compare the agent's persona bank with those of the people."""

    name = "personas"

    def __init__(self, data: Path, config: Config, limit: int | None = None, free: bool = False) -> None:
        episodes = spoken_episodes(data, limit)
        facts = {e.id: annotated_facts(e, of_agent=False) or ("",) for e in episodes.values()}
        super().__init__(episodes, facts, {"free": free})
        self._replies: dict[str, list[Counts]] = {}

    def lived(self, agent: Agent, episode: Episode, items: Sequence[Item]) -> Steps[None]:
        if not self.options["free"]:
            return live(agent, episode)
        replies = self._replies.setdefault(episode.id, [])
        return play(agent, episode, lambda turn: replies.append(of_reply(turn.reply)))

    def measured(self, agent: Agent, conversation: Conversation, episode: Episode) -> tuple[str, dict[str, Any]]:
        details = banks(conversation, episode, agent.encoder)
        replies = merged(self._replies.pop(episode.id, ()))
        return " ".join(details["agent"]) or "no trait", details | {REPLY: replies}


def annotated_facts(episode: Episode, *, of_agent: bool) -> tuple[str, ...]:
    """Return the traits that a corpus annotates in the utterances of the agent, or in those of everyone else."""
    turns = [turn for turn in episode.turns if (turn.speaker == episode.agent) is of_agent]
    return tuple(dict.fromkeys(trait for turn in turns for trait in turn.traits or ()))


def banks(conversation: Conversation, episode: Episode, encoder: SentenceEncoder) -> dict[str, Any]:
    """Compare the persona banks of one conversation.

    Returns:
        ``facts``: the people's; ``agent``: its traits; ``polluted``: (fact, the agent's trait, the agent's words);
        ``traits``: how many the people have; ``invented``: (trait, what its person said, what the agent had said).
    """
    utterances = conversation.utterances
    places = {u.id: place for place, u in enumerate(utterances)}
    mine, theirs = list[Trait](), list[Trait]()
    for trait in conversation.traits():
        if trait.source:
            (mine if trait.speaker == conversation.agent_name else theirs).append(trait)
    facts = list(dict.fromkeys([*(t.text for t in theirs), *annotated_facts(episode, of_agent=False)]))
    shared = annotated_facts(episode, of_agent=True)
    texts = list(dict.fromkeys([*facts, *shared, *(t.text for t in mine)]))
    vectors = dict(zip(texts, encoder.encode(texts), strict=True)) if texts else {}

    def same(first: str, second: str) -> bool:
        return same_fact(first, second, float(vectors[first] @ vectors[second]))

    foreign = [t for t in mine if not any(same(t.text, fact) for fact in shared)]
    polluting = {fact: next((t for t in foreign if same(fact, t.text)), None) for fact in facts}
    invented = []
    for trait in theirs:
        place = places[trait.source]
        before, said = utterances[max(place - 1, 0)], utterances[place].text
        if place and before.speaker == conversation.agent_name and _invented(trait.text, said, before.text):
            invented.append((trait.text, said, before.text))
    return {
        "facts": facts,
        "agent": [t.text for t in mine],
        "polluted": [(fact, t.text, utterances[places[t.source]].text) for fact, t in polluting.items() if t],
        "traits": len(theirs),
        "invented": invented,
    }


def same_fact(first: str, second: str, cosine: float) -> bool:
    """Whether two traits state the same about their owners, given the cosine of their vectors."""
    denial = ENGLISH.reading.pattern("negated")
    if (denial.search(first) is None) is not (denial.search(second) is None):
        return False
    if cosine >= NEAREST:
        return True
    ones, others = stems_of(first, ENGLISH.reading), stems_of(second, ENGLISH.reading)
    shorter = min(len(ones), len(others))
    return cosine >= NEAR and shorter > 0 and len(ones & others) >= SHARED * shorter


def _invented(trait: str, said: str, before: str) -> bool:
    """Whether a person's trait was said by the agent right before and not by the person; answering a question is fine."""
    words, told = stems_of(trait, ENGLISH.reading), stems_of(said, ENGLISH.reading)
    statements = " ".join(s for s in before.replace("!", ".").split(".") if not s.rstrip().endswith("?"))
    foreign = words - told
    return len(foreign) * 2 > len(words) and foreign <= stems_of(statements, ENGLISH.reading)


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Compute ``polluted``, the share of people's facts found in the agent's bank, and ``invented``, the share of their
    traits that the agent made up.
    """
    return {
        "polluted": shares([(len(p.details["polluted"]), len(p.details["facts"])) for p in predictions]),
        "invented": shares([(len(p.details["invented"]), p.details["traits"]) for p in predictions]),
    }


def figures(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Count the facts behind the shares, and the polluted ones that the agent claims to share ("I paint too")."""
    return {
        "polluted_agreed": sum(1 for p in predictions for *_, said in p.details["polluted"] if AGREEING.search(said)),
        "facts": sum(len(p.details["facts"]) for p in predictions),
        "agent_traits": sum(len(p.details["agent"]) for p in predictions),
    }
