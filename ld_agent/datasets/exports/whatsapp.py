"""WhatsApp's chats as text, of iOS and Android, in the languages and date orders of their phones.

A line's head is a date, a time and a name; what follows without a head belongs to the message. A line with a date but no
name is WhatsApp's own. Of iOS, what WhatsApp itself writes begins with a mark of direction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from ld_agent.datasets.exports.files import Export, Part
from ld_agent.datasets.exports.message import DELETED, SERVICE, UNREADABLE, Message, in_zone, joined, media

MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\u061c"
GENERATED = "\u200e"
HEAD = re.compile(
    r"(?P<bracket>\[)?(?P<date>\d{1,4}[./-]\s?\d{1,2}[./-]\s?\d{1,4}\.?|\d{4}年\d{1,2}月\d{1,2}日|\d{4}년 \d{1,2}월 \d{1,2}일)"
    r"(?:\s?[,،]|\s(?:à|at|um|klo|kl\.?|às|alle|om|в|u))?\s(?P<before>[^\W\d]{2})?\s?"
    r"(?P<time>\d{1,2}[.:]\d{2}(?:[.:]\d{2})?)\s?(?P<after>[^\W\d]\.?\s?[^\W\d]?\.?|vorm\.|nachm\.)?"
    r"(?(bracket)\]|(?:\s[-–]|,|:))\s?(?P<rest>.*)",
    re.DOTALL,
)
"""The one place where a pattern is needed: dates and times in every order and script, "6:08 PM", "오후 6:08", "18.08"."""
AFTERNOON = frozenset({"pm", "m", "م", "오후", "下午", "午後", "晚上", "中午", "μμ", "nachm", "ip", "du", "ch"})
MORNING = frozenset({"am", "a", "ص", "오전", "上午", "午前", "早上", "凌晨", "πμ", "vorm", "ap", "de", "sa"})
SHOWN = {
    "[image]": "image imagen imagem immagine bild foto photo afbeelding obraz изображение 图像 圖片 画像 사진 गई",
    "[video]": "video vídeo vidéo видео 视频 影片 動画 동영상 wideo",
    "[voice message]": "audio áudio аудио 音频 音訊 音声 오디오 sprachnachricht ptt",
    "[sticker]": "sticker figurinha стикер 贴图 ステッカー 스티커",
    "[video] ": "gif",
    "[contact]": "contact kontakt contacto contato contatto контакт",
    "[file]": "document dokument documento документ 文档 文件 ドキュメント 문서",
}
"""The words by which WhatsApp names a medium that it left out ("image omitted"), by what stands for it."""
DELETIONS = (
    "this message was deleted;you deleted this message;diese nachricht wurde gelöscht;du hast diese nachricht gelöscht;"
    "se eliminó este mensaje;eliminaste este mensaje;este mensaje fue eliminado;ce message a été supprimé;"
    "vous avez supprimé ce message;mensagem apagada;esta mensagem foi apagada;você apagou esta mensagem;"
    "questo messaggio è stato eliminato;hai eliminato questo messaggio;dit bericht is verwijderd;"
    "dit bericht werd verwijderd;u hebt dit bericht verwijderd;je hebt dit bericht verwijderd;сообщение удалено;"
    "данное сообщение удалено;вы удалили данное сообщение;wiadomość została usunięta;bu mesaj silindi;"
    "此消息已删除;このメッセージは削除されました;삭제된 메시지입니다"
).split(";")
EDITED = "edit bearb modif bewerkt измен düzenlen edyt 编辑 編集 수정".split()
"""How the note that a message was edited is recognised: "<This message was edited>"."""
ATTACHED = tuple(
    f" ({note})"
    for note in (
        "file attached;datei angehängt;archivo adjunto;archivo adjuntado;fichier joint;arquivo anexado;ficheiro anexado;"
        "file allegato;bestand bijgevoegd;файл добавлен;dosya ekli;załączony plik;文件附件;附件檔案;添付ファイル有り;파일 첨부됨"
    ).split(";")
)
"""How a line ends that names a file."""
LONGEST_DATE = 48
FEW = 200
"""Heads that decide nothing about the order of dates are enough of."""


def head_of(line: str) -> re.Match[str] | None:
    """The head of a line, if it has one."""
    start = line.lstrip(MARKS)
    if not start or not (start[0] == "[" or start[0].isdigit()):
        return None
    end = max(start.find("]" if start[0] == "[" else " - ", 0, LONGEST_DATE), 0)
    return HEAD.match("".join(c for c in start[:end] if c not in MARKS) + start[end:])


def whatsapp(part: Part) -> Iterator[Message]:
    """A chat; what nobody of it wrote is left out."""
    export, chat = part.export, _chat_name(part)
    order = date_order(part)
    seen = Counter[int]()  # by hash: the texts of a long chat would fill the memory
    for date, rest in part.headed(head_of):
        at = _at(date, order)
        if at is None:
            export.left[UNREADABLE] += 1
            continue
        name, said = _split("\n".join([date["rest"], *rest]))
        if not name:
            export.left[SERVICE] += 1
            continue
        text = _shown(said, export)
        if text is None:
            continue
        line = f"{chat}/{_as_written(date, at)}/{name}/{text}"
        seen[hash(line)] += 1
        yield Message(f"{line}/{seen[hash(line)]}", chat, name, text, in_zone(at, export.zone))


def _chat_name(part: Part) -> str:
    """The chat's name, from that of the file or folder: "WhatsApp Chat with Ann.txt", "WhatsApp Chat - Ann.zip"."""
    stem = part.stem
    if stem == "_chat":  # unpacked
        folder = part.export.path.resolve().parent.name
        stem = folder if folder.casefold().startswith("whatsapp") else stem
    name, copied, number = stem.rpartition(" (")  # a second download: "WhatsApp Chat with Ann (1).txt"
    if not (copied and number.endswith(")") and number[:-1].isdigit()):
        name = stem
    for before in (" - ", " with ", " mit ", " con ", " avec ", " com ", " met "):
        if name.casefold().startswith("whatsapp") and before in name:
            return name.partition(before)[2]
    return name.removeprefix("WhatsApp Chat").strip(" -_") or name


def _split(rest: str) -> tuple[str, str]:
    """Name and text of a message; without a name: a line of WhatsApp's own."""
    first = rest.partition("\n")[0]
    for colon in (": ", ":"):
        name, found, _ = first.partition(colon)
        if found and len(name) <= 100 and name.strip() and not any(c in '"“”„«»' for c in name):
            if colon == ":" and first.strip() != f"{name}:":
                break
            return name.strip().strip(MARKS), rest[len(name) + len(colon) :]
    return "", rest


def _shown(said: str, export: Export) -> str | None:
    """A message as it is stored; None: nobody said it, which is counted."""
    text = said.strip()
    marked, text = text.startswith(GENERATED), _without_note(text)
    plain = "".join(c for c in text if c not in MARKS).strip()
    first, _, caption = plain.partition("\n")
    if plain.casefold().rstrip(".").rstrip() in DELETIONS:
        export.left[DELETED] += 1
        return None
    if plain.startswith("<") and ">" in first:
        inside = first[1 : first.index(">")]
        name = inside.partition(":")[2].strip()
        if _names_file(name):
            return joined(media("", name), first[first.index(">") + 1 :], caption)
        if first.endswith(">") and not caption:
            return _omitted(inside) or "[media]"
    name = first.rpartition(" (")[0]
    if first.casefold().endswith(ATTACHED) and _names_file(name):
        return joined(media("", name), caption)
    raw = text.partition("\n")[0]
    before, mark, after = raw.rpartition(GENERATED)
    if mark and (omitted := _omitted(after)):
        before = "".join(c for c in before if c not in MARKS).strip()
        name = before.partition(" • ")[0]
        return f"[file: {name}]" if omitted == "[file]" and "." in name else joined(omitted, before, caption)
    if marked:
        export.left[SERVICE] += 1
        return None
    return plain


def _names_file(text: str) -> bool:
    return "." in text and text.rpartition(".")[2].isalnum()


def _without_note(text: str) -> str:
    """A text without the note at its end that it was edited."""
    before, _, end = text.rpartition("<")
    note = end.casefold().strip(MARKS).removesuffix(">").rstrip(".。")
    short = end.endswith(">") and note[:1].isalpha() and len(words := note.split()) <= 5 and "".join(words).isalpha()
    return before.rstrip(" " + MARKS) if before and short and any(word in note for word in EDITED) else text


def _omitted(line: str) -> str:
    """What stands for a medium that a few words name as left out; "": they name none."""
    words = line.casefold().split()
    found = (sign for sign, names in SHOWN.items() if any(w.startswith(n) for w in words for n in names.split()))
    return next(found, "").strip() if len(words) <= 3 else ""


def date_order(part: Part) -> str:
    """ "dmy", "mdy" or "ymd": as some number, or the order of time, requires."""
    dates = list(_few_dates(part))
    if any(len(str(d[0])) > 2 for d in dates):
        return "ymd"
    if any(d[0] > 12 for d in dates) or any(d[1] > 12 for d in dates):
        return "dmy" if sum(d[0] > 12 for d in dates) >= sum(d[1] > 12 for d in dates) else "mdy"
    day_first, month_first = [(d[2], d[1], d[0]) for d in dates], [(d[2], d[0], d[1]) for d in dates]
    if _steps_back(day_first) != _steps_back(month_first):
        return "dmy" if _steps_back(day_first) < _steps_back(month_first) else "mdy"
    return "dmy" if _span(day_first) <= _span(month_first) else "mdy"


def _few_dates(part: Part) -> Iterator[tuple[int, ...]]:
    """The dates of a chat as three numbers each, without repetitions in a row, until their order is certain for long."""
    last, certain = "", 0
    for line in part.lines():
        if (head := head_of(line)) is not None and head["date"] != last:
            last = head["date"]
            numbers = _numbers(last)
            certain += len(str(numbers[0])) > 2 or max(numbers[:2]) > 12
            yield numbers
            if certain > FEW:
                return


def _steps_back(dates: Sequence[tuple[int, ...]]) -> int:
    return sum(later < earlier for earlier, later in pairwise(dates))


def _span(dates: Sequence[tuple[int, ...]]) -> int:
    """Days from the first to the last date, about: people write on days that follow each other."""
    days = [year * 372 + month * 31 + day for year, month, day in dates]
    return max(days) - min(days) if days else 0


def _numbers(date: str) -> tuple[int, ...]:
    numbers = "".join(c if c.isdigit() else " " for c in date).split()
    return tuple(int(number) for number in numbers[:3])


def _as_written(head: re.Match[str], at: datetime) -> str:
    """A message's time whatever the order of days and months, which a later export may tell better than this one."""
    date = "-".join(str(number % 100) for number in _numbers(head["date"]))
    return f"{date} {at.time()}"


def _at(head: re.Match[str], order: str) -> datetime | None:
    """What the phone's clock showed when a message was sent."""
    numbers = dict(zip(order, _numbers(head["date"]), strict=True))
    hour, minute, *second = _numbers(head["time"])
    word = (head["before"] or head["after"] or "").casefold().replace(".", "")
    half = "".join(word.split())
    if half in AFTERNOON or half.startswith("p"):
        hour = hour % 12 + 12
    elif half in MORNING or half.startswith("a"):
        hour %= 12
    year = numbers["y"] + (2000 if numbers["y"] < 100 else 0)
    try:
        return datetime(year, numbers["m"], numbers["d"], hour, minute, sum(second), tzinfo=UTC)
    except ValueError:
        return None
