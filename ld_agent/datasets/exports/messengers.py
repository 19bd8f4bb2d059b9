"""Histories of messengers that export JSON: Telegram, Discord (DiscordChatExporter), Slack and Signal. One reader each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any

from ld_agent.datasets.exports.files import Export, Part
from ld_agent.datasets.exports.message import (
    DELETED,
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

TELEGRAM = ("{}", "messages[]", *(f"{k}{s}" for k in ("chats", "left_chats") for s in ("{}", ".list[]", ".list.*{}")))
TELEGRAM_OPENED = (*TELEGRAM, "chats.list.*.messages[]", "left_chats.list.*.messages[]")
TELEGRAM_MEDIA = {"voice_message": "audio/ogg", "video_message": "video", "video_file": "video", "animation": "video"}
SPOKEN = frozenset({"Default", "Reply", "ChatInputCommand", "ContextMenuCommand", "0", "19", "20", "23"})
"""Types of Discord's messages that somebody wrote."""
WRITTEN = frozenset({"", "thread_broadcast", "me_message", "file_share", "bot_message", "reply_broadcast"})
"""Subtypes of Slack's messages that somebody wrote."""


def telegram(part: Part) -> Iterator[Message]:
    """``result.json`` of one chat or of the whole account; the offset is that of the computer that exported."""
    export, head, ended, offset = part.export, dict[str, Any](), False, timedelta()
    for path, value in part.walk(*TELEGRAM_OPENED):
        if not path.endswith("messages.*"):
            head = {} if ended else head  # of another chat
            head[path.rpartition(".")[2]], ended = value, False
            continue
        ended = True
        if text_at(value, "type") != "message":
            export.left[SERVICE] += 1
            continue
        number, at = head.get("id"), moment_of(value.get("date"), timezone(offset))
        if (exact := moment_of(value.get("date_unixtime"), timezone(timedelta()))) is not None:
            written = moment_of(value.get("date"), timezone(timedelta()))
            offset = _quarter(written - exact) if written else offset
            at = exact.astimezone(timezone(offset) if written else export.zone)
        if at is None:
            export.left[UNDATED] += 1
            continue
        author, chat = str(value.get("from_id") or ""), str(head.get("name") or _nameless(head))
        name = text_at(value, "from") or ("Deleted account" if author or "from" in value else chat)
        key = f"{number}/{value.get('id')}"
        edited = moment_of(value.get("edited_unixtime"), UTC) or moment_of(value.get("edited"), timezone(offset))
        yield Message(key, chat, name, _of_telegram(value), at, OTHER, author, edited)


def _nameless(head: Mapping[str, Any]) -> str:
    """The name of a chat without one: that of notes to oneself, or with somebody whose account is gone."""
    return "Saved messages" if head.get("type") == "saved_messages" else f"Deleted account {head.get('id', '')}".strip()


def _quarter(offset: timedelta) -> timedelta:
    """An offset rounded to quarters of an hour; none, if it cannot be one."""
    minutes = round(offset.total_seconds() / 900) * 15
    return timedelta(minutes=minutes) if abs(minutes) < 24 * 60 else timedelta()


def _of_telegram(message: Mapping[str, Any]) -> str:
    text = message.get("text")
    pieces = text if isinstance(text, list) else [text]
    said = "".join(piece if isinstance(piece, str) else text_at(piece, "text") for piece in pieces)
    name, kind = text_at(message, "file_name"), text_at(message, "media_type")
    shown = "[image]" if "photo" in message else ""
    if kind == "sticker":
        shown = joined("[sticker]", text_at(message, "sticker_emoji"))
    elif kind in TELEGRAM_MEDIA:
        shown = media(TELEGRAM_MEDIA[kind])
    elif "file" in message:
        mime = text_at(message, "mime_type")
        shown = media(
            "" if kind == "audio_file" or mime.startswith("audio") else mime, name or text_at(message, "title")
        )
    for key, sign in (("location_information", "[location]"), ("contact_information", "[contact]")):
        shown = sign if key in message else shown
    if isinstance(poll := message.get("poll"), Mapping):
        shown = f"[poll: {text_at(poll, 'question')}]"
    origin = text_at(message, "forwarded_from")
    return joined(f"[forwarded from {origin}]" if origin else "", shown, said)


def discord(part: Part) -> Iterator[Message]:
    """A channel or thread by DiscordChatExporter."""
    export, head = part.export, dict[str, Any]()
    for path, value in part.walk("{}", "messages[]"):
        if path != "messages.*":
            head[path] = value
            continue
        if not isinstance(value, Mapping) or str(value.get("type", "Default")) not in SPOKEN:
            export.left[SERVICE] += 1
        elif (at := moment_of(value.get("timestamp"), export.zone)) is None:
            export.left[UNDATED] += 1
        else:
            author, channel = value.get("author"), head.get("channel")
            text = _of_discord(value)
            if isinstance(forwarded := value.get("forwardedMessage"), Mapping):
                text = joined(text, "[forwarded]", _of_discord(forwarded))
            embeds = [joined(text_at(e, "title"), text_at(e, "description")) for e in objects(value.get("embeds"))]
            chat = "/".join(filter(None, (text_at(head.get("guild"), "name"), text_at(channel, "name"))))
            name = text_at(author, "nickname", "name")
            key = f"{text_at(channel, 'id')}/{value.get('id')}"
            edited = moment_of(value.get("timestampEdited"), export.zone)
            yield Message(key, chat, name, text or joined(*embeds), at, OTHER, text_at(author, "id"), edited)


def _of_discord(message: Mapping[str, Any]) -> str:
    files = [media("", text_at(f, "fileName", "url")) for f in objects(message.get("attachments"))]
    files += ["[sticker]" for _ in objects(message.get("stickers"))]
    return joined(*files, text_at(message, "content"))


def slack(part: Part) -> Iterator[Message]:
    """A day of a channel; names are in ``users.json`` beside the channels, or with the messages."""
    export, chat = part.export, Path(part.name).parent.name or "slack"
    users = slack_users(export, part)
    for _, value in part.walk("[]"):
        kind = text_at(value, "subtype")
        if not isinstance(value, Mapping) or text_at(value, "type") not in ("message", "") or kind not in WRITTEN:
            export.left[DELETED if kind == "tombstone" else SERVICE] += 1
        elif (at := moment_of(value.get("ts"), export.zone)) is None:
            export.left[UNDATED] += 1
        else:
            files = [
                media(text_at(f, "mimetype"), text_at(f, "name", "title"))
                for f in objects(value.get("files"))
                if f.get("mode") != "tombstone"
            ]
            user = text_at(value, "user", "bot_id")
            name = users.get(user) or text_at(value, "username") or user or "unknown"
            shared = [text_at(shown, "text", "fallback") for shown in objects(value.get("attachments"))]
            text = joined(*files, _of_slack(text_at(value, "text") or joined(*shared), users))
            edited = moment_of(text_at(value.get("edited"), "ts"), UTC)
            yield Message(f"{user}/{value.get('ts')}", chat, name, text, at, OTHER, user, edited)


def slack_users(export: Export, part: Part) -> dict[str, str]:
    """The names of users by id, from the export's ``users.json`` or else from the profiles in a day's messages."""
    if (known := export.shared.get("users")) is not None:
        return dict(known)
    users: dict[str, str] = {}
    for other in export.parts():
        if other.name.rpartition("/")[2] == "users.json":
            for _, user in other.walk("[]"):
                profile = mapping(user).get("profile")
                name = text_at(profile, "display_name", "real_name") or text_at(user, "real_name", "name")
                users[text_at(user, "id")] = name
    if users:
        export.shared["users"] = users
        return users
    for _, message in part.walk("[]"):
        if name := text_at(mapping(message).get("user_profile"), "display_name", "real_name"):
            users[text_at(message, "user")] = name
    return users


def _of_slack(text: str, users: Mapping[str, str]) -> str:
    """A text of Slack's markup: mentions with names, links as their labels, entities as characters."""
    pieces = text.split("<")
    said = pieces[0]
    for piece in pieces[1:]:
        inside, closed, rest = piece.partition(">")
        target, _, label = inside.partition("|")
        if target.startswith("@"):
            label = "@" + (label or users.get(target[1:], target[1:]))
        elif target.startswith(("#", "!")):
            label = ("#" if target[0] == "#" else "@") + (label.lstrip("@#") or target[1:])
        said += (label or target) + rest if closed else "<" + piece
    return said.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def signal(part: Part) -> Iterator[Message]:
    """JSON of signal-cli, of signal-export (``data.json``), or rows of Signal Desktop's messages, as sigtop writes them."""
    seen = Counter[str]()
    for _, value in part.walk("[]", "{}", "messages[]") if _is_list(part) else part.walk():
        if not isinstance(value, Mapping):
            continue
        message = _of_signal_cli(value) if "envelope" in value else _of_signal(value, part, seen)
        if isinstance(message, Message):
            yield message
        else:
            part.export.left[message] += 1


def _is_list(part: Part) -> bool:
    with part.text() as stream:
        return stream.read(200).lstrip()[:1] == "["


def _of_signal(row: Mapping[str, Any], part: Part, seen: Counter[str]) -> Message | str:
    """A message of signal-export or of Signal Desktop, or why it is left out."""
    if row.get("deleted") or row.get("deletedForEveryone") or row.get("isErased"):
        return DELETED
    kind = text_at(row, "type")
    if row.get("call") or kind not in ("", "incoming", "outgoing"):
        return SERVICE
    sent = row.get("date") or row.get("sent_at") or row.get("timestamp")
    if (at := moment_of(sent, part.export.zone)) is None:
        return UNDATED
    name = text_at(row, "sender", "sourceName", "source", "sourceServiceId", "sourceUuid")
    mine = kind == "outgoing" or name.casefold() in ("me", "you")
    files = [*_signal_files(row.get("attachments")), "[sticker]" if row.get("sticker") else ""]
    seen[f"{name}/{sent}"] += 1
    key = text_at(row, "id") or f"{part.stem}/{name}/{sent}/{seen[f'{name}/{sent}']}"
    chat = text_at(row, "conversationName", "conversationId") or part.stem
    return Message(key, chat, "" if mine else name, joined(*files, text_at(row, "body")), at, ME if mine else OTHER)


def _signal_files(files: Any) -> Sequence[str]:
    return [
        media(text_at(f, "contentType"), text_at(f, "fileName", "filename", "name", "path")) for f in objects(files)
    ]


def _of_signal_cli(value: Mapping[str, Any]) -> Message | str:
    envelope = mapping(value["envelope"])
    mine = mapping(envelope.get("syncMessage")).get("sentMessage")
    data = mine or envelope.get("dataMessage")
    if not isinstance(data, Mapping) or "remoteDelete" in data or "reaction" in data:
        return SERVICE
    sent = data.get("timestamp") or envelope.get("timestamp")
    if (at := moment_of(sent, None)) is None:
        return UNREADABLE
    other = text_at(envelope, "sourceUuid", "sourceNumber", "source")
    # The partner of a chat is told alike in both directions.
    partner = text_at(data, "destination") if mine else text_at(envelope, "source") or other
    chat = text_at(data.get("groupInfo"), "groupName", "groupId") or partner
    name = "" if mine else text_at(envelope, "sourceName", "sourceNumber", "source")
    text = joined(*_signal_files(data.get("attachments")), text_at(data, "message"))
    return Message(f"{other}/{sent}", chat, name, text, at, ME if mine else OTHER, "" if mine else other)
