"""Recursive summarization (LLM-Rsum): after each session the memory is rewritten from itself and that session.

    M_i = LLM(P_m(S_i, M_{i-1})),  M_0 none        r_t = LLM(P_r(C_t, M_N))

Every version is stored, as one record per session. There is no retrieval: the newest version is recalled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.config.sections import MemorySection
from ld_agent.errors import BackboneError, ConfigError
from ld_agent.files import named_path
from ld_agent.languages import ENGLISH, Language
from ld_agent.memory.views.base import Guidance, Query, View, ViewContext
from ld_agent.memory.views.checks import checked_facts, dropped_in
from ld_agent.memory.views.memory_text import Facts, capped, facts_from, finished, lost, memory_text, repetitive
from ld_agent.memory.views.stored import draft_of
from ld_agent.modules.base import retried
from ld_agent.modules.summarizer import pack, typical
from ld_agent.steps import Steps
from ld_agent.storage.rows import PATIENCE
from ld_agent.types import Recalled, Record, Session, Utterance

CARRIED = 2
"""Number of utterances kept for a session whose rewrite never succeeded."""
SHORTEST = 64


class VersionsView(View):
    """A view whose records are versions of one text, of which the newest is recalled."""

    rewrites = True
    _examples: tuple[str, ...] = ()  # of replies

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        """The newest version not younger than the query, always with score 1; s_sem is its cosine, for information
        only."""
        yield from ()
        newest = self.shelf.newest(query.at)
        if newest is None:
            return []
        record, vector = newest
        if vector is None:
            vector = self.context.encoder.encode([record.text])[0]
        return [Recalled(record, float(vector @ query.vector), 0.0, 1.0, 1.0)]

    def guidance(self, recalled: Sequence[Recalled]) -> Guidance:
        """The steps of P_r (Table 2) and the n-shot examples; nothing while there is no memory."""
        if not any(r.record.view == self.name for r in recalled):
            return Guidance()
        return Guidance(self.context.models.language.prompt("recursive_reply").render()[0].content, self._examples)


class RecursiveView(VersionsView):
    """The memory M_N of one conversation and all its earlier versions.

    Raises:
        ConfigError: ``memory.recursive.examples`` names a file that cannot be used.
    """

    name = "recursive"

    def __init__(self, context: ViewContext) -> None:
        super().__init__(context)
        settings = context.settings.recursive
        self._settings = settings
        self._dropped = 0  # statements of the last rewrite
        self._examples = reply_examples(settings.examples, context.models.language) if settings.examples else ()

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        return "the newest version, always"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        """Rewrite the memory once per session, in order, because each version is made from the previous one.

        If ``memory.recursive.checked`` is false, every answer is the new memory, and an empty one keeps the old.

        A rejected rewrite keeps the old memory, and its session stays pending. Retries use a higher temperature. After
        `PATIENCE` tries, or at once if there is no old memory, the old memory is carried over with utterances of the
        session, marked as a fallback.

        Raises:
            BackboneError: a rewrite was rejected, or the model failed to answer.
        """
        tries = {f.item: f.attempts for f in self.context.store.failures(self.context.key) if f.work == self.name}
        for session in sessions:
            stored = self.shelf.newest()
            old = stored[0] if stored else None
            known = facts_of(old) if old else {}
            tried = tries.get(str(session.number), 0)
            facts, problem = yield from self._rewritten(session, known, tried)
            while problem and not self.context.waits and tried + 1 < PATIENCE:
                tried += 1
                facts, problem = yield from self._rewritten(session, known, tried)
            if problem and known and tried + 1 < PATIENCE:
                raise BackboneError(
                    f"the memory rewritten after session {session.number} was refused ({problem}); the old one is kept "
                    "and the session will be retried"
                )
            if problem:
                facts = self._carried(known, session)
            self._keep(session, facts, old, tried, fallback=bool(problem))

    def _rewritten(self, session: Session, known: Facts, tried: int) -> Steps[tuple[Facts, str]]:
        """M_i, and what is wrong with it ("": nothing). A session too long for the window is processed in pieces.

        Args:
            tried: number of earlier rejections or failures of this rewrite.
        """
        facts, self._dropped = known, 0
        for part in self._pieces(session, known):
            [answer] = yield [self._request(session, part, facts, tried)]
            facts, problem = self._judged(answer, part, session, facts)
            if problem:
                return known, problem
        return facts, ""

    def _judged(
        self, answer: Completion, part: Sequence[Utterance], session: Session, known: Facts
    ) -> tuple[Facts, str]:
        if not self._settings.checked:
            text = answer.text.strip()
            facts = facts_from(text, [*known, *session.speakers], self.context.reading) or (
                {"": [text]} if text else known
            )
            return facts, "" if facts else "it is empty"
        lines = [
            *((who, fact) for who, of_one in known.items() for fact in of_one),
            *((u.speaker, u.text) for u in part),
        ]
        context = self.context
        text = answer.text if answer.finish == "stop" else finished(answer.text)
        written = facts_from(text, [*known, *session.speakers], context.reading)
        facts, dropped = checked_facts(written, lines, context.reading, context.check)
        self._dropped += dropped
        if not any(facts.values()):
            return known, "it contains nothing that was said"
        if repetitive(memory_text(facts)):
            return known, "it repeats itself"
        share = lost(known, facts, context.reading)
        if share > self._settings.most_lost:
            return (
                known,
                f"it drops {share:.0%} of what was known, memory.recursive.most_lost={self._settings.most_lost:g}",
            )
        return capped(facts, self._settings.sentences), ""

    def _request(self, session: Session, part: Sequence[Utterance], known: Facts, tried: int) -> Request:
        return retried(self.context.models.request("memory", self._messages(session, part, known)), tried)

    def _messages(self, session: Session, part: Sequence[Utterance], known: Facts) -> tuple[Message, ...]:
        return self.context.models.language.prompt("recursive_rewrite").render(
            sentences=self._settings.sentences,
            memory=list(known.items()),
            lines=[(u.speaker, u.text) for u in part],
            people=self.context.models.language.named(session.speakers),
        )

    def _pieces(self, session: Session, known: Facts) -> list[list[Utterance]]:
        """The fewest runs of a session's utterances whose prompts fit the window."""

        def fits(part: Sequence[Utterance]) -> bool:
            return self.context.models.fits("memory", self._messages(session, part, known))

        whole = list(session.utterances)
        if fits(whole) or not fits([]):  # if not even the instructions fit, pieces do not help
            return [whole]
        return pack([_shortened(u, fits) for u in whole], fits)

    def _carried(self, known: Facts, session: Session) -> Facts:
        """The old memory plus the most typical utterances of a session whose rewrite failed."""
        said = [u for u in session.utterances if u.text.strip()]
        facts = {speaker: list(sentences) for speaker, sentences in known.items()}
        for utterance in typical(said, self.context.encoder.encode, CARRIED):
            facts.setdefault(utterance.speaker, []).append(f'{utterance.speaker} said: "{utterance.text[:200]}"')
        return capped(facts, self._settings.sentences)

    def _keep(self, session: Session, facts: Facts, old: Record | None, refused: int, *, fallback: bool) -> None:
        text = memory_text(facts)
        vector = self.context.encoder.encode([text])[0]
        details = {"facts": facts, "rewrites": [refused + fallback, refused + 1]} | dropped_in(self._dropped)
        details |= {"previous": old.id} if old else {}
        draft = draft_of(session.utterances, text, vector, fallback=fallback, rewritten=True, details=details)
        if old is not None and old.at > draft.at:  # it also says what the old one says
            draft = replace(draft, at=old.at)
        self.shelf.digest(session.number, [draft])


def reply_examples(path: str, language: Language = ENGLISH) -> tuple[str, ...]:
    """Read a JSON-lines file of examples and render each for the prompt; a memory of several lines keeps them.

    A line is ``{"memory": "…", "dialogue": [["User", "…"], …], "reply": "…"}``.

    Raises:
        ConfigError: no such file, or a line that is not an example; names file and line.
    """
    try:
        lines = named_path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"memory.recursive.examples={path} cannot be read ({exc}); give a JSON-lines file") from exc
    rendered: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            memory, reply = row["memory"], row["reply"]
            dialogue = [(speaker, text) for speaker, text in row["dialogue"]]
            if not all(isinstance(value, str) for value in (memory, reply, *(v for pair in dialogue for v in pair))):
                raise TypeError("a value is not text")
        except (ValueError, KeyError, TypeError) as exc:
            raise ConfigError(
                f"memory.recursive.examples={path}, line {number}: no example ({exc!r}); write "
                '{"memory": "…", "dialogue": [["User", "…"]], "reply": "…"}'
            ) from exc
        [message] = language.prompt("recursive_example").render(
            number=len(rendered) + 1, memory=memory.splitlines(), dialogue=dialogue, reply=reply
        )
        rendered.append(message.content)
    return tuple(rendered)


def facts_of(record: Record) -> Facts:
    """A stored version of the memory by speaker; a record in another format counts as the facts of one speaker."""
    facts = record.details.get("facts")
    if not isinstance(facts, dict):
        return {"": [record.text]}
    return {str(speaker): [str(fact) for fact in sentences] for speaker, sentences in facts.items()}


def _shortened(utterance: Utterance, fits: Callable[[Sequence[Utterance]], bool]) -> Utterance:
    """An utterance, truncated if no prompt has room for all of it."""
    while not fits([utterance]) and len(utterance.text) > SHORTEST:
        utterance = replace(utterance, text=utterance.text[: len(utterance.text) // 2])
    return utterance
