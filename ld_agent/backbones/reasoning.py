"""Takes a model's reasoning out of its text: the one place that knows how models mark it.

Knows the tags, harmony's channels and lists of parts; nothing of models, prompts or who asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TAG = re.compile(r"(?<!`)<(?P<close>/?)(?P<name>think|thinking|thought)>", re.IGNORECASE)
"""A tag around reasoning; one that follows a backtick is quoted."""
CHANNEL = "<|channel|>"
FINAL = "final"
_HARMONY_MESSAGE = re.compile(
    r"<\|channel\|>\s*(?P<channel>\w*)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>(?P<text>.*?)"
    r"(?=<\|(?:start|channel|end|return|call)\|>|\Z)",
    re.DOTALL,
)
OMITTED = "<think>…</think>"
"""Stands for reasoning that an endpoint returns in a field of its own."""
_TEXT_PARTS = ("text", "input_text", "output_text", "summary_text", "refusal")
_PLACES = ("image", "audio", "video", "file", "document")
_UNSAID = ("thinking", "reasoning", "reference")
KINDS = (
    *_TEXT_PARTS,
    "image_url",
    "input_image",
    "input_audio",
    "video_url",
    "file",
    "input_file",
    "document",
    "thinking",
)
"""The usual kinds of a content's parts; others whose names contain those of `_PLACES` or `_UNSAID` are known too."""
_LONGEST_NAME = 120


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


def marks_reasoning(text: str) -> bool:
    """Whether a text contains a mark of reasoning, closed or not."""
    return CHANNEL in text or TAG.search(text) is not None


def opened(prompt: str) -> str:
    """Return the tag that a prompt ends with, so that the answer to it begins inside reasoning; "" for none."""
    last = next(iter([*TAG.finditer(prompt)][-1:]), None)
    return last[0] if last and not last["close"] and not prompt[last.end() :].strip() else ""


def text_of(content: object, between: str = "\n") -> str | None:
    """Return the text of a message's content in any shape of OpenAI's protocol; None: it has another shape.

    Of a list of parts, texts are joined; an image, a sound or a file leaves its place ("[image]", "[file: name]"), and everything
    else is left out: see `is_known`.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence) or not all(isinstance(part, Mapping) for part in content):
        return None
    texts = [_part(part) for part in content]
    return between.join(text for text in texts if text)


def is_media(part: object) -> bool:
    """Whether a part of a message is something else than text, to be seen, heard or read: `text_of` leaves its place."""
    return isinstance(part, Mapping) and _part(part).startswith("[") and _words(part) is None


def is_known(part: Mapping[str, object]) -> bool:
    """Whether a part of a message is of a kind that `text_of` reads or leaves out on purpose, such as reasoning."""
    kind = str(part.get("type", ""))
    return kind in _TEXT_PARTS or any(name in kind for name in (*_PLACES, *_UNSAID))


def _words(part: Mapping[str, object]) -> str | None:
    """The text of a part; None: it is no text."""
    kind = str(part.get("type", ""))
    if kind not in _TEXT_PARTS:
        return None
    text = part.get("text", part.get("refusal"))
    return text if isinstance(text, str) else ""


def _part(part: Mapping[str, object]) -> str:
    kind, words = str(part.get("type", "")), _words(part)
    if words is not None:
        return words
    place = next((place for place in _PLACES if place in kind), "")
    if place not in ("file", "document"):
        return f"[{place}]" if place else ""
    inner = part.get("file")
    names = {**part, **(inner if isinstance(inner, Mapping) else {})}
    name = next((str(names[key]) for key in ("filename", "name", "title") if names.get(key)), "")
    name = " ".join(name.replace("[", "(").replace("]", ")").split())[:_LONGEST_NAME]
    return f"[file: {name}]" if name else "[file]"
