"""Cleans model output so that it can be stored and shown: every completion and streamed piece passes through here.

Knows characters and the control tokens of chat templates; nothing of models, prompts or what the text means. Reasoning
is taken out by `ld_agent.backbones.reasoning`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ld_agent.backbones.reasoning import CHANNEL, Split, marks_reasoning, split

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
    rf"(?:\A\s*(?:{_OPENING})\s*[a-z]*|\A\s*<\|start\|>[^<]*(?:<[^>]*)?|<(?:\|[^<>|]{{0,64}}\|?|｜[^<>｜]{{0,64}}｜?|/?[A-Za-z_]{{0,13}})?"
    "|\\[/?[A-Za-z_]{0,13}"
    "|\x1b(?:\\[[0-?]*[ -/]*)?|\x9b[0-?]*[ -/]*|\r|[\ud800-\udbff])\\Z"
)
"""A suffix whose meaning depends on what follows."""


def answer_text(text: str) -> str:
    """Return an answer without reasoning and unsafe characters.

    Surrogates are joined or dropped; control characters except newline and tab, terminal escape sequences and control
    tokens of chat templates are removed. A token that ends the turn ends the answer, unless nothing precedes
    it.
    """
    return cleaned(text).text


def cleaned(text: str) -> Split:
    """Return `answer_text`, and whether there was reasoning."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    text = _CONTROL.sub("", _LINE_BREAK.sub("\n", _ESCAPE_SEQUENCE.sub("", text)))
    if CHANNEL in text:
        answer = split(text)
        return replace(answer, text=_without_tokens(answer.text))
    answer = split(_turn(text))
    return replace(answer, text=_without_tokens(answer.text))


def _turn(text: str) -> str:
    """The turn that a text begins with."""
    if not CONTROL_TOKEN.search(text):
        return text
    text = _ROLE.sub("", text, count=1) if _ROLE.match(text) else text
    for end in _END_OF_TURN.finditer(text):
        if CONTROL_TOKEN.sub("", text[: end.start()]).strip():
            return text[: end.start()]
    return text


def _without_tokens(text: str) -> str:
    return disarmed(CONTROL_TOKEN.sub("", text)) if CONTROL_TOKEN.search(text) else text


def disarmed(text: str) -> str:
    """Return text whose control tokens are broken by a space: ``<|im_end|>`` → ``< |im_end|>``."""
    return CONTROL_TOKEN.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text)


class AnswerStream:
    """Passes streamed pieces on, cleaned like `answer_text`; a suffix that may become a control token is held back.

    Reasoning that no tag opens is known as such only once a tag closes it. Of a model that does this, declare it
    (``thinks``): its text is then held back until a tag appears. Otherwise what was shown was reasoning: the answer follows
    it after a blank line.

    Args:
        show: called with each piece; the joined pieces are the beginning of the answer.
        thinks: the model begins with reasoning.
    """

    def __init__(self, show: Callable[[str], None], *, thinks: bool = False) -> None:
        self._show, self._thinks = show, thinks
        self._text, self._shown, self._break = "", "", ""

    def __call__(self, piece: str) -> None:
        """Process the next piece of the model's output."""
        self._text += piece
        if self._thinks and not marks_reasoning(self._text):
            return
        answer = cleaned(_UNFINISHED.sub("", self._text))
        if answer.unopened and self._shown and not answer.text.startswith(self._shown):
            self._shown, self._break = "", "\n\n"
        ready = answer.text
        if len(ready) > len(self._shown) and ready.startswith(self._shown):
            self._show(self._break + ready[len(self._shown) :])
            self._shown, self._break = ready, ""
