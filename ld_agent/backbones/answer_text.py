"""Cleans model output so that it can be stored and shown: every completion and streamed piece passes through here.

Takes out reasoning: the one place that knows how models mark it, by tags or harmony's channels. Knows characters and the control
tokens of chat templates; nothing of models, prompts or what the text means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

TAG = re.compile(r"(?<!`)<(?P<close>/?)(?P<name>think|thinking|thought)>", re.IGNORECASE)
"""A tag around reasoning; one that follows a backtick is quoted."""
CHANNEL = "<|channel|>"
READ_AGAIN = 2_000, 32
"""Characters up to which an answer is read again at each piece, then whenever it has grown by a part of its length: who shows a
piece reads the whole answer, which takes time in proportion to its length only if that happens seldom enough."""
FINAL = "final"
_HARMONY_MESSAGE = re.compile(
    r"<\|channel\|>\s*+(?P<channel>\w*+)[^<]*+(?:<\|constrain\|>[^<]*+)?<\|message\|>(?P<text>.*?)"
    r"(?=<\|(?:start|channel|end|return|call)\|>|\Z)",
    re.DOTALL,
)
OMITTED = "<think>…</think>"
"""Stands for reasoning that an endpoint returns in a field of its own."""
CONTROL_TOKEN = re.compile(
    r"<\|[^<>|]{1,64}\|>|<｜[^<>｜]{1,64}｜>|</?s>|<(?:bos|eos|pad|unk|mask|start_of_turn|end_of_turn)>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|gMASK)\]"
)
_OPENING = r"<\|(?:im_start|start_header_id)\|>|<start_of_turn>"
_ROLE = re.compile(rf"\A\s*+(?:{_OPENING})(?:\s*+(?:assistant|model))?\s*(?:<\|end_header_id\|>|\n|\Z)\s*")
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


@dataclass(frozen=True, slots=True)
class Split:
    """A text without its reasoning.

    Attributes:
        reasoned: there was reasoning.
        unopened: it began with the text, before any tag: the prompt had opened it.
    """

    text: str
    reasoned: bool = False
    unopened: bool = False


def split(text: str) -> Split:
    """Separate an answer from its reasoning.

    Reasoning is what stands in ``<think>``, ``<thinking>`` or ``<thought>``; everything after such a tag that is never
    closed; everything before a closing tag that was never opened; and harmony's channels other than ``final``.
    """
    if CHANNEL in text:
        finals = [m["text"] for m in _HARMONY_MESSAGE.finditer(text) if m["channel"].casefold() == FINAL]
        return Split("".join(finals), reasoned=True)
    kept, start, inside, reasoned, unopened = list[str](), 0, "", False, False
    for tag in TAG.finditer(text):
        name = tag["name"].casefold()
        if not tag["close"] and not inside:
            kept.append(text[start : tag.start()])
            inside = name
        elif tag["close"] and not inside:
            kept.clear()
            unopened = True
        elif tag["close"] and name == inside:
            inside = ""
        else:
            continue
        start, reasoned = tag.end(), True
    if not inside:
        kept.append(text[start:])
    return Split("".join(kept).lstrip() if reasoned else text, reasoned, unopened)


def without_reasoning(text: str) -> str:
    """Return what a text says, without the reasoning before or in it."""
    return split(text).text


def opened(prompt: str) -> str:
    """Return the tag that a prompt ends with, so that the answer to it begins inside reasoning; "" for none."""
    last = next(iter([*TAG.finditer(prompt)][-1:]), None)
    return last[0] if last and not last["close"] and not prompt[last.end() :].strip() else ""


def cleaned(text: str) -> Split:
    """Return an answer without reasoning and unsafe characters, and whether there was reasoning.

    Surrogates are joined or dropped; control characters except newline and tab, terminal escape sequences and control
    tokens of chat templates are removed. A token that ends the turn ends the answer, unless nothing precedes
    it.
    """
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    text = _CONTROL.sub("", _LINE_BREAK.sub("\n", _ESCAPE_SEQUENCE.sub("", text)))
    answer = split(text if CHANNEL in text else _turn(text))
    return replace(answer, text=disarmed(CONTROL_TOKEN.sub("", answer.text)))


def _turn(text: str) -> str:
    """The turn that a text begins with."""
    if not CONTROL_TOKEN.search(text):
        return text
    text = _ROLE.sub("", text, count=1) if _ROLE.match(text) else text
    for end in _END_OF_TURN.finditer(text):
        if CONTROL_TOKEN.sub("", text[: end.start()]).strip():
            return text[: end.start()]
    return text


def disarmed(text: str) -> str:
    """Return text whose control tokens are broken by a space: ``<|im_end|>`` → ``< |im_end|>``."""
    return CONTROL_TOKEN.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text)


class AnswerStream:
    """Passes streamed pieces on, `cleaned`; a suffix that may become a control token is held back.

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
        self._unread, self._unread_length = list[str](), 0

    def __call__(self, piece: str) -> None:
        """Process the next piece of the model's output, or keep it for the next."""
        self._unread.append(piece)
        self._unread_length += len(piece)
        most, part = READ_AGAIN
        if len(self._text) > most and self._unread_length < len(self._text) // part:
            return
        self._text += "".join(self._unread)
        self._unread.clear()
        self._unread_length = 0
        if self._thinks and CHANNEL not in self._text and not TAG.search(self._text):
            return
        answer = cleaned(_UNFINISHED.sub("", self._text))
        if answer.unopened and self._shown and not answer.text.startswith(self._shown):
            self._shown, self._break = "", "\n\n"
        ready = answer.text
        if len(ready) > len(self._shown) and ready.startswith(self._shown):
            self._show(self._break + ready[len(self._shown) :])
            self._shown, self._break = ready, ""
