"""Which of several answers, said at different times, a question asks for: "Where do I work?" the newest, "Where did I work
before?" the oldest. Knows no memory and no model.
"""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.languages.rules import Reading
from ld_agent.modules.wording import stems_of

_ASKS_FORMER, _ASKS_PAST = Reading("asks_former"), Reading("asks_past")


def timely(question: str, answers: Sequence[str], sessions: Sequence[int]) -> int:
    """The place of the answer that holds at the time the question is about.

    Of what was, as in "Where did we meet?", the first answer; unless it names nothing new, the same goes for what is.

    Args:
        answers: at least one, the most likely first; all are about the same thing.
        sessions: the session in which each was said.

    >>> timely("What car do I drive?", ["You drive a Volvo.", "You drive a Fiat."], [1, 2])
    1
    >>> timely("What car did I drive before?", ["You drive a Fiat.", "You drove a Volvo."], [2, 1])
    1
    """
    former = bool(_ASKS_FORMER.search(question))
    if _ASKS_PAST.search(question) and not former:
        return 0
    places = range(len(answers))
    wanted = min(places, key=lambda n: (sessions[n] if former else -sessions[n], n))
    news = stems_of(answers[wanted]) - stems_of(answers[0]) - stems_of(question)
    return wanted if news else 0
