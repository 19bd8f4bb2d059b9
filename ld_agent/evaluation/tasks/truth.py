"""List what an agent stored of conversations, statement by statement, and measure by people's labels what of it is true.

A prediction has the statements of one conversation, each with the lines that it comes from. A label is about a statement's
id, which depends on its text and lines only: labels stay valid for every run that stores the same. Knows no model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent, Conversation
from ld_agent.config import Config
from ld_agent.datasets import Episode, load_episodes
from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import InputError
from ld_agent.evaluation.judging.agreement import agreement
from ld_agent.evaluation.judging.form import write_page
from ld_agent.evaluation.metrics import Measure, shares
from ld_agent.evaluation.played import PlayedTask
from ld_agent.evaluation.run_files import Prediction, Run
from ld_agent.evaluation.tasks.memory_quality import REWRITTEN, sentences_of, standing
from ld_agent.memory.quotes import LED_UP
from ld_agent.prompts import as_name
from ld_agent.running.terminal import say
from ld_agent.text import words_of
from ld_agent.types import Utterance

LABELS = {"true": "true", "wrong_person": "wrong person", "not_said": "not said", "passing": "true, but over tomorrow"}
"""The labels, and what their buttons say."""
QUESTION = "Do the lines say so? Passing states, such as being tired or on the way, are over tomorrow."
CUMULATIVE = REWRITTEN | {"memorybank"}
"""Views whose records also tell of lines before their sources."""


class TruthTask(PlayedTask):
    """Play every conversation of a file and list the statements stored."""

    name = "truth"

    def __init__(self, data: Path, config: Config, limit: int | None = None, **options: Any) -> None:
        episodes = {e.id: e for e in load_episodes(data, limit=limit)}
        if not episodes:
            raise InputError(f"{data} has no conversation; give one that ld-agent run can play")
        super().__init__(episodes, dict.fromkeys(episodes, ("",)))

    def measured(self, agent: Agent, conversation: Conversation, episode: Episode) -> tuple[str, dict[str, Any]]:
        statements = [_statement(episode.id, *stored) for stored in _stored(conversation)]
        distinct = list({statement["id"]: statement for statement in statements}.values())
        text = "\n".join(str(statement["text"]) for statement in distinct)
        return text or "no statement", {"agent": conversation.agent_name, "statements": distinct}


def _stored(conversation: Conversation) -> Iterator[tuple[str, str, str, list[Utterance], list[Utterance]]]:
    """Yield kind, speaker, text, lines and sources: of the traits that somebody's words revealed, superseded ones too, with what
    led up to them; and of each sentence of the current records."""
    said = conversation.utterances
    places = {utterance.id: place for place, utterance in enumerate(said)}
    for trait in conversation.traits(history=True):
        if trait.source:
            place = places[trait.source]
            lines = [u for u in said[max(place - LED_UP, 0) : place + 1] if u.session == said[place].session]
            yield "trait", trait.speaker, trait.text, lines, lines[-1:]
    for record in standing(conversation.records):
        whole = record.view in CUMULATIVE or not record.sources
        lines = [u for u in said if (u.at <= record.at if whole else u.id in record.sources)]
        text = record.text
        for name in map(as_name, conversation.speakers):  # quotes of what people typed often end without a period
            text = text.replace(f" {name}: ", f"\n{name}: ")
        for sentence in sentences_of([text]):
            yield "event" if record.view == "events" else record.view, "", sentence, lines, lines


def _statement(
    episode: str, kind: str, speaker: str, text: str, lines: Sequence[Utterance], sources: Sequence[Utterance]
) -> dict[str, Any]:
    days = [f"– {utterance.at:%A %Y-%m-%d} –" for utterance in lines]
    dated: list[tuple[str, str]] = []
    for utterance, day, before in zip(lines, days, ["", *days], strict=False):
        dated += [*([("", day)] if day != before else []), (utterance.speaker, utterance.text)]
    digest = hashlib.sha256(json.dumps([kind, speaker, text, dated]).encode()).hexdigest()[:10]
    about = {"kind": kind, "speaker": speaker, "text": text, "lines": dated}
    return {"id": f"{episode}/{kind}/{digest}", **about, "quoted": any(_says(u, text) for u in sources)}


def _says(utterance: Utterance, text: str) -> bool:
    """Whether an utterance has the words of a text, in this order; a quote names the speaker first."""
    words = " ".join(words_of(text.removeprefix(f"{as_name(utterance.speaker)}: ")))
    return f" {words} " in f" {' '.join(words_of(utterance.text))} "


def labelled(runs: Sequence[Run], form: str, labels: Sequence[Path] | None) -> list[Run]:
    """Return the runs with people's labels; also write the page on which they label.

    Args:
        form: the page to write, with the statements of all runs; "": none.
        labels: files of JSON lines ``{"id", "label"}``, one per person.
    """
    stored = {s["id"]: s for run in runs for p in run.predictions for s in p.details["statements"]}
    if form:
        items = [{"id": i, "lines": s["lines"], "reply": _shown(s)} for i, s in sorted(stored.items())]
        of_form = hashlib.sha256("".join(sorted(stored)).encode()).hexdigest()[:12]
        write_page(Path(form), of_form, {"truth": (QUESTION, tuple(LABELS.values()))}, items, tuple(LABELS))
        say(f"the page is {form}, with {len(items)} statements")
    given = [_read_labels(path, stored) for path in labels or ()]

    def with_labels(p: Prediction) -> Prediction:
        statements = [s | {"labels": [of_one.get(s["id"]) for of_one in given]} for s in p.details["statements"]]
        return replace(p, details={**p.details, "statements": statements})

    return [replace(run, predictions=tuple(map(with_labels, run.predictions))) for run in runs]


def _shown(statement: Mapping[str, Any]) -> str:
    return f"About {statement['speaker']}: {statement['text']}" if statement["speaker"] else str(statement["text"])


def _read_labels(path: Path, stored: Mapping[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for record in json_lines(path, raise_bad):
        of, label = record.text("id"), record.text("label")
        if label not in LABELS:
            raise record.error(f"label={label!r} is not one of {', '.join(LABELS)}")
        if of in labels:
            raise record.error(f"{of!r} is labelled twice; keep one label")
        labels[of] = label
    if labels.keys().isdisjoint(stored):
        raise InputError(f"{path} has no label of a statement of this run; export it from a page of this run's --form")
    return labels


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Compute the share of each label, of all statements that people labelled and by group; and the share of quoted ones, which
    are the people's own words. Two labels of a statement count twice; without labels there are no measures.
    """
    measures: dict[str, Measure] = {}
    for group, stored in _by_group(predictions).items():
        rated = [[(s, label) for s in of_one for label in s.get("labels", ()) if label] for of_one in stored]
        if any(rated):
            for label in LABELS:
                measures[f"{group}{label}"] = shares([(sum(x == label for _, x in rows), len(rows)) for rows in rated])
            measures[f"{group}quoted"] = shares([(sum(s["quoted"] for s, _ in rows), len(rows)) for rows in rated])
    return measures


def figures(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Count the statements, stored and labelled, of all groups; with labels of several people, their agreement."""
    figures: dict[str, Any] = {}
    given: dict[str, dict[str, str]] = {}
    for group, stored in _by_group(predictions).items():
        labels = {s["id"]: s.get("labels", ()) for of_one in stored for s in of_one}
        named = {i: {str(n): x for n, x in enumerate(of) if x} for i, of in labels.items() if any(of)}
        figures |= {f"{group}statements": len(labels), f"{group}labelled": len(named)}
        given |= named
    agreed = agreement(given)
    return figures | ({"agreement": agreed} if agreed["annotators"] > 1 else {})


def _by_group(predictions: Sequence[Prediction]) -> dict[str, list[list[Mapping[str, Any]]]]:
    """The statements of each prediction, by the beginning of their figures' names: "" for all, else the kind; for traits also
    whose they are."""
    grouped: dict[str, list[list[Mapping[str, Any]]]] = {"": [[] for _ in predictions]}
    for place, prediction in enumerate(predictions):
        for statement in prediction.details["statements"]:
            whose = "agent_" if statement["speaker"] == prediction.details["agent"] else "person_"
            group = f"{whose if statement['kind'] == 'trait' else ''}{statement['kind']}_"
            for name in ("", group):
                grouped.setdefault(name, [[] for _ in predictions])[place].append(statement)
    return dict(sorted(grouped.items()))
