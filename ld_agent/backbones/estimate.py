"""Estimates a prompt's tokens for a model whose tokenizer is out of reach, and keeps control tokens out of its text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ld_agent.backbones.answer_text import disarmed
from ld_agent.backbones.base import Message

MESSAGE_OVERHEAD = 8
_PIECES = re.compile(r"(?P<word>[A-Z]?[a-z]+|  +)|(?P<capitals>[A-Z]+)|(?P<rest> ?[0-9]|[^\x00-\x7f]+|[^ ])")
_CHARACTERS_A_TOKEN = {"word": 3, "capitals": 2, "rest": 1}


def estimated_prompt(messages: Sequence[Message]) -> int:
    """Estimate an upper bound of a prompt's tokens.

    Counts one token per three letters of a lower-case word, per two letters of an upper-case word, per digit, sign and
    line break, and per non-ASCII byte (no byte-level vocabulary needs more), plus 8 per message and 8 at the end for
    the template. English prose needs about one token per four letters, so it is overestimated by half; other
    languages more. Strings that are not words (such as long keys) can exceed the estimate.
    """
    return MESSAGE_OVERHEAD + sum(MESSAGE_OVERHEAD + estimated_tokens(m.content) for m in messages)


def estimated_tokens(text: str) -> int:
    return sum(
        -(-len(piece[0].encode("utf-8", "replace")) // _CHARACTERS_A_TOKEN[str(piece.lastgroup)])
        for piece in _PIECES.finditer(text)
    )


def as_plain_text(text: str) -> str:
    """Break chat-template control tokens with a space: ``<|im_end|>`` → ``< |im_end|>``.

    The server tokenizes the rendered prompt as one string, so user text must not contain such tokens. Lone surrogates become
    ``?``.
    """
    return disarmed(text).encode("utf-8", "replace").decode()
