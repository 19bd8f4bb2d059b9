"""The short-term cache M_S: the utterances of a thread's running session, and equation (4), which ends it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ld_agent.storage.base import Store
from ld_agent.types import Utterance


class ShortTermCache:
    """M_S of one thread of a conversation, kept in the store and mirrored here.

    Args:
        store: where utterances are stored.
        key: the conversation's key in the store.
        beta: β in seconds.
        clock: the time now, for utterances that come without one.
        thread: name of the thread.
    """

    def __init__(self, store: Store, key: int, beta: float, clock: Callable[[], datetime], thread: str = "") -> None:
        self._store, self._key, self._beta, self._clock, self.thread = store, key, beta, clock, thread
        self._utterances = store.open_utterances(key, thread)

    @property
    def utterances(self) -> tuple[Utterance, ...]:
        """The running session, oldest first; () between sessions."""
        return tuple(self._utterances)

    def speakers(self) -> list[str]:
        """Everyone who has spoken in the conversation, in any thread."""
        return self._store.speakers(self._key)

    def append(
        self, speaker: str, text: str, at: datetime | None, channel: str = "chat", *, interrupted: bool = False
    ) -> Utterance:
        """Equation (4): where the gap exceeds β the session is closed and M_S ← {(t', u')}; else u' joins it.

        The utterance is on disk when this returns.

        Raises:
            InputError: ``at`` lies before the last utterance.
        """
        utterance = self._store.append(
            self._key, speaker, text, at, self._beta, self._clock, self.thread, channel, interrupted
        )
        if self._utterances and self._utterances[-1].session != utterance.session:
            self._utterances = []
        self._utterances.append(utterance)
        return utterance

    def exceeded(self, at: datetime) -> bool:
        """Whether a gap until ``at`` would end the running session: t' - t_last > β."""
        return bool(self._utterances) and (at - self._utterances[-1].at).total_seconds() > self._beta

    def end(self) -> None:
        """Close the running session without waiting for a gap."""
        self._store.close_session(self._key, self.thread)
        self._utterances = []

    def reload(self) -> None:
        """Reload the running session after another process wrote to the store."""
        self._utterances = self._store.open_utterances(self._key, self.thread)
