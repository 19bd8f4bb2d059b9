"""Converts chat messages to token ids and generated ids back to text, for training and generation.

Messages are data: a chat-template control token in a message (``<|im_start|>system``) is tokenized as plain text. Knows
tokenizers and templates, and nothing of models.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ld_agent.backbones.answer_text import CHANNEL, TAG, opened
from ld_agent.backbones.base import Message
from ld_agent.backbones.wire import alternating
from ld_agent.errors import BackboneError

# Private-use characters around a number replace a message's content while the template is rendered; the blanks show
# afterwards whether the template strips its input.
_MARKED = re.compile("( ?)\ue000([0-9]+)\ue001( ?)")
_SWITCHES = ("enable_thinking", "thinking")
_HARMONY = (CHANNEL, "<|message|>", "<|start|>", "<|end|>", "<|constrain|>")


class ChatTokens:
    """Tokenizes rendered prompts with one tokenizer. Thread-safe.

    Args:
        tokenizer: a transformers tokenizer.
        encoder_decoder: the prompt is an encoder's input, so no generation prompt is added.
        thinking: let the model reason before it answers. If false, a template that knows ``enable_thinking`` (or
            ``thinking``) is told so, and reasoning that a template opens is closed right away.
    """

    def __init__(self, tokenizer: Any, encoder_decoder: bool = False, *, thinking: bool = False) -> None:
        self._tokenizer = tokenizer
        self._encoder_decoder = encoder_decoder
        self._thinking = thinking
        self._special = [token for token in tokenizer.all_special_tokens if token]
        added = getattr(tokenizer, "added_tokens_decoder", {})
        self._special += [str(token) for token in added.values() if token.special and str(token) not in self._special]
        harmony = CHANNEL in self._special
        marks = [t for t in self._special if TAG.fullmatch(t) or (harmony and t in _HARMONY)]
        self._mark_ids = frozenset(tokenizer.convert_tokens_to_ids(marks))
        self._skipped_ids = frozenset(tokenizer.convert_tokens_to_ids(self._special)) - self._mark_ids
        # A fast tokenizer stores its handling of special tokens as state, which concurrent threads would overwrite.
        self._lock = threading.RLock()

    def encode_messages(self, messages: Sequence[Message]) -> list[int]:
        """Return the prompt's token ids, up to the point where the answer begins; a last message of the assistant is continued.

        The tokenizer's chat template is used where there is one. Otherwise the contents are joined with blank lines,
        system messages first; for a decoder-only model a blank line follows, unless the last message is continued.

        Raises:
            BackboneError: the chat template cannot render these messages.
        """
        return self.encode(messages)[0]

    def encode(self, messages: Sequence[Message]) -> tuple[list[int], int]:
        """Return the prompt's token ids, and the number of them before the first content."""
        if self._tokenizer.chat_template is None:
            return self._plain(messages), 0
        pieces = self._pieces(messages)
        return self._joined_ids(pieces), len(self._ids(pieces[0]))

    def _joined_ids(self, pieces: Sequence[str]) -> list[int]:
        if not any(token in content for content in pieces[1::2] for token in self._special):
            return self._ids("".join(pieces))
        ids: list[int] = []
        for number, piece in enumerate(pieces):
            ids += self._ids(piece, plain=number % 2 == 1)
        return ids

    def _pieces(self, messages: Sequence[Message]) -> list[str]:
        """A rendered prompt, cut around the messages' contents."""
        text, contents = self._render(messages)
        # [template, content, template, content, …, template]
        pieces: list[str] = []
        end = 0
        for marked in _MARKED.finditer(text):
            content = contents[int(marked[2])]
            stripped = not (marked[1] and marked[3])
            pieces += [text[end : marked.start()], content.strip() if stripped else content]
            end = marked.end()
        return [*pieces, "" if _is_begun(messages) else text[end:]]

    def start_of(self, messages: Sequence[Message], place: int) -> int:
        """Return the number of ids before the content of one message in a rendered prompt."""
        if self._tokenizer.chat_template is None:
            return len(self._plain(messages[:place]))
        return len(self._joined_ids(self._pieces(messages)[: 2 * place + 1]))

    @cached_property
    def _opening(self) -> str:
        if self._tokenizer.chat_template is None:
            return ""
        return opened(self._rendered((Message("user", "?"),)))

    def opening(self, messages: Sequence[Message]) -> str:
        """The tag with which a prompt ends if the answer begins inside reasoning; "" if it does not."""
        return "" if _is_begun(messages) else self._opening

    def encode_answer(self, text: str) -> list[int]:
        """Return the ids of an answer as a training target: its text as plain text, then the token that ends it."""
        ids = self._ids(text, plain=True)
        end = self._tokenizer.eos_token_id
        if self._tokenizer.chat_template is not None:
            turn = (Message("user", "?"), Message("assistant", "!"))
            closing = self._rendered(turn, generation_prompt=False).rpartition("\ue001")[2].strip(" ")
            after = self._ids(closing)
            if after and after[0] in self._tokenizer.all_special_ids:
                end = after[0]
        return ids if end is None else [*ids, end]

    def prefix_length(self, messages: Sequence[Message], constant: int) -> int:
        """Return the number of leading ids that depend only on the first ``constant`` messages."""
        if not 0 < constant < len(messages):
            return 0
        ids = self.encode_messages(messages)
        other = self.encode_messages([*messages[:constant], *(Message(m.role, "\u00b7") for m in messages[constant:])])
        same = 0
        while same < min(len(ids), len(other)) and ids[same] == other[same]:
            same += 1
        return same

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids, not stripped. Special tokens are skipped, unless they mark reasoning."""
        with self._lock:
            if self._mark_ids.isdisjoint(ids):
                return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
            return str(
                self._tokenizer.decode([i for i in ids if i not in self._skipped_ids], skip_special_tokens=False)
            )

    def _ids(self, text: str, plain: bool = False) -> list[int]:
        if not text:
            return []
        with self._lock:
            return list(self._tokenizer(text, add_special_tokens=False, split_special_tokens=plain)["input_ids"])

    def _plain(self, messages: Sequence[Message]) -> list[int]:
        ordered = [m for m in messages if m.role == "system"] + [m for m in messages if m.role != "system"]
        text = "\n\n".join(m.content for m in ordered if m.content)
        if not self._encoder_decoder and not (ordered and ordered[-1].role == "assistant"):
            text += "\n\n"
        with self._lock:
            ids = list(self._tokenizer(text, split_special_tokens=True)["input_ids"])
        # A decoder-only prompt is continued, so drop an end token appended by the tokenizer.
        if not self._encoder_decoder and ids and ids[-1] == self._tokenizer.eos_token_id:
            ids.pop()
        return ids

    def _render(self, messages: Sequence[Message]) -> tuple[str, list[str]]:
        from jinja2 import TemplateError

        try:
            return self._rendered(messages), [m.content for m in messages]
        except TemplateError:
            # Some templates have no system role, or require alternating user and assistant messages.
            merged = alternating(messages)
        try:
            return self._rendered(merged), [m.content for m in merged]
        except TemplateError as exc:
            roles = ", ".join(m.role for m in messages)
            raise BackboneError(f"the model's chat template refuses the roles {roles}: {exc}; end with user") from exc

    def _rendered(self, messages: Sequence[Message], generation_prompt: bool = True) -> str:
        marked = [{"role": m.role, "content": f" \ue000{i}\ue001 "} for i, m in enumerate(messages)]
        template = str(self._tokenizer.chat_template)
        known = {name: self._thinking for name in _SWITCHES if name in template}
        text = str(
            self._tokenizer.apply_chat_template(
                marked, tokenize=False, add_generation_prompt=generation_prompt, **known
            )
        )
        closed = generation_prompt and not self._thinking and (tag := opened(text))
        return f"{text.rstrip()}\n\n</{tag[1:]}\n\n" if closed else text


def _is_begun(messages: Sequence[Message]) -> bool:
    """Whether the last message is an answer to be continued."""
    return bool(messages) and messages[-1].role == "assistant" and bool(messages[-1].content)


class TextStream:
    """Emits the text of a growing list of ids in pieces that never split a character.

    Leading white space is dropped; trailing white space is held back until more text follows. The pieces together are
    the final text, stripped.
    """

    def __init__(self, tokens: ChatTokens, on_text: Callable[[str], None], opening: str = "") -> None:
        self._tokens, self._on_text, self._given = tokens, on_text, 0
        if opening:
            on_text(opening)

    def update(self, ids: Sequence[int], last: bool = False) -> None:
        """Emit the new text in ``ids``, which only grows; with ``last``, also an unfinished character."""
        text = self._tokens.decode(ids).lstrip()
        if not last:
            text = text.rstrip("\ufffd")
        text = text.rstrip()
        if len(text) > self._given:
            piece, self._given = text[self._given :], len(text)
            self._on_text(piece)


def cut_left(ids: list[int], head: int, room: int) -> list[int]:
    """A prompt's ids cut to ``room``: an overlong prompt loses its oldest tokens after the ``head`` that opens the
    template."""
    if len(ids) <= room:
        return ids
    head = head if head < room // 2 else 0
    return ids[:head] + ids[len(ids) - (room - head) :]
