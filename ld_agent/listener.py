"""Hears what people say in one thread: checks the input, names the speaker, and appends it to the running session."""

from __future__ import annotations

from datetime import datetime

from ld_agent.backbones.reasoning import without_reasoning
from ld_agent.errors import InputError
from ld_agent.memory.short_term import ShortTermCache
from ld_agent.types import Utterance, checked_name, checked_text, utc


class Listener:
    """What enters one thread.

    Args:
        cache: the thread's running session.
        agent: the agent's name.
        user: the name of a speaker who gives none.
    """

    def __init__(self, cache: ShortTermCache, agent: str, user: str) -> None:
        self._cache, self._agent, self._user = cache, agent, user

    def hear(self, text: str, speaker: str | None, at: datetime | str | None, channel: str = "chat") -> Utterance:
        """Append an utterance to the running session; the agent's without its reasoning.

        Raises:
            InputError: an unusable text, name or time.
        """
        name = self._user if speaker is None else checked_name(speaker)
        if name == self._agent and isinstance(text, str):
            text = without_reasoning(text)
        return self._cache.append(name, checked_text(text), None if at is None else utc(at), channel)

    def answerable(self, speaker: str | None) -> str:
        """The name of a speaker whom the agent can answer.

        Raises:
            InputError: the speaker is the agent.
        """
        name = self._user if speaker is None else speaker
        if name == self._agent:
            raise InputError(
                f"speaker {name!r} is the agent itself, which does not answer itself; give another name, or use observe"
            )
        return name

    def unanswered(self) -> Utterance:
        """What was said last, if the agent has not answered it.

        Raises:
            InputError: there is nothing to answer.
        """
        running = self._cache.utterances
        if not running or running[-1].speaker == self._agent:
            raise InputError("the running session has no unanswered utterance; use respond(text)")
        return running[-1]
