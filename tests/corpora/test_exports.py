"""Histories of other programs: names, times, branches, media; what nobody said is left out and counted."""

import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ld_agent.datasets.exports import Export, Message, files, format_of, read
from ld_agent.errors import DataFileError, InputError

Said = list[tuple[str, str]]
LRM, NARROW = "\u200e", "\u202f"


def taken(path: Path, format: str, zone: str = "UTC") -> tuple[list[Message], dict[str, int]]:
    """The messages of an export that is recognised as a format, and what was left out."""
    export = Export(path, ZoneInfo(zone))
    assert format_of(export) == format
    messages = list(read(export, format))
    assert len({m.id for m in messages}) == len(messages)
    return messages, dict(+export.left)


def said(messages: list[Message]) -> Said:
    return [(m.name or m.by, m.text) for m in messages]


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


# ---- assistants


def node(name: str, parent: str | None, role: str, parts: list[Any], time: float | None = None, **more: Any) -> Any:
    content = {"content_type": more.pop("kind", "text"), "parts": parts}
    return {
        name: {
            "id": name,
            "parent": parent,
            "message": {"id": name, "author": {"role": role}, "create_time": time, "content": content, **more},
        }
    }


def test_chatgpt_follows_the_branch_that_is_shown(tmp_path: Path) -> None:
    mapping = {
        "root": {"id": "root", "parent": None, "message": None},
        **node("s", "root", "system", ["Be kind."]),
        **node("a", "s", "user", ["My loom came by train."], 1710000000.5),
        **node("b", "a", "assistant", ["An old answer."], 1710000001.0),
        **node("c", "a", "assistant", ["Which loom?"], 1710000009.0),
        **node("t", "c", "assistant", ["search(looms)"], 1710000010.0, recipient="browser"),
        **node("r", "t", "tool", ["3 hits"], 1710000011.0),
        **node("d", "r", "user", [{"content_type": "image_asset_pointer"}, "This one."], None, kind="multimodal_text"),
        **node("e", "d", "assistant", ["A fine\ue200cite\ue202turn0\ue201 loom."], 1710000030.0),
        **node("h", "e", "assistant", ["Reasoned."], 1710000031.0, kind="thoughts"),
    }
    talk = {
        "title": "Loom",
        "conversation_id": "k1",
        "create_time": 1710000000.0,
        "current_node": "h",
        "mapping": mapping,
    }
    messages, left = taken(written(tmp_path / "conversations.json", [talk]), "chatgpt")
    assert said(messages) == [
        ("me", "My loom came by train."), ("agent", "Which loom?"), ("me", "[image] This one."), ("agent", "A fine loom."),
    ]  # fmt: skip
    assert [m.at.timestamp() for m in messages] == [1710000000.5, 1710000009.0, 1710000011.0, 1710000030.0]
    assert left == {"service lines": 4, "on other branches": 1}


def test_chatgpt_as_a_zip_of_several_files(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for n in (0, 1):
            mapping = node("a", None, "user", [f"Line {n}."], 1710000000.0)
            archive.writestr(f"out/conversations-00{n}.json", json.dumps([{"id": f"k{n}", "mapping": mapping}]))
        archive.writestr("out/chat.html", "<html>")
        archive.writestr("out/user.json", '{"id": "u"}')
    assert said(taken(path, "chatgpt")[0]) == [("me", "Line 0."), ("me", "Line 1.")]


def test_claude_keeps_texts_and_names_files(tmp_path: Path) -> None:
    def message(number: str, sender: str, blocks: list[Any], **more: Any) -> Any:
        return {"uuid": number, "sender": sender, "content": blocks, "created_at": "2024-02-03T04:05:06Z", **more}

    text = {"type": "text", "text": "A kiln, then."}
    talk = {
        "uuid": "k", "name": "Kiln",
        "chat_messages": [
            message("1", "human", [{"type": "text", "text": "See the plan."}], attachments=[{"file_name": "plan.pdf"}]),
            message("2", "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "name": "x"}, text]),
            message("3", "human", [], text="No blocks here."),
        ],
    }  # fmt: skip
    messages, _ = taken(written(tmp_path / "c.json", [talk]), "claude", "Asia/Tokyo")
    assert said(messages) == [
        ("me", "[file: plan.pdf] See the plan."),
        ("agent", "A kiln, then."),
        ("me", "No blocks here."),
    ]
    assert messages[0].at.isoformat() == "2024-02-03T13:05:06+09:00"


def test_open_webui_and_librechat_along_the_branch(tmp_path: Path) -> None:
    nodes = {
        "a": {"id": "a", "parentId": None, "role": "user", "content": "I mend clocks.", "timestamp": 1710000000},
        "b": {"id": "b", "parentId": "a", "role": "assistant", "content": "Old."},
        "c": {"id": "c", "parentId": "a", "role": "assistant", "timestamp": 1710000005,
              "content": '<details type="reasoning" done="true">hm</details>\nWhich clocks?'},
    }  # fmt: skip
    told = 'I write <details type="x"> by hand.'
    nodes["a"]["content"] = told
    nodes["d"] = {"id": "d", "parentId": ["a"], "role": "user", "content": "Lost."}
    chat = {"id": "w", "chat": {"title": "Clocks", "history": {"currentId": "c", "messages": nodes}, "messages": []}}
    messages, left = taken(written(tmp_path / "w.json", [chat]), "openwebui")
    assert (said(messages), left) == ([("me", told), ("agent", "Which clocks?")], {"on other branches": 2})

    def spoken(name: str, parent: str, text: str, mine: bool, *children: Any) -> Any:
        return {"messageId": name, "parentMessageId": parent, "text": text, "isCreatedByUser": mine, "sender": "X",
                "createdAt": "2024-04-09T14:32:05.230Z", "children": list(children)}  # fmt: skip

    tree = spoken(
        "1", "0", "My bees swarmed.", True, spoken("2", "1", "Old.", False), spoken("3", "1", "Where to?", False)
    )
    talk = {"conversationId": "L", "title": "Bees", "recursive": True, "messagesTree": [tree]}
    messages, left = taken(written(tmp_path / "l.json", talk), "librechat")
    assert (said(messages), left) == ([("me", "My bees swarmed."), ("agent", "Where to?")], {"on other branches": 1})
    flat = {"conversationId": "L", "messages": [{**m, "children": None} for m in (tree, *tree["children"])]}
    assert said(taken(written(tmp_path / "f.json", flat), "librechat")[0]) == said(messages)


def test_sillytavern_with_the_dates_it_has_written(tmp_path: Path) -> None:
    lines: list[Any] = [
        {"user_name": "Iva", "character_name": "Rook", "create_date": "2024-03-09 @10h 04m 52s 123ms"},
        {"name": "Iva", "is_user": True, "send_date": "March 9, 2024 10:05am", "mes": "I tune pianos."},
        {"name": "Rook", "is_user": False, "send_date": "2024-03-09 @10h 06m 01s 7ms", "mes": "Whose?", "swipes": []},
        {"name": "Rook", "is_user": False, "is_system": True, "send_date": 1709978800000, "mes": "Saved."},
        {"name": "Iva", "is_user": True, "send_date": 1709978801000, "mes": "The church's."},
    ]  # fmt: skip
    path = written(tmp_path / "Rook - 1.jsonl", "\n".join(map(json.dumps, lines)))
    messages, left = taken(path, "sillytavern")
    assert [(m.by, m.name, m.text) for m in messages] == [
        ("me", "Iva", "I tune pianos."), ("other", "Rook", "Whose?"), ("me", "Iva", "The church's."),
    ]  # fmt: skip
    assert messages[0].at == at("2024-03-09T10:05:00+00:00")
    assert left == {"service lines": 1}


# ---- messengers


def test_telegram_of_a_whole_account(tmp_path: Path) -> None:
    def row(number: int, hour: int, **more: Any) -> Any:
        unix = int(datetime(2024, 7, 1, hour - 2, tzinfo=UTC).timestamp())
        return {
            "id": number,
            "type": "message",
            "date": f"2024-07-01T{hour:02}:00:00",
            "date_unixtime": str(unix),
            **more,
        }

    pia = [
        row(1, 9, **{"from": "Pia", "from_id": "user7", "text": ["Look: ", {"type": "bold", "text": "snow"}]}),
        row(2, 10, **{"from": "Pia", "from_id": "user7", "text": "", "media_type": "voice_message", "file": "x"}),
        row(3, 11, **{"from": "Pia", "from_id": "user7", "text": "", "file": "f", "file_name": "map.gpx", "mime_type": "a/x"}),
        row(4, 12, **{"from": "Pia", "from_id": "user9", "text": "Me too.", "forwarded_from": "Lars",
                   "edited": "2024-07-01T12:30:00"}),
        {"id": 5, "type": "service", "date": "2024-07-01T12:00:00", "action": "pin_message", "text": ""},
        {"id": 6, "type": "message", "date": "2024-07-01T13:00:00", "from": "Pia", "from_id": "user7", "text": "Late."},
    ]  # fmt: skip
    chats = [{"name": "Pia", "type": "personal_chat", "id": 1, "messages": pia},
             {"type": "saved_messages", "id": 2, "messages": [row(1, 14, **{"from": "Me", "text": "Buy tar."})]},
             {"name": None, "type": "personal_chat", "id": 3,
              "messages": [row(1, 15, **{"from": None, "from_id": "user5", "text": "Farewell."})]}]  # fmt: skip
    messages, left = taken(written(tmp_path / "result.json", {"about": "…", "chats": {"list": chats}}), "telegram")
    assert [m.text for m in messages] == [
        "Look: snow", "[voice message]", "[file: map.gpx]", "[forwarded from Lars] Me too.", "Late.", "Buy tar.",
        "Farewell.",
    ]  # fmt: skip
    assert messages[0].at.isoformat() == "2024-07-01T09:00:00+02:00"
    assert messages[4].at.isoformat() == "2024-07-01T13:00:00+02:00"
    assert [m.edited and m.edited.isoformat() for m in messages[2:4]] == [None, "2024-07-01T12:30:00+02:00"]
    assert [m.chat for m in messages[-3:]] == ["Pia", "Saved messages", "Deleted account 3"]
    assert {m.author for m in messages[:5]} == {"user7", "user9"}
    assert left == {"service lines": 1}


def test_discord_names_media_and_leaves_joins_out(tmp_path: Path) -> None:
    def row(number: str, **more: Any) -> Any:
        author = {"id": "8", "name": "ott", "nickname": "Otto"}
        return {"id": number, "type": "Default", "timestamp": "2024-05-01T10:01:00+02:00", "author": author, **more}

    rows = [
        row("1", content="A heron!", attachments=[{"fileName": "heron.JPG", "url": "u"}], timestampEdited=None),
        row("2", content="", timestampEdited="2024-05-01T10:05:00+02:00", stickers=[{"name": "wave"}], attachments=[]),
        row("3", content="", type="GuildMemberJoin"),
        row("4", content="", attachments=[{"fileName": "call.mp4"}, {"fileName": "notes.txt"}]),
        row("5", content=""),
        row("6", content="", forwardedMessage={"content": "A stork!", "attachments": [{"fileName": "stork.png"}]}),
    ]
    value = {"guild": {"name": "Pond"}, "channel": {"id": "c", "name": "birds"}, "messages": rows, "messageCount": 5}
    export = Export(written(tmp_path / "d.json", value))
    assert format_of(export) == "discord"
    messages = list(read(export, "discord"))
    assert said(messages) == [
        ("Otto", "[image] A heron!"), ("Otto", "[sticker]"), ("Otto", "[video] [file: notes.txt]"),
        ("Otto", "[forwarded] [image] A stork!"),
    ]  # fmt: skip
    assert messages[0].at.utcoffset() == timedelta(hours=2)
    assert [m.edited and m.edited.minute for m in messages] == [None, 5, None, None]
    assert dict(export.left) == {"service lines": 1, "without text": 1}


@pytest.mark.parametrize("zipped", [True, False])
def test_slack_in_a_folder_or_a_zip(tmp_path: Path, zipped: bool) -> None:
    day = [
        {"type": "message", "user": "U1", "ts": "1714557660.000100", "text": "<@U2> see <http://x|the plan> &amp; <#C1|news>",
         "edited": {"user": "U1", "ts": "1714557669.000000"}},
        {"type": "message", "user": "U2", "ts": "1714557661.000100", "text": "", "files": [{"mimetype": "image/png"}]},
        {"type": "message", "user": "U2", "ts": "1714557662.000100", "subtype": "channel_topic", "text": "set the topic"},
        {"type": "message", "user": "USLACKBOT", "ts": "1714557663.0", "subtype": "tombstone", "text": "deleted"},
        {"type": "message", "bot_id": "B1", "username": "ci", "ts": "1714557664.0", "subtype": "bot_message", "text": "",
         "attachments": [{"fallback": "Build 7", "text": "Build 7 &gt; failed"}]},
    ]  # fmt: skip
    users = [{"id": "U1", "name": "ada", "profile": {"display_name": "", "real_name": "Ada B"}},
             {"id": "U2", "name": "bo", "profile": {"display_name": "Bo"}}]  # fmt: skip
    folder = tmp_path / "export"
    for name, value in (
        ("users.json", users),
        ("channels.json", []),
        ("general/2024-05-01.json", day),
        ("news/2024-05-02.json", day[:1]),
    ):
        written(folder / name, value)
    path = folder
    if zipped:
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in folder.rglob("*.json"):
                archive.write(file, file.relative_to(folder))
    export = Export(path)
    assert format_of(export) == "slack"
    messages = list(read(export, "slack"))
    assert said(messages) == [
        ("Ada B", "@Bo see the plan & #news"), ("Bo", "[image]"), ("ci", "Build 7 > failed"),
        ("Ada B", "@Bo see the plan & #news"),
    ]  # fmt: skip
    assert [m.chat for m in messages] == ["general", "general", "general", "news"]
    assert [m.edited and m.edited.timestamp() for m in messages[:2]] == [1714557669, None]
    assert dict(export.left) == {"service lines": 1, "deleted": 1}


def test_signal_in_the_forms_of_three_programs(tmp_path: Path) -> None:
    markdown = (
        "[2022-01-02 13:14:15] Me: Two lines,\nas they were.\n(- Jun: 👍 -)\n\n"
        "[2022-01-02 13:15:00] Jun: ![p.jpg](./media/p.jpg)  The ferry: late.\n> quoted\n"
        "[2022-01-02 13:16:00] Jun: (This message was deleted)\n"
    )
    messages, left = taken(written(tmp_path / "Jun" / "chat.md", markdown), "signal", "Europe/Oslo")
    assert said(messages) == [("me", "Two lines,\nas they were."), ("Jun", "[image] The ferry: late.")]
    assert (messages[0].at.isoformat(), messages[0].by, left) == ("2022-01-02T13:14:15+01:00", "me", {"deleted": 1})
    rows = [
        {"date": "2022-01-02T13:14:15", "sender": "Me", "body": "Ahoy.", "quote": "", "attachments": []},
        {"date": "2022-01-02T13:14:16", "sender": "Jun", "body": "", "attachments": [{"name": "n.m4a", "path": "media/n.m4a"}]},
        {"date": "2022-01-02T13:14:17", "sender": "Jun", "body": "", "sticker": "🐸", "attachments": []},
    ]  # fmt: skip
    path = written(tmp_path / "Jun" / "data.json", "\n".join(map(json.dumps, rows)))
    assert said(taken(path, "signal")[0]) == [("me", "Ahoy."), ("Jun", "[voice message]"), ("Jun", "[sticker]")]
    sent = {"timestamp": 1641129255000, "message": "On my way.", "destination": "+47"}
    lines = [
        {"envelope": {"source": "+47", "sourceUuid": "7f", "sourceName": "Jun",
                      "dataMessage": {"timestamp": 1641129250000, "message": "Come?"}}},
        {"envelope": {"source": "+46", "timestamp": 1641129251000, "receiptMessage": {}}},
        {"envelope": {"source": "+46", "syncMessage": {"sentMessage": sent}}},
    ]  # fmt: skip
    messages, left = taken(written(tmp_path / "cli.jsonl", "\n".join(map(json.dumps, lines))), "signal")
    assert (said(messages), left) == ([("Jun", "Come?"), ("me", "On my way.")], {"service lines": 1})
    assert {m.chat for m in messages} == {"+47"}
    desktop = [{"id": "m1", "type": "outgoing", "sent_at": 1641129255000, "body": "Sold.", "conversationId": "c"},
               {"id": "m2", "type": "incoming", "sent_at": 1641129256000, "body": "Good.", "sourceName": "Jun"},
               {"id": "m3", "type": "keychange", "sent_at": 1641129257000}]  # fmt: skip
    messages, left = taken(written(tmp_path / "rows.json", desktop), "signal")
    assert (said(messages), left) == ([("me", "Sold."), ("Jun", "Good.")], {"service lines": 1})


def test_messages_of_apple(tmp_path: Path) -> None:
    text = """May 17, 2022  5:29:42 PM (Read by them after 1 hour)
Me
The boat leaked.

And then it sank.

May 17, 2022  5:30:00 PM
Noor
Edited 15 seconds later: Oh no!
Tapbacks:
Loved by Me
    May 17, 2022  5:33:00 PM
    Me
    All dry now.


May 17, 2022 12:31:00 AM Noor renamed the conversation to Boats

May 17, 2022  5:32:00 PM
Noor
/Users/n/Library/Messages/Attachments/ab/IMG_1.HEIC

May 17, 2022  5:33:00 PM
Me
All dry now.
This message responded to an earlier message.

"""
    messages, left = taken(written(tmp_path / "Noor.txt", text), "messages", "America/New_York")
    assert said(messages) == [
        ("me", "The boat leaked.\n\nAnd then it sank."), ("Noor", "Oh no!"), ("Noor", "[image]"), ("me", "All dry now."),
    ]  # fmt: skip
    assert messages[0].at.isoformat() == "2022-05-17T17:29:42-04:00"
    assert left == {"service lines": 1}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("~/Library/Messages/Attachments/ab/My plan.pdf", "[file: My plan.pdf]"),
        ("attachments/12/IMG_1.HEIC", "[image]"),
        ("I can do 5/6 or 5/7.", "I can do 5/6 or 5/7."),
        ("Yes/no.maybe", "Yes/no.maybe"),
        ("/shrug... I know", "/shrug... I know"),
        ("My letter stayed unsent for years", "My letter stayed unsent for years"),
        ("I think he deleted a message.", "I think he deleted a message."),
        ("They unsent this message part!", ""),
        ("They unsent this message part 5 seconds after sending!\nThe rest.", "The rest."),
        ("They deleted a message.", ""),
    ],
)
def test_messages_of_apple_with_paths_and_unsent_parts(tmp_path: Path, line: str, shown: str) -> None:
    text = f"May 17, 2022  5:29:42 PM\nNoor\n{line}\n"
    messages, left = taken(written(tmp_path / "Noor.txt", text), "messages")
    assert [m.text for m in messages] == ([shown] if shown else [])
    assert left == ({} if shown else {"deleted": 1})


# ---- WhatsApp

HEADS = {
    "ios de": "[13.06.23, 18:08:09] {}",
    "ios us": f"[6/13/23, 6:08:09{NARROW}PM] {{}}",
    "ios mark": f"{LRM}[13/06/2023, 18:08:09] {{}}",
    "ios ymd": "[2023-06-13 18:08:09] {}",
    "android us": "6/13/23, 6:08 PM - {}",
    "android gb": "13/06/2023, 18:08 - {}",
    "android nl": "13-06-2023 18:08 - {}",
    "android es": "13/6/23, 6:08 p. m. - {}",
    "android fi": "13.6.2023 klo 18.08 - {}",
    "android hu": "2023. 06. 13. 18:08 - {}",
    "android fr": "13/06/2023 à 18:08 - {}",
    "android ja": "2023/06/13 18:08 - {}",
    "android zh": "2023/6/13 下午6:08 - {}",
    "android ko": "2023. 6. 13. 오후 6:08, {}",
    "android ar": "١٣\u200f/٦\u200f/٢٠٢٣، ٦:٠٨ م - {}",
}
"""How a line of 13 June 2023, 18:08 begins."""


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_whatsapp_in_the_dates_of_many_phones(tmp_path: Path, head: str) -> None:
    note = head.format(f"{LRM}Messages and calls are end-to-end encrypted.")
    lines = [note, head.format("Ana Luz: First,"), "and second: line", "",
             "2 kilos, 3:15 sharp", head.format("~ Bo: Yes: all")]  # fmt: skip
    messages, left = taken(
        written(tmp_path / "WhatsApp Chat with Ana Luz.txt", "\ufeff" + "\n".join(lines)), "whatsapp"
    )
    assert [(m.name, m.text) for m in messages] == [
        ("Ana Luz", "First,\nand second: line\n\n2 kilos, 3:15 sharp"),
        ("~ Bo", "Yes: all"),
    ]
    assert {m.at.replace(second=0) for m in messages} == {at("2023-06-13T18:08:00+00:00")}
    assert (messages[0].chat, left) == ("Ana Luz", {"service lines": 1})


@pytest.mark.parametrize(
    ("dates", "days"),
    [
        (["03/04/24", "04/04/24", "05/04/24"], ["2024-04-03", "2024-04-04", "2024-04-05"]),  # days in a row
        (["4/3/24", "4/4/24", "4/9/24"], ["2024-04-03", "2024-04-04", "2024-04-09"]),  # of one month
        (["11/12/23", "12/11/23", "01/02/24"], ["2023-11-12", "2023-12-11", "2024-01-02"]),  # else time went back
        (["01/02/24", "02/28/24"], ["2024-01-02", "2024-02-28"]),
        (["01/02/24", "28/02/24"], ["2024-02-01", "2024-02-28"]),
    ],
)
def test_the_order_of_days_and_months(tmp_path: Path, dates: list[str], days: list[str]) -> None:
    path = written(tmp_path / "c.txt", "".join(f"{date}, 09:00 - Ann: On {date}.\n" for date in dates))
    assert [str(m.at.date()) for m in taken(path, "whatsapp")[0]] == days


def test_a_line_is_one_in_every_export_of_its_chat_and_no_other(tmp_path: Path) -> None:
    first, later = "03/04/24, 09:00 - Ann: Ahoy.\n", "04/28/24, 09:00 - Ann: Sold.\n"

    def ids(name: str, text: str) -> list[str]:
        return [m.id for m in taken(written(tmp_path / f"WhatsApp Chat with {name}.txt", text), "whatsapp")[0]]

    assert ids("Bo", first) == ids("Bo", first + later)[:1] == ids("Bo (1)", first)  # day first, month first, again
    assert ids("Bo", first) != ids("Cy", first)
    assert ids("Bo", first) != ids("Bo", first.replace("03/04", "04/03"))


def test_lines_that_are_alike_stay_apart_where_the_order_of_time_breaks(tmp_path: Path) -> None:
    lines = [("10:01", "Bo: ok"), ("10:00", "Ann: sent late"), ("10:01", "Bo: ok"), ("10:00", "Ann: sent late")]
    path = written(tmp_path / "c.txt", "".join(f"13/06/23, {time} - {line}\n" for time, line in lines))
    assert len(taken(path, "whatsapp")[0]) == 4


WROTE = {
    f"{LRM}image omitted": "[image]",
    f"{LRM}Bild weggelassen": "[image]",
    f"{LRM}vídeo omitido": "[video]",
    f"{LRM}audio omesso": "[voice message]",
    f"Deed.pdf • {LRM}3 pages {LRM}document omitted": "[file: Deed.pdf]",
    f"{LRM}<attached: 00000012-PHOTO-2023.jpg>": "[image]",
    "<Media omitted>": "[media]",
    "<Medien ausgeschlossen>": "[media]",
    "IMG-20230613-WA0001.jpg (file attached)\nThe new roof": "[image] The new roof",
    "PTT-20230613-WA0002.opus (Datei angehängt)": "[voice message]",
    "Plan of 2023.docx (archivo adjunto)": "[file: Plan of 2023.docx]",
    "Plan (2).docx (file attached)": "[file: Plan (2).docx]",
    "IMG-20230613-WA0003.jpg (файл добавлен)": "[image]",
    "IMG-20230613-WA0004.jpg (添付ファイル有り)": "[image]",
    f"We meet at six. {LRM}<This message was edited>": "We meet at six.",
    "Um sieben. <Diese Nachricht wurde bearbeitet.>": "Um sieben.",
    "I <3 this (really)": "I <3 this (really)",
    "https://a.org/b.html (look)": "https://a.org/b.html (look)",
}


KEPT = (
    "Hi Tom. Did you get it (the contract I attached)? I'm moving to Rome on Friday.",
    "I moved to Rome. See plan.pdf (I attached it)",
    "I moved to Rome. See the plan (file attached)",
    "<3 Tom: I moved. To Rome> yes",
    "if a < b I live in Rome, so edit it>",
    "if a < b we edit>",
    "Put it into <the editor I modified for Bo in Rome>",
    "See <edit-2>",
)
"""What people write that is like WhatsApp's notes."""


@pytest.mark.parametrize(("wrote", "shown"), [*WROTE.items(), *zip(KEPT, KEPT, strict=True)])
def test_whatsapp_names_media(tmp_path: Path, wrote: str, shown: str) -> None:
    path = written(tmp_path / "c.txt", f"[13.06.23, 18:08:09] Ann: {wrote}\n[13.06.23, 18:08:10] Bo: Fine.\n")
    assert said(taken(path, "whatsapp")[0]) == [("Ann", shown), ("Bo", "Fine.")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("13/06/23, 18:08 - Ann: This message was deleted", "deleted"),
        ("13/06/23, 18:08 - Ann: Du hast diese Nachricht gelöscht.", "deleted"),
        (f"[13/06/23, 18:08:00] Ann: {LRM}You deleted this message.", "deleted"),
        (f"[13/06/23, 18:08:00] Boats: {LRM}Ann created this group", "service lines"),
        (f"[13/06/23, 18:08:00] Ann: {LRM}Missed voice call", "service lines"),
        ("13/06/23, 18:08 - Ann added Bo", "service lines"),
        ('13/06/23, 18:08 - Ann changed the subject to "Plans: summer"', "service lines"),
        ("41/06/23, 18:08 - Ann: Never.", "unreadable"),
    ],
)
def test_whatsapp_leaves_out_what_nobody_says(tmp_path: Path, line: str, reason: str) -> None:
    path = written(tmp_path / "c.txt", f"{line}\n13/06/23, 18:09 - Bo: Fine.\n")
    messages, left = taken(path, "whatsapp")
    assert (said(messages), left) == ([("Bo", "Fine.")], {reason: 1})


def test_a_chat_in_a_zip_is_called_by_the_zip(tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp Chat - Ann & Bo.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_chat.txt", "[13/06/23, 18:08:00] Ann: Ahoy.\r\n")
        archive.writestr("00000012-PHOTO-2023.jpg", b"\0")
    messages, _ = taken(path, "whatsapp")
    assert [(m.chat, m.name, m.text) for m in messages] == [("Ann & Bo", "Ann", "Ahoy.")]


# ---- what cannot be read


def test_a_file_that_is_cut_off_gives_what_comes_before(tmp_path: Path) -> None:
    rows = [
        {"id": n, "type": "message", "date": "2024-01-01T00:00:00", "from": "Pia", "text": f"{n}."} for n in range(9)
    ]
    path = written(tmp_path / "r.json", json.dumps({"name": "P", "id": 1, "messages": rows})[:-80])
    export, messages = Export(path), []
    with pytest.raises(DataFileError, match="cut off"):
        messages.extend(read(export, "telegram"))
    assert len(messages) > 5


@pytest.mark.parametrize("name", ["_chat.txt", "conversations.json"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_archive_is_named(tmp_path: Path, name: str, method: int) -> None:
    lines = [f"[13/06/23, 18:08:{n % 60:02}] Ann: {hash(n) * 7919 % 10007}.\n" for n in range(40_000)]
    mapping = node("a", None, "user", ["".join(lines)], 1710000000.0)
    path = tmp_path / "e.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr(
            name, "".join(lines) if name == "_chat.txt" else json.dumps([{"id": "k", "mapping": mapping}] * 2)
        )
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size - size // 8)
        file.write(b"\xff" * 64)
    export = Export(path)
    with pytest.raises(DataFileError, match="again"):
        list(read(export, format_of(export)))


@pytest.mark.parametrize("odd", [["a"], {"a": 1}, 7])
def test_a_branch_of_no_name_is_the_last(tmp_path: Path, odd: Any) -> None:
    mapping = {**node("a", odd, "user", ["Ahoy."], 1710000000.0), **node("b", "a", "assistant", ["Ahoy!"])}
    talk = {"id": "k", "mapping": mapping, "current_node": odd}
    assert len(taken(written(tmp_path / "c.json", [talk]), "chatgpt")[0]) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: written(folder / "a.txt", "Dear diary"),
        lambda folder: written(folder / "a.json", [1, 2]),
        lambda folder: written(folder / "a.json", "{"),
        lambda folder: written(folder / "sub" / "a.csv", "x").parent,
    ],
)
def test_what_is_no_history_is_refused_with_the_formats(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(InputError) as caught:
        format_of(Export(make(tmp_path)))
    assert "whatsapp" in str(caught.value)
    assert "remove" not in str(caught.value)
    assert "delete" not in str(caught.value)


def test_times_without_a_zone_are_those_of_a_zone(tmp_path: Path) -> None:
    path = written(tmp_path / "c.txt", "01/07/23, 09:00 - Ann: Summer.\n13/01/24, 09:00 - Ann: Winter.\n")
    messages, _ = taken(path, "whatsapp", "Europe/Paris")
    assert [m.at.utcoffset() for m in messages] == [timedelta(hours=2), timedelta(hours=1)]
    assert messages[1].at == datetime(2024, 1, 13, 9, tzinfo=timezone(timedelta(hours=1)))


# ---- what is too large


def test_what_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST", 200_000)
    monkeypatch.setattr(files, "MOST_LINES", 100)
    monkeypatch.setattr(files, "PIECE", 1000)
    begun = "[01.03.24, 10:00:00] Ann: Hi.\n"
    talk = '[{"chat_messages": [], "name": ""}, {"x": "'
    for text, name, what in (
        (begun + "x" * 200_001, "_chat.txt", "a line of more than 200000 characters"),
        (begun + "x\n" * 101, "_chat.txt", "a message of more than 100 lines"),
        (talk + "x" * 900_000 + '"}]', "x.json", "a value has more than 200000 characters"),
    ):
        with pytest.raises(DataFileError, match=what):
            taken(written(tmp_path / name, text), "claude" if name == "x.json" else "whatsapp")
    assert len(taken(written(tmp_path / "_chat.txt", begun + "x\n" * 100), "whatsapp")[0]) == 1


@pytest.mark.parametrize("slash", ["/", "\\/"])
def test_images_within_a_chat_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slash: str) -> None:
    monkeypatch.setattr(files, "LONGEST", 200_000)
    monkeypatch.setattr(files, "PIECE", 1001)
    image = {"type": "image", "url": f"data:image/jpeg;base64,{'9j+A' * 100_000}=="}
    rows = [
        {"id": n, "role": "user", "content": f"My {n} pear tree.", "timestamp": 1714557660, "files": [image, image]}
        for n in ("old", "new")
    ]
    text = json.dumps([{"id": "x", "title": "t", "chat": {"messages": rows}}]).replace("j+A", f"j{slash}A")
    messages, _ = taken(written(tmp_path / "chats.json", text), "openwebui")
    assert [m.text for m in messages] == ["[image] [image] My old pear tree.", "[image] [image] My new pear tree."]


def test_an_archive_is_unpacked_piece_by_piece(tmp_path: Path) -> None:
    """Python unpacks other methods at once, however large the result is."""
    path = tmp_path / "chat.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("_chat.txt", "[01.03.24, 10:00:00] Ann: Hi.\n")
    with pytest.raises(InputError, match="not packed with deflate"):
        format_of(Export(path))


def test_a_message_of_blanks_is_left_out(tmp_path: Path) -> None:
    messages, left = taken(written(tmp_path / "_chat.txt", "[01.03.24, 10:00:00] Ann: \u2003\u00a0\n" * 2), "whatsapp")
    assert (messages, sum(left.values())) == ([], 2)
