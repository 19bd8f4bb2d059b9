"""The short-term cache M_S: the utterances of a thread's running session, what enters it, and equation (4), which ends it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ld_agent.backbones.answer_text import without_reasoning
from ld_agent.errors import InputError
from ld_agent.storage.store import Store
from ld_agent.types import Utterance, as_known, checked_channel, checked_name, checked_text, zoned


class ShortTermCache:
    """M_S of one thread of a conversation, kept in the store and mirrored here.

    Args:
        store: where utterances are stored.
        key: the conversation's key in the store.
        beta: β in seconds.
        clock: the time now, for utterances that come without one.
        thread: name of the thread.
        agent: the agent's name.
        user: the name of a speaker who gives none.

    Attributes:
        utterances: the running session, oldest first; () between sessions.
    """

    def __init__(
        self,
        store: Store,
        key: int,
        beta: float,
        clock: Callable[[], datetime],
        thread: str,
        agent: str,
        user: str,
    ) -> None:
        self._store, self._key, self._beta, self._clock, self.thread = store, key, beta, clock, thread
        self._agent, self._user = agent, user
        self.utterances: tuple[Utterance, ...] = ()
        self.reload()

    def hear(
        self,
        text: str,
        speaker: str | None,
        at: datetime | str | None,
        channel: str = "chat",
        *,
        to_answer: bool = False,
    ) -> Utterance:
        """Append what somebody says, under their name as it was first written here; the agent's without its reasoning.

        Args:
            to_answer: the agent shall answer it.

        Raises:
            InputError: an unusable text, name or time, or the agent would answer itself.
        """
        given = self._user if speaker is None else checked_name(speaker)
        name = as_known(given, [self._agent, *self._store.speakers(self._key), self._user])
        if name == self._agent and to_answer:
            raise InputError(
                f"speaker {name!r} is the agent itself, which does not answer itself; give another name, or use observe"
            )
        if name == self._agent and isinstance(text, str):
            text = without_reasoning(text)
        return self.append(name, checked_text(text), None if at is None else zoned(at), checked_channel(channel))

    def append(
        self,
        speaker: str,
        text: str,
        at: datetime | None,
        channel: str = "chat",
        *,
        interrupted: bool = False,
        follows: bool = False,
    ) -> Utterance:
        """Equation (4): where the gap exceeds β the session is closed and M_S ← {(t', u')}; else u' joins it.

        The utterance is on disk when this returns. Args: as `Store.append`.

        Raises:
            InputError: ``at`` lies before the last utterance, and does not follow it.
        """
        said = self._store.append(
            self._key, speaker, text, at, self._beta, self._clock, self.thread, channel, interrupted, follows
        )
        goes_on = self.utterances and self.utterances[-1].session == said.session
        self.utterances = (*self.utterances, said) if goes_on else (said,)
        return said

    def unanswered(self) -> Utterance:
        """What was said last, if the agent has not answered it.

        Raises:
            InputError: there is nothing to answer.
        """
        if not self.utterances or self.utterances[-1].speaker == self._agent:
            raise InputError("the running session has no unanswered utterance; use respond(text)")
        return self.utterances[-1]

    def exceeded(self, at: datetime) -> bool:
        """Whether a gap until ``at`` would end the running session: t' - t_last > β."""
        return bool(self.utterances) and (at - self.utterances[-1].at).total_seconds() > self._beta

    def end(self) -> None:
        """Close the running session without waiting for a gap."""
        self._store.close_session(self._key, self.thread)
        self.utterances = ()

    def reload(self) -> None:
        """Reload the running session after another process wrote to the store."""
        self.utterances = tuple(self._store.open_utterances(self._key, self.thread))
