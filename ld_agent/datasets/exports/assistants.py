"""Histories of chats with assistants: ChatGPT, Claude, Open WebUI, LibreChat and SillyTavern. One reader each.

Trees are read along the current branch; what tools and the system say, and reasoning, is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ld_agent.backbones.answer_text import without_reasoning
from ld_agent.datasets.exports.files import Export, Part
from ld_agent.datasets.exports.message import (
    AGENT,
    BRANCH,
    ME,
    OTHER,
    SERVICE,
    UNDATED,
    UNREADABLE,
    Message,
    joined,
    mapping,
    media,
    moment_of,
    objects,
    text_at,
)

ROLES = {"user": ME, "human": ME, "assistant": AGENT}
Said = tuple[str, str, str, Any]
"""Id, role, text and time of a message."""


def chatgpt(part: Part) -> Iterator[Message]:
    """``conversations.json``: the nodes up to ``current_node``."""
    for talk in _talks(part):
        path = _branch(part.export, mapping(talk.get("mapping")), "parent", text_at(talk, "current_node"))
        said = [(name, node["message"]) for name, node in path if isinstance(node.get("message"), Mapping)]
        yield from _messages(part.export, talk, (_of_chatgpt(name, message) for name, message in said))


def _of_chatgpt(name: str, message: Mapping[str, Any]) -> Said:
    content, more = mapping(message.get("content")), mapping(message.get("metadata"))
    role = text_at(message.get("author"), "role")
    shown = message.get("recipient") in (None, "all") and not more.get("is_visually_hidden_from_conversation")
    if not shown or content.get("content_type") not in (None, "text", "multimodal_text"):
        role = "tool"
    listed = content.get("parts")
    parts = listed if isinstance(listed, list) else [content.get("text")]
    files = [media(text_at(f, "mime_type", "mimeType"), text_at(f, "name")) for f in objects(more.get("attachments"))]
    heard = [text for part in parts if (text := _part_of_chatgpt(part))]
    if "[image]" in heard:
        files = [file for file in files if file != "[image]"]
    return text_at(message, "id") or name, role, joined(*files, *heard), message.get("create_time")


def _part_of_chatgpt(part: Any) -> str:
    if isinstance(part, str):
        pieces = part.split("\ue200")  # citations stand between marks of the private use area
        return pieces[0] + "".join(piece.partition("\ue201")[2] for piece in pieces[1:])
    kind = text_at(part, "content_type")
    if "image" in kind:
        return "[image]"
    return text_at(part, "text") or ("[voice message]" if kind == "audio_asset_pointer" else "")


def claude(part: Part) -> Iterator[Message]:
    """``conversations.json``: the text blocks; with parents, along the branch that the last message ends."""
    for talk in _talks(part):
        nodes = {text_at(m, "uuid", "id") or str(n): m for n, m in enumerate(objects(talk.get("chat_messages")))}
        path = _branch(part.export, nodes, "parent_message_uuid", text_at(talk, "current_leaf_message_uuid"))
        said = (
            (name, text_at(m, "sender", "role"), _of_claude(m), m.get("created_at") or m.get("updated_at"))
            for name, m in path
        )
        yield from _messages(part.export, talk, said)


def _of_claude(message: Mapping[str, Any]) -> str:
    blocks = objects(message.get("content"))
    texts = [text_at(block, "text") for block in blocks if block.get("type") == "text"]
    files = [*objects(message.get("attachments")), *objects(message.get("files")), *objects(message.get("files_v2"))]
    named = dict.fromkeys(media(text_at(f, "file_kind"), text_at(f, "file_name", "name")) for f in files)
    return joined(*named, "\n\n".join(text for text in texts if text) if blocks else text_at(message, "text"))


def openwebui(part: Part) -> Iterator[Message]:
    """Chats with their history: up to ``currentId``; without one, the plain list of messages."""
    for talk in _talks(part):
        chat = mapping(talk.get("chat")) or talk
        history = mapping(chat.get("history"))
        path = _branch(part.export, mapping(history.get("messages")), "parentId", text_at(history, "currentId"))
        listed = path or [(text_at(m, "id") or str(n), m) for n, m in enumerate(objects(chat.get("messages")))]
        said = ((name, text_at(m, "role"), _of_openwebui(m), m.get("timestamp")) for name, m in listed)
        yield from _messages(part.export, talk, said)


def _of_openwebui(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    parts = objects(content) or [{"type": "text", "text": content}]
    texts = ["[image]" if "image" in text_at(p, "type") else text_at(p, "text", "content") for p in parts]
    files = [media(_kind(text_at(f, "type")), text_at(f, "name")) for f in objects(message.get("files"))]
    shown = joined(*texts)
    return joined(*files, _without_details(shown) if message.get("role") == "assistant" else shown)


def _without_details(text: str) -> str:
    """A text without reasoning and tool calls, which are folded away."""
    while True:
        before, _, rest = text.partition('<details type="')
        _, closed, after = rest.partition("</details>")
        if not closed:
            return text
        text = joined(before, after)


def librechat(part: Part) -> Iterator[Message]:
    """A conversation as a list or a tree: the last branch, which LibreChat shows first."""
    for talk in _talks(part):
        nodes: dict[str, Mapping[str, Any]] = {}
        waiting = [*objects(talk.get("messages")), *objects(talk.get("messagesTree"))]
        while waiting:
            message = waiting.pop(0)
            nodes[text_at(message, "messageId") or str(len(nodes))] = message
            waiting = [*objects(message.get("children")), *waiting]
        said = (
            (name, "error" if m.get("error") else _of_librechat(m), _text_of_librechat(m), m.get("createdAt"))
            for name, m in _branch(part.export, nodes, "parentMessageId")
        )
        yield from _messages(part.export, talk, said)


def _of_librechat(message: Mapping[str, Any]) -> str:
    mine = message.get("isCreatedByUser")
    return "user" if (text_at(message, "sender").casefold() == "user" if mine is None else mine) else "assistant"


def _text_of_librechat(message: Mapping[str, Any]) -> str:
    parts = [part for part in objects(message.get("content")) if part.get("type") == "text"]
    texts = [text_at(part, "text") or text_at(part.get("text"), "value") for part in parts]
    files = [media(text_at(f, "type"), text_at(f, "filename")) for f in objects(message.get("files"))]
    return joined(*files, *texts) if any(texts) else joined(*files, text_at(message, "text"))


def sillytavern(part: Part) -> Iterator[Message]:
    """JSON lines: a head, then messages with the names of the persona and the character, each in the swipe shown last."""
    export, chat, seen = part.export, part.stem, Counter[tuple[str, str]]()
    began = ""
    for _, line in part.walk():
        if not isinstance(line, Mapping) or "mes" not in line:
            began = text_at(line, "create_date") or began
            continue
        name, sent = text_at(line, "name"), str(line.get("send_date"))
        extra = mapping(line.get("extra"))
        if line.get("is_system") or extra.get("type") == "narrator":
            export.left[SERVICE] += 1
            continue
        if (at := moment_of(line.get("send_date"), export.zone)) is None:
            export.left[UNDATED] += 1
            continue
        seen[name, sent] += 1
        file = mapping(extra.get("file"))
        files = ["[image]" if extra.get("image") else "", media("", text_at(file, "name")) if file else ""]
        text = joined(*files, without_reasoning(text_at(line, "mes")))
        mine = bool(line.get("is_user"))
        key = f"{began or chat}/{name}/{sent}/{seen[name, sent]}"
        yield Message(key, chat, name, text, at, ME if mine else OTHER)


def _talks(part: Part) -> Iterator[Mapping[str, Any]]:
    """The conversations of a file: a list, or one alone."""
    for _, talk in part.walk("[]"):
        if isinstance(talk, Mapping):
            yield talk
        else:
            part.export.left[UNREADABLE] += 1


def _messages(export: Export, talk: Mapping[str, Any], said: Iterable[Said]) -> Iterator[Message]:
    """The messages of people and assistants; one without a time has that of the message before it, or of the talk."""
    inner = mapping(talk.get("chat"))
    number = text_at(talk, "conversation_id", "conversationId", "uuid", "id") or text_at(inner, "id")
    title = text_at(talk, "title", "name") or text_at(inner, "title") or "chat"
    chat = f"{title} {number[:8]}".strip()
    dates = [talk.get(key) for key in ("create_time", "created_at", "createdAt")] + [inner.get("timestamp")]
    number = number or f"{title} {dates}"
    at = next((at for date in dates if (at := moment_of(date, export.zone)) is not None), None)
    for name, role, text, date in said:
        at = moment_of(date, export.zone) or at
        if role not in ROLES:
            export.left[SERVICE] += bool(text) or role == "error"
        elif at is None:
            export.left[UNDATED] += 1
        else:
            shown = without_reasoning(text) if ROLES[role] == AGENT else text
            yield Message(f"{number}/{name}", chat, "", shown, at, ROLES[role])


def _branch(export: Export, nodes: Mapping[str, Any], key: str, leaf: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    """The nodes of a tree from its root to a leaf, counting those on other branches; all nodes, if none has a parent.

    Args:
        key: of a node's parent.
        leaf: where the talk stands; of no node: the last one in the order of the file that is nobody's parent.
    """
    parents = {text_at(node, key) for node in nodes.values()}
    if parents.isdisjoint(nodes):
        return [(name, node) for name, node in nodes.items() if isinstance(node, Mapping)]
    if leaf not in nodes:
        leaf = next((name for name in reversed(list(nodes)) if name not in parents), "")
    path: dict[str, Mapping[str, Any]] = {}
    while leaf not in path and isinstance(node := nodes.get(leaf), Mapping):
        path[leaf] = node
        leaf = text_at(node, key)
    export.left[BRANCH] += len(nodes) - len(path)
    return list(path.items())[::-1]


def _kind(kind: str) -> str:
    return kind if kind in ("image", "video", "audio") else ""
