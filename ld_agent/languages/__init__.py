"""Languages: one folder each, with the prompts of every module and the words that the code itself writes or parses.

A folder holds ``words.yaml`` (`ld_agent.languages.words.Words`), ``rules.yaml`` (`ld_agent.languages.reading.Rules`),
``dates.yaml`` (`ld_agent.languages.dates.Dates`) and ``prompts/*.yaml``, the same files as ``en``. Prompts may ask a
model to begin a line ("Note:", "Enough:") in the language's own words; `Language.canonical` translates these markers
back for the parsers. Knows no model and no store.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ld_agent.errors import ConfigError
from ld_agent.languages.dates import Dates
from ld_agent.languages.reading import Reading, Rules
from ld_agent.languages.words import UNITS, Words
from ld_agent.prompts import Prompt, as_name

AUTO = "auto"
EVALUATION = ("ecm_", "judge_", "replay_")
"""Prompts used by evaluation only; other languages than English may omit them."""
SEEN = 400
"""Number of characters that `detected` looks at."""
File = TypeVar("File", bound=BaseModel)


class Language:
    """One language, read from its folder.

    Args:
        code: how the config names it.
        folder: where its files are.

    Raises:
        ConfigError: a file or a key is missing or cannot be read; names both.
    """

    def __init__(self, code: str, folder: Traversable) -> None:
        self.code, self._folder = code, folder
        self.words = self._read(Words, "words.yaml")
        self.rules = self._read(Rules, "rules.yaml")
        self.dates = self._read(Dates, "dates.yaml")
        self._prompts: dict[str, Prompt] = {}
        if missing := sorted(english_prompts() - {file.name for file in self._file("prompts").iterdir()}):
            raise ConfigError(f"language {code!r}: {folder}/prompts lacks {missing[0]}; see docs/languages.md")

    def _file(self, *parts: str) -> Traversable:
        path = self._folder.joinpath(*parts)
        if not (path.is_dir() or path.is_file()):
            raise ConfigError(f"language {self.code!r}: {self._folder} lacks {'/'.join(parts)}; see docs/languages.md")
        return path

    def _read(self, kind: type[File], name: str) -> File:
        import yaml

        file = self._file(name)
        try:
            return kind.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
        except ValidationError as exc:
            first = exc.errors()[0]
            key = ".".join(map(str, first["loc"])) or name.removesuffix(".yaml")
            raise ConfigError(f"language {self.code!r}: {file}: {key}: {first['msg'].lower()}") from exc
        except (yaml.YAMLError, UnicodeDecodeError) as exc:
            raise ConfigError(f"language {self.code!r}: {file} is not YAML: {str(exc).splitlines()[0]}") from exc

    @cached_property
    def reading(self) -> Reading:
        """How an agent of this language reads texts: by its rules and those of the shipped languages."""
        if self.code in shipped():
            return shipped_reading()
        languages = [self, *map(language, shipped())]
        return Reading([one.rules for one in languages], [one.dates for one in languages])

    def prompt(self, name: str) -> Prompt:
        """Return a prompt of this language by its file's name, read once."""
        if name not in self._prompts:
            source = self._file("prompts", f"{name}.yaml").read_text(encoding="utf-8")
            self._prompts[name] = Prompt(name, source)
        return self._prompts[name]

    def check(self) -> None:
        """Check that every prompt can stand in for the English one.

        Raises:
            ConfigError: a prompt cannot be read, has other messages, or uses an unknown variable; names its file.
        """
        for file in sorted(english_prompts()):
            name, where = file.removesuffix(".yaml"), f"language {self.code!r}: {self._folder}/prompts/{file}"
            english = ENGLISH.prompt(name)
            try:
                prompt = self.prompt(name)
            except (ConfigError, UnicodeDecodeError) as exc:
                raise ConfigError(f"{where}: {exc}") from exc
            examples = "assistant" in english.roles  # there may be more or fewer of them
            if prompt.roles != english.roles and (not examples or prompt.roles[-1:] != english.roles[-1:]):
                raise ConfigError(f"{where}: messages have the roles {prompt.roles}, not {english.roles}")
            if unknown := sorted(prompt.variables - english.variables):
                known = ", ".join(sorted(english.variables)) or "none"
                raise ConfigError(f"{where}: the variable {unknown[0]!r} is not one of: {known}")

    def files(self) -> list[Traversable]:
        """Its words, rules, dates and prompts."""
        return [
            *(self._file(name) for name in ("words.yaml", "rules.yaml", "dates.yaml")),
            *self._file("prompts").iterdir(),
        ]

    def named(self, names: Sequence[str]) -> str:
        """Join names as a sentence lists them: "Maya, Ben and Sam"."""
        between, before_last = self.words.listed
        *others, last = [as_name(name) for name in names] or [self.words.nobody]
        return f"{between.join(others)}{before_last}{last}" if others else last

    def ago(self, then: datetime, now: datetime) -> str:
        """Describe how long before ``now`` something happened, as a person would say it."""
        seconds = max((now - then).total_seconds(), 0.0)
        for unit, length in UNITS.items():
            count = int(seconds / length)
            if count >= (2 if unit in ("month", "week") else 1):  # "5 weeks" says more than "1 month"
                return self.words.ago[unit][count > 1].format(n=count)
        return self.words.ago["now"][0]

    def origin(self, then: datetime, channel: str, now: datetime, *more: str, dated: bool = False) -> str:
        """Say how long ago something was told, then ``more`` and its channel if that is not the chat: "5 weeks ago, imported".

        Args:
            dated: say on which day, too: "told on 12 March 2026, 5 weeks ago".
        """
        ago = self.ago(then, now)
        if dated:
            day, relative = then.date(), self.dates.relative
            written = relative.as_written("day", day, noun=True) if relative else day.isoformat()
            ago = self.words.told.format(date=written, ago=ago)
        return self.with_channel(", ".join([ago, *more]), channel)

    def with_channel(self, text: str, channel: str) -> str:
        """A text followed by the channel of what it names, if that is not the chat."""
        return f"{text}, {self.words.channels[channel]}" if channel in self.words.channels else text

    def said(self, speaker: str, text: str) -> str:
        """Render an utterance as a record of its own."""
        return self.words.said.format(speaker=speaker, text=text)

    def canonical(self, answer: str) -> str:
        """Replace this language's markers in a model's answer by the ones that parsers expect ("笔记：" by "Note:").

        English answers are returned unchanged.
        """
        if self._marker is None:
            return answer
        if self._plain(answer) in self._no_trait:
            return "NO_TRAIT"
        answer = self._marker.sub(lambda m: f"{m['before']}{self._canonical[m['word'].casefold()]}: ", answer)
        return self._answer.sub(lambda m: f"{m['before']}{self._canonical[m['word'].casefold()]}{m['after']}", answer)

    def canonical_reply(self, answer: str, *, decides: bool = False) -> str:
        """Replace the marker that begins a reply and, if it ``decides``, that of the decision behind it.

        Nothing else: a person is told "是的。" or "没有。" in these words.
        """
        if self._marker is None:
            return answer
        answer = self._begins_reply.sub("Reply: ", answer, count=1)
        if not decides:
            return answer
        return self._decision.sub(
            lambda m: f"\nRemember: {self._canonical.get((m['word'] or '').casefold(), '')}", answer
        )

    def reply_markers(self, *, decides: bool = False) -> tuple[str, ...]:
        """The words that may begin a line of a reply without belonging to it."""
        return tuple(word for name in ("reply", "remember")[: 1 + decides] for word in self.words.markers.get(name, ()))

    @cached_property
    def _begins_reply(self) -> re.Pattern[str]:
        words = _alternatives(self.words.markers.get("reply", ())) or "(?!)"
        return re.compile(rf"^[\s*#\-【\[（(]*(?:{words})[】\]）)*\s]*[:：][*\s]*", re.IGNORECASE)

    @cached_property
    def _decision(self) -> re.Pattern[str]:
        markers = _alternatives((*self.words.markers.get("remember", ()), "remember"))
        words = _alternatives(word for name in ("yes", "no") for word in (name, *self.words.answers.get(name, ())))
        begin, end = r"(?:^|\n|(?<=[。.!?！？…”’」』\"']))[\s*#\-【\[（(]{0,40}+", r"[】\]）)*\s]{0,40}[:：]"
        return re.compile(rf"{begin}(?:{markers}){end}[*\s]*(?P<word>(?:{words})(?!\w))?", re.IGNORECASE)

    @cached_property
    def _canonical(self) -> dict[str, str]:
        listed = {**self.words.markers, **self.words.answers}
        none = {phrase.casefold(): "NO_TRAIT" for phrase in self.words.no_trait}
        return (
            none
            | {"yes": "Yes", "no": "No"}
            | {word.casefold(): name.capitalize() for name, words in listed.items() for word in words}
        )

    @cached_property
    def _no_trait(self) -> frozenset[str]:
        return frozenset(map(self._plain, self.words.no_trait))

    @cached_property
    def _marker(self) -> re.Pattern[str] | None:
        words = _alternatives(word for words in self.words.markers.values() for word in words)
        begin = r"(?P<before>^[\s\d.、)*#\-【\[（(]{0,40}+|\n[\s\d.、)*#\-【\[（(]{0,40}+|(?<=[。.!?！？])\s*+)"
        return re.compile(rf"{begin}(?P<word>{words})[】\]）)*\s]{{0,40}}[:：][*\s]*", re.IGNORECASE) if words else None

    @cached_property
    def _answer(self) -> re.Pattern[str]:
        answers = (word for words in self.words.answers.values() for word in words)
        words = _alternatives([*answers, *self.words.no_trait])
        return re.compile(
            rf"(?P<before>^\s{{0,40}}+|:\s{{0,40}}+)(?P<word>{words})(?P<after>[\s。.!！,，]{{0,40}}(?:\n|$))",
            re.IGNORECASE | re.MULTILINE,
        )

    @staticmethod
    def _plain(text: str) -> str:
        return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text)).casefold()


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


@cache
def english_prompts() -> frozenset[str]:
    """The files that every language has."""
    names = (file.name for file in files(__name__).joinpath("en", "prompts").iterdir())
    return frozenset(name for name in names if name.endswith(".yaml") and not name.startswith(EVALUATION))


def shipped() -> list[str]:
    """The codes of the languages that ship."""
    return sorted(f.name for f in files(__name__).iterdir() if f.is_dir() and f.joinpath("words.yaml").is_file())


@cache
def stock_phrases() -> frozenset[str]:
    """What tells nothing in any of the shipped languages, such as what an agent says if its model gives no reply."""
    return frozenset(text for code in shipped() for text in language(code).words.telling_nothing)


@cache
def language(code: str) -> Language:
    """Return a language by its code or by the path of its folder; ``auto`` is English until something is said.

    Raises:
        ConfigError: no such language, or a folder that lacks something.
    """
    if code == AUTO:
        return language("en")
    if code in shipped():
        return Language(code, files(__name__).joinpath(code))
    folder = Path(code).expanduser()
    if not folder.is_dir():
        raise ConfigError(
            f"language={code!r} is neither a folder nor one of: {', '.join([*shipped(), AUTO])}; see docs/languages.md"
        )
    spoken = Language(code, folder)
    spoken.check()
    return spoken


@cache
def shipped_reading() -> Reading:
    """How the agents of all shipped languages read texts, so that a conversation may change its language."""
    languages = [language(code) for code in shipped()]
    return Reading([one.rules for one in languages], [one.dates for one in languages])


def detected(texts: Iterable[str]) -> str | None:
    """Return the code of the shipped language whose script is most frequent in some texts; None: there are no letters.

    Only the first `SEEN` characters count. Three words in Latin letters count as much as four characters of another
    script, so that a name or two do not decide. Kana belongs to none of the shipped languages.
    """
    weights: dict[str, int] = {}
    before = ""
    for character in "".join(texts)[:SEEN]:
        script = unicodedata.name(character, "?").split()[0] if character.isalpha() else ""
        if script and not (script == before == "LATIN"):  # a word counts once
            weights[script] = weights.get(script, 0) + (4 if script == "LATIN" else 3)
        before = script
    if not weights:
        return None
    scores = {code: sum(weights.get(s, 0) for s in language(code).words.scripts) for code in shipped()}
    return max(scores, key=lambda code: (scores[code], code == "en"))


def encoder_for(code: str) -> str | None:
    """Return the encoder that replaces the English default for a language, or for any with ``auto``; None: it stays."""
    encoders = (language(one).words.encoder for one in (shipped() if code == AUTO else [code]))
    return next(filter(None, encoders), None)


ENGLISH = language("en")
