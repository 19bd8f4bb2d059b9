"""Build ECM's three benchmarks with any backbone (ECM, section 4).

- `continuing`: a dialogue, and a later question that requires remembering it.
- `knowledge`: sessions between two people, and questions about facts that one of them disclosed.
- `feedback`: a request, a poor answer, advice and a better answer; later, a similar request to which the advice applies.

`ecm` defines samples and asks their questions. Malformed model output yields no sample and is counted by its error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ld_agent.backbones.base import Request
from ld_agent.datasets.base import Episode, Turn
from ld_agent.datasets.records import json_lines, raise_bad, text_lines
from ld_agent.errors import InputError
from ld_agent.evaluation.tasks.ecm import ASSISTANT, BENCHMARKS, USER, sample
from ld_agent.evaluation.tasks.question_data import Questioned
from ld_agent.languages import ENGLISH
from ld_agent.steps import Complete, Steps, run_many
from ld_agent.text import stems_of

SHORT, LONG = 96, 192  # new tokens of a question or advice, and of an answer or chat
FEWEST_LINES = 4  # of a dialogue worth continuing
WIDTH = 8  # sources processed concurrently
START = datetime(2024, 1, 1, 12, tzinfo=UTC)
CHAT_LINES = 6  # before a request
PACE = timedelta(seconds=30)
QUESTION = re.compile(r"^\W{0,40}question\W{0,40}:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
ANSWER = re.compile(r"^\W{0,40}answer\W{0,40}:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
QUOTES = re.compile('["“”]')
SAID = re.compile(r"^\W*(user|assistant)\W*:\s*(.+)$", re.IGNORECASE)
Made = list[Questioned | str]
"""A sample, and the errors in the model's text for which something was dropped."""


@dataclass(slots=True)
class Built:
    """The samples of a benchmark.

    Attributes:
        dropped: number of sources and facts without a sample, by the error in the model's text.
    """

    samples: list[Questioned] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def build(
    benchmark: str, sources: Sequence[Episode] | Sequence[str], complete: Complete, wanted: int | None = None
) -> Built:
    """Build a benchmark.

    Args:
        benchmark: one of `BENCHMARKS`.
        sources: conversations, with personas for ``knowledge``; requests (texts) for ``feedback``.
        complete: answers requests, such as a backbone's ``generate``.
        wanted: stop once so many samples were made; None: use every source.
    """
    built = Built()
    work = _work(benchmark, sources)
    while work and (wanted is None or len(built.samples) < wanted):
        missing = len(work) if wanted is None else wanted - len(built.samples)
        batch, work = work[:missing], work[missing:]  # so that the outcome does not depend on the width
        for _, made in sorted(run_many(enumerate(batch), complete, WIDTH)):
            built.samples += [one for one in made if isinstance(one, Questioned)]
            built.dropped.update(one for one in made if isinstance(one, str))
    for unused in work:
        unused.close()
    return built


def _work(benchmark: str, sources: Sequence[Episode] | Sequence[str]) -> list[Steps[Made]]:
    """One piece of work for each source that suits a benchmark."""
    requests = [source for source in sources if isinstance(source, str)]
    episodes = [source for source in sources if isinstance(source, Episode)]
    if benchmark == "feedback":
        work = [feedback(f"feedback{n}", text) for n, text in enumerate(requests, 1)]
        needs = "requests, one text each"
    elif benchmark == "knowledge":
        work = [knowledge(e) for e in episodes if facts_of(e)]
        needs = "conversations with persona facts of the user"
    elif benchmark == "continuing":
        work = [continuing(e) for episode in episodes for e in dialogues_of(episode)]
        needs = f"conversations of at least {FEWEST_LINES} utterances"
    else:
        raise InputError(f"benchmark {benchmark!r} is unknown; the benchmarks are {', '.join(BENCHMARKS)}")
    if not work:
        raise InputError(f"no sources to build {benchmark} from; it needs {needs}")
    return work


# ---- the three benchmarks, as steps that ask a model


def continuing(source: Episode) -> Steps[Made]:
    """Create one question and answer that require the dialogue (ECM, section 4.1).

    An answer that repeats nothing of the dialogue but what its question already says can be given without a memory.
    """
    lines = [(turn.speaker, turn.text) for turn in source.turns]
    [answer] = yield [_request("ecm_continue", LONG, lines=lines)]
    if (probe := _probe(answer.text)) is None:
        return ["no question and answer"]
    said, asked, expected = (stems_of(text, ENGLISH.reading) for text in (" ".join(text for _, text in lines), *probe))
    return [sample(source, [probe])] if (said - asked) & expected else ["no use of the dialogue"]


def knowledge(episode: Episode) -> Steps[Made]:
    """Create a question and answer for each persona fact of the user (ECM, section 4.2)."""
    facts = facts_of(episode)
    answers = yield [_request("ecm_knowledge", SHORT, fact=fact) for fact in facts]
    probes = [probe for answer in answers if (probe := _probe(answer.text)) is not None]
    dropped = ["no question and answer"] * (len(facts) - len(probes))
    return [*dropped, sample(in_roles(episode), probes) if probes else "no fact gave a question"]


def feedback(name: str, request: str) -> Steps[Made]:
    """Create a request with answer, advice and better answer, and a similar request (ECM, section 4.3)."""
    similar, background = yield [
        _request("ecm_similar", SHORT, request=request),
        _request("ecm_background", LONG, request=request),
    ]
    other, chat = _one_line(similar.text), _chat(background.text)
    if not other or other.casefold() == request.casefold():
        return ["no similar request"]
    if not chat:
        return ["no chat before the request"]
    pair = (request, other)
    drafts = yield [_request("ecm_answer", LONG, request=text, advice="") for text in pair]
    asked = list(zip(pair, (draft.text.strip() for draft in drafts), strict=True))
    if not all(draft for _, draft in asked):
        return ["an empty answer"]
    [remark] = yield [_request("ecm_feedback", SHORT, pairs=asked)]
    if not (advice := _one_line(remark.text)):
        return ["no advice"]
    better = yield [_request("ecm_answer", LONG, request=text, advice=advice) for text in pair]
    improved, reference = (answer.text.strip() for answer in better)
    if not improved or not reference:
        return ["an empty answer"]
    said = [*chat, (USER, request), (ASSISTANT, asked[0][1]), (USER, advice), (ASSISTANT, improved)]
    turns = tuple(Turn(speaker, text, START + n * PACE, 1) for n, (speaker, text) in enumerate(said))
    return [sample(Episode(name, ASSISTANT, turns), [(other, reference)])]


# ---- sources


def facts_of(episode: Episode) -> tuple[str, ...]:
    """Return the persona facts of everyone but the agent."""
    return tuple(fact for name, facts in episode.personas.items() if name != episode.agent for fact in facts)


def in_roles(episode: Episode) -> Episode:
    """Rename the agent to `ASSISTANT` and everyone else to `USER`."""
    turns = tuple(replace(t, speaker=ASSISTANT if t.speaker == episode.agent else USER) for t in episode.turns)
    return Episode(episode.id, ASSISTANT, turns, source=episode.source)


def dialogues_of(episode: Episode) -> Iterator[Episode]:
    """Yield each session that is long enough and includes both roles as a separate dialogue."""
    whole = in_roles(episode)
    for number in dict.fromkeys(turn.session for turn in whole.turns):
        turns = tuple(turn for turn in whole.turns if turn.session == number)
        if len(turns) >= FEWEST_LINES and {turn.speaker for turn in turns} == {USER, ASSISTANT}:
            name = episode.id if number is None else f"{episode.id}/session{number}"
            numbered = tuple(replace(turn, session=1) for turn in turns)
            yield Episode(name, ASSISTANT, numbered, source=episode.source)


def load_requests(path: Path) -> list[str]:
    """Read requests for ``feedback``: one per line, or JSON lines with ``instruction`` (self-instruct seeds)."""
    lines = [text for _, text in text_lines(path, raise_bad)]
    if lines and lines[0].startswith("{"):
        lines = [record.text("instruction") for record in json_lines(path, raise_bad)]
    if not lines:
        raise InputError(f"{path} contains no requests; give a text file with one request per line")
    return list(dict.fromkeys(" ".join(line.split()) for line in lines))


# ---- parsing model output


def _request(prompt: str, max_new_tokens: int, **variables: Any) -> Request:
    template = ENGLISH.prompt(prompt)
    constant = template.constant_messages
    return Request(template.render(**variables), "builder", max_new_tokens, cacheable_prefix=constant)


def _probe(text: str) -> tuple[str, str] | None:
    """Parse the first question line and answer line; text after them is ignored."""
    question, answer = QUESTION.search(text), ANSWER.search(text)
    if question is None or answer is None or answer.start() < question.end():
        return None
    asked, expected = _bare(question[1]), _bare(answer[1])
    return (asked, expected) if asked and expected else None


def _one_line(text: str) -> str:
    """Return the first line of a text without label and quotes; "" if there is none."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return _bare(re.sub(r"^\W*(?:request|advice|suggestion|feedback)\W*:", "", line, flags=re.IGNORECASE))


def _bare(text: str) -> str:
    """Return a text without markup and without the quotes around it; it keeps quotes if there are more within it."""
    text = " ".join(text.split()).strip("*` ")
    inner = text.strip('"“”*` ')
    text = text if QUOTES.search(inner) else inner
    return text if re.search(r"\w", text) else ""


def _chat(text: str) -> list[tuple[str, str]]:
    """Parse up to `CHAT_LINES` alternating turns, from the user's first to the assistant's last.

    A chat ends before a line that repeats an earlier one: small models go round in circles.
    """
    said: list[tuple[str, str]] = []
    for line in text.splitlines():
        match = SAID.match(line)
        if match is None:
            if line.strip():
                break
            continue
        speaker, utterance = USER if match[1].casefold() == "user" else ASSISTANT, match[2].strip()
        if speaker != (ASSISTANT if len(said) % 2 else USER) or len(said) == CHAT_LINES:
            break
        if any(utterance.casefold() == earlier.casefold() for _, earlier in said):
            break
        said.append((speaker, utterance))
    return said[: len(said) // 2 * 2]
