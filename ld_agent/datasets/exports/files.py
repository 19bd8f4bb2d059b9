"""The files of an export, alone, in a folder or in a zip archive, read piece by piece. Knows no format.

`walk` reads JSON of any size: only the values that are not opened are in memory, one at a time.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

from ld_agent.errors import DataFileError, InputError

PIECE = 1 << 16
LONGEST = 1 << 24
"""Maximum number of characters of a line or a JSON value, which is in memory as a whole."""
EMBEDDED = re.compile(r"(;base64,)(?:[\w+/=-]|\\/){64,}+", re.ASCII)
"""A file within a text of JSON, as Open WebUI exports images: it is not read."""
MOST_LINES = 1 << 16
"""Maximum number of lines of a message."""
SUFFIXES = frozenset({".json", ".jsonl", ".txt", ".md", ".ndjson"})
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How archives are packed that are unpacked piece by piece, and never beyond the size that they state."""
DECODER = json.JSONDecoder(strict=False)
Head = TypeVar("Head")


class Export:
    """An export as its files.

    Args:
        zone: of times without one; None: this machine's.
        most: bytes that its text files may have together, unpacked; None: any number.

    Attributes:
        left: how much was left out, by reason.
        shared: what a reader notes for the other files.
        reading: the file that is being read.
        passed, total: bytes of the files that were read, and of all.

    Raises:
        InputError: there is no such file, or it is a broken archive, or larger than allowed.
    """

    def __init__(self, path: Path, zone: tzinfo | None = None, most: int | None = None) -> None:
        self.path, self.zone = path, zone
        self.left: Counter[str] = Counter()
        self.shared: dict[str, Any] = {}
        self.reading: BinaryIO | None = None
        self.total = self.passed = 0
        if not path.exists():
            raise InputError(f"no file {path}; check the path")
        try:
            self._zip = zipfile.ZipFile(path) if path.is_file() and zipfile.is_zipfile(path) else None
        except (OSError, zipfile.BadZipFile) as exc:
            raise InputError(f"{path} cannot be opened ({exc}); download the export again") from exc
        if most is not None and (size := sum(self.size(part.name) for part in self.parts())) > most:
            what = f"{path} holds {size} bytes of text, more than {most}"
            raise InputError(f"{what}; split it, or use `ld-agent memory import`")

    @property
    def done(self) -> int:
        """Bytes read so far."""
        return self.passed + (self.reading.tell() if self.reading else 0)

    def parts(self) -> list[Part]:
        """The text files, in the order of their names."""
        if self._zip is not None:
            names = [info.filename for info in self._zip.infolist() if not info.is_dir()]
        elif self.path.is_dir():
            names = [str(p.relative_to(self.path).as_posix()) for p in self.path.rglob("*") if p.is_file()]
        else:
            return [Part(self, self.path.name)]
        return [Part(self, name) for name in sorted(names) if Path(name).suffix.casefold() in SUFFIXES]

    def opened(self, name: str) -> BinaryIO:
        """One of its files.

        Raises:
            InputError: it cannot be read.
        """
        try:
            if self._zip is not None:
                if self._zip.getinfo(name).compress_type not in PACKED:
                    raise zipfile.BadZipFile("not packed with deflate")
                return self._zip.open(name)  # type: ignore[return-value]
            return (self.path / name if self.path.is_dir() else self.path).open("rb")
        except (OSError, RuntimeError, zipfile.BadZipFile) as exc:  # RuntimeError: it is encrypted
            raise InputError(
                f"{self.path}: {name} cannot be read ({exc}); unpack the archive, or check permissions"
            ) from exc

    def size(self, name: str) -> int:
        """Of a file, in bytes."""
        if self._zip is not None:
            return self._zip.getinfo(name).file_size
        return (self.path / name if self.path.is_dir() else self.path).stat().st_size


class Part:
    """One file of an export."""

    def __init__(self, export: Export, name: str) -> None:
        self.export, self.name = export, name

    @property
    def stem(self) -> str:
        """The name without folder and ending; of a nameless file in an archive or folder, that of the latter."""
        stem = Path(self.name).stem
        if stem not in ("_chat", "chat", "data", "index", "result", "messages"):
            return stem
        folder = Path(self.name).parent.name
        return folder or (stem if self.export.path.name == self.name else self.export.path.stem)

    @contextmanager
    def text(self) -> Iterator[TextIO]:
        """The content as text; bytes that are not UTF-8 or UTF-16 become U+FFFD.

        Raises:
            DataFileError: the archive is damaged; also while the text is read.
        """
        export = self.export
        try:
            with export.opened(self.name) as raw:
                encoding = "utf-16" if raw.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
                raw.seek(0)
                export.reading = raw
                with io.TextIOWrapper(raw, encoding, errors="replace") as stream:
                    yield stream
                    export.passed, export.reading = export.done, None
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as exc:
            what = f"{self.name} cannot be read from here on ({exc}); download or export it again"
            raise DataFileError(export.path, None, what) from exc
        finally:
            export.reading = None

    def lines(self) -> Iterator[str]:
        """The lines of a text file, without their ends."""
        with self.text() as stream:
            while line := stream.readline(LONGEST + 1):
                if len(line) > LONGEST:
                    what = f"{self.name} has a line of more than {LONGEST} characters; export it again"
                    raise DataFileError(self.export.path, None, what)
                yield line.rstrip("\n")

    def add(self, message: list[str], line: str) -> None:
        """Add a line to a message.

        Raises:
            DataFileError: it has too many.
        """
        if len(message) >= MOST_LINES:
            what = f"{self.name} has a message of more than {MOST_LINES} lines; export it again"
            raise DataFileError(self.export.path, None, what)
        message.append(line)

    def headed(self, head_of: Callable[[str], Head | None]) -> Iterator[tuple[Head, list[str]]]:
        """The messages of a text file: what is found in the first line of each, and the lines that follow it."""
        head: Head | None = None
        rest: list[str] = []
        for line in self.lines():
            if (following := head_of(line)) is None:
                self.add(rest, line)
                continue
            if head is not None:
                yield head, rest
            head, rest = following, []
        if head is not None:
            yield head, rest

    def walk(self, *opened: str) -> Iterator[tuple[str, Any]]:
        """The values of a JSON file with their paths; also of several documents in a row, as JSON lines are.

        Args:
            opened: the objects and lists whose contents are read one by one: their paths and "{}" or "[]", where "*" is an
                element (``messages[]`` holds ``messages.*``; the document itself is ``{}`` or ``[]``).

        Raises:
            DataFileError: the JSON is broken, or the file is cut off.
        """
        with self.text() as stream:
            reader = _Json(stream)
            try:
                while reader.mark():
                    yield from reader.walk(frozenset(opened))
            except RecursionError as exc:
                raise DataFileError(self.export.path, None, f"{self.name} is nested too deeply") from exc
            except ValueError as exc:
                what = f"{self.name} is cut off or not JSON from here on ({exc}); download or export it again"
                raise DataFileError(self.export.path, None, what) from exc


class _Json:
    """A text of JSON, of which a window is in memory."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._text, self._at = stream, "", 0

    def _more(self) -> bool:
        if len(self._text) - self._at > LONGEST:
            raise ValueError(f"a value has more than {LONGEST} characters")
        piece = self._stream.read(max(PIECE, len(self._text) - self._at))
        self._text, self._at = EMBEDDED.sub(r"\1", self._text[self._at :] + piece), 0
        return bool(piece)

    def mark(self) -> str:
        """The next character that is no blank; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in " \t\r\n":
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def _value(self) -> Any:
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except ValueError:
                if not self._more():
                    raise
                continue
            if end == len(self._text) and self._more():  # a number may go on
                continue
            self._at = end
            return value

    def walk(self, opened: frozenset[str], path: str = "") -> Iterator[tuple[str, Any]]:
        mark = self.mark()
        if mark not in "{[" or path + {"{": "{}", "[": "[]"}.get(mark, "") not in opened:
            yield path, self._value()
            return
        self._at += 1
        while (found := self.mark()) != {"{": "}", "[": "]"}[mark]:
            if found == ",":
                self._at += 1
                continue
            key = "*"
            if mark == "{":
                key = str(self._value())
                if self.mark() != ":":
                    raise ValueError(f"no value follows {key[:40]!r}")
                self._at += 1
            yield from self.walk(opened, f"{path}.{key}" if path else key)
        self._at += 1
