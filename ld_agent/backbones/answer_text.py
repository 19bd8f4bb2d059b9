"""Cleans model output so that it can be stored and shown: every completion and streamed piece passes through here.

Knows characters and the control tokens of chat templates; nothing of models, prompts or what the text means.
"""

from __future__ import annotations

import re
from collections.abc import Callable

CONTROL_TOKEN = re.compile(
    r"<\|[^<>|]{1,64}\|>|<｜[^<>｜]{1,64}｜>|</?s>|<(?:bos|eos|pad|unk|mask|start_of_turn|end_of_turn)>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|gMASK)\]"
)
_OPENING = r"<\|(?:im_start|start_header_id)\|>|<start_of_turn>"
_ROLE = re.compile(rf"\s*(?:{_OPENING})\s*(?:assistant|model)?\s*(?:<\|end_header_id\|>|\n|\Z)\s*")
_END_OF_TURN = re.compile(rf"<\|(?:im_end|eot_id|eom_id|end|endoftext|end_of_text)\|>|<end_of_turn>|{_OPENING}")
_ESCAPE_SEQUENCE = re.compile("(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]")
_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_UNFINISHED = re.compile(
    rf"(?:\A\s*(?:{_OPENING})\s*[a-z]*|<(?:\|[^<>|]{{0,64}}\|?|｜[^<>｜]{{0,64}}｜?|/?[a-z_]{{0,13}})?|\[/?[A-Za-z_]{{0,13}}"
    "|\x1b(?:\\[[0-?]*[ -/]*)?|\x9b[0-?]*[ -/]*|\r|[\ud800-\udbff])\\Z"
)
"""A suffix whose meaning depends on what follows."""


def answer_text(text: str) -> str:
    """Return an answer without unsafe characters.

    Surrogates are joined or dropped; control characters except newline and tab, terminal escape sequences and control
    tokens of chat templates are removed. A token that ends the turn ends the answer, unless nothing precedes
    it.
    """
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    text = _CONTROL.sub("", _LINE_BREAK.sub("\n", _ESCAPE_SEQUENCE.sub("", text)))
    if not CONTROL_TOKEN.search(text):
        return text
    text = _ROLE.sub("", text, count=1) if _ROLE.match(text) else text
    for end in _END_OF_TURN.finditer(text):
        if CONTROL_TOKEN.sub("", text[: end.start()]).strip():
            text = text[: end.start()]
            break
    return disarmed(CONTROL_TOKEN.sub("", text))


def disarmed(text: str) -> str:
    """Return text whose control tokens are broken by a space: ``<|im_end|>`` → ``< |im_end|>``."""
    return CONTROL_TOKEN.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text)


class AnswerStream:
    """Passes streamed pieces on, cleaned like `answer_text`; a suffix that may become a control token is held back.

    Args:
        show: called with each piece; the joined pieces are the beginning of the answer.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._text, self._shown = "", ""

    def __call__(self, piece: str) -> None:
        """Process the next piece of the model's output."""
        self._text += piece
        ready = answer_text(_UNFINISHED.sub("", self._text))
        if len(ready) > len(self._shown) and ready.startswith(self._shown):
            self._show(ready[len(self._shown) :])
            self._shown = ready
