"""Secrets in texts, which ``store.redact`` keeps out of the store: a table of well-known patterns. Knows no database.

Every pattern is linear in a text's length: repetitions are bounded or possessive, and none begins inside its own run.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

log = logging.getLogger(__name__)
REDACTED = "[redacted]"
CARD, KEY, PASSWORD, PRIVATE = "card number", "API key", "password", "private key"
NAMES = (
    *"password passwd passwort kennwort passphrase passcode pwd pin contraseña senha пароль".split(),
    *"パスワード 密码 密碼 口令 비밀번호 암호".split(),
)
"""What passwords are called, in letters without case; words in Latin letters are looked for as words."""
LONG = re.compile(r"[\w.~+/=-]{16}", re.ASCII)
PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----))*+-----END [A-Z0-9 ]{0,40}-----|(?:(?:\s|\\n){1,9}[A-Za-z0-9+/=]{20,100})*+)"
)
KNOWN_KEY = re.compile(
    r"(?<![\w-])(?:"
    r"sk-[\w-]{20,}+|[rs]k_(?:live|test)_\w{16,}+|whsec_\w{20,}+"  # OpenAI, Anthropic, Stripe
    r"|gh[oprsu]_\w{30,}+|github_pat_\w{22,}+|gl(?:pat|ptt|rt)-[\w-]{20,}+"  # GitHub, GitLab
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)|AIza[\w-]{35}|ya29\.[\w-]{20,}+|GOCSPX-[\w-]{20,}+"  # Amazon, Google
    r"|xox[a-z]-[\w-]{10,}+|xapp-[\w-]{20,}+|SG\.[\w-]{16,}+\.[\w-]{16,}+|SK[0-9a-f]{32}(?!\w)"  # Slack, Twilio
    r"|(?:hf|gsk|npm|r8|pplx|xai|lda|nvapi)[_-][\w-]{30,}+|pypi-[\w-]{50,}+|do[opr]_v1_\w{40,}+"
    r"|[0-9]{8,10}:[\w-]{35}(?!\w)"  # Telegram
    r"|eyJ[\w-]{10,}+\.eyJ[\w-]{10,}+\.[\w-]{10,}+)",  # JSON Web Tokens
    re.ASCII,
)
TOLD_KEY = re.compile(
    r"bearer\s{1,3}(?=\S{0,200}[0-9])(?P<secret>[\w.~+/=-]{20,}+)"
    r"|(?:(?:api|access|private)[ _-]?key|token|secret)"
    r"[\"']?(?:\s{0,3}[:=]|\s{1,3}is\s)\s{0,3}[\"']?(?=\S{0,200}[0-9])(?P<named>[\w.~+/=-]{16,}+)",
    re.ASCII | re.IGNORECASE,
)
CARD_RUN = re.compile(r"(?<![0-9])[0-9](?:[ .-]?[0-9]){12,}+")
TOLD_PASSWORD = re.compile(
    r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,100}:(?P<url>[^\s/@]{1,200})@"
    rf"|(?i:{'|'.join(rf'{n}(?![a-z])' if n.isascii() else n for n in NAMES)}|mot de passe)"
    r"[^\n.!?:=：]{0,40}?(?:[:=：是は는은]|\b(?:is|was|ist|war|lautet|est|es|é)\b)\s{0,3}"
    r"(?:[\"'“‘«「](?!\[redacted\])(?P<quoted>[^\"'”’»」\n]{3,100})[\"'”’»」]"
    r"|(?<=[:=： ])(?P<alone>[!-~]{4,100})[ \t]{0,3}(?=\n|\Z)"
    r"|(?P<bare>[!-~]{4,100}))"
)
"""Of a pattern with groups, the group that matched is the secret, else all of it."""
TELLING = frozenset("0123456789@#$%^&*_+=~|<>")
"""What a password in a sentence has one of; "wrong" and "case-sensitive" have none."""
GROUPED = ((4, 4, 4, 4), (4, 4, 4, 4, 1), (4, 4, 4, 4, 2), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4))
"""How the digits of card numbers are written, if not in one."""


class Plain:
    """Keeps everything as it is: ``store.redact: null``."""

    def stored(self, value: Any) -> Any:
        return value

    def kept(self, value: Any) -> Any:
        return value


class Secrets(Plain):
    """Replaces secrets in texts: ``store.redact: secrets``."""

    def stored(self, value: Any) -> Any:
        """As `kept`; the log says how many secrets of which kind were replaced."""
        counts = Counter[str]()
        value = self.kept(value, counts)
        if counts := +counts:
            found = (f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in sorted(counts.items()))
            log.warning("redacted before storing: %s", ", ".join(found))
        return value

    def kept(self, value: Any, counts: Counter[str] | None = None, name: str = "") -> Any:
        """A text, or the texts in lists and mappings, without secrets, which are counted by kind.

        Args:
            name: "password: ", before the text of a mapping.
        """
        if isinstance(value, Mapping):
            return {key: self.kept(each, counts, self.kept(f"{key}: ")) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.kept(each, counts, name) for each in value)
        if isinstance(value, str):
            value = name + value
            for kind, pattern in _patterns(value):
                value = pattern.sub(partial(_without, kind, Counter() if counts is None else counts), value)
            value = value.removeprefix(name)
        return value


def _patterns(text: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """What to look for in a text, by what is seen at a glance."""
    folded = text.casefold()
    if "private key" in folded:
        yield PRIVATE, PRIVATE_KEY
    if LONG.search(text):
        yield from ((KEY, KNOWN_KEY), (KEY, TOLD_KEY))
    yield CARD, CARD_RUN
    if any(name in folded for name in (*NAMES, "mot de passe", "://")):
        yield PASSWORD, TOLD_PASSWORD


def _without(kind: str, counts: Counter[str], match: re.Match[str]) -> str:
    """What stands in the text instead of a match."""
    whole, group = match.group(), match.lastgroup or 0
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    if group in ("bare", "alone"):
        secret = whole[start:end].rstrip(".,;:!?)\"'")
        end = start + len(secret)
        alone = group == "alone" and whole[:start].rstrip()[-1:] in ":=："
        if len(secret) < 4 or secret == REDACTED or not (alone or TELLING & set(secret)):
            return whole
    spans = _cards(whole) if kind == CARD else [(start, end)]
    counts[kind] += len(spans)
    for start, end in reversed(spans):
        whole = whole[:start] + REDACTED + whole[end:]
    return whole


def _cards(run: str) -> list[tuple[int, int]]:
    """Where card numbers stand in a run of digits and separators: of usual length and grouping, with Luhn's check digit."""
    groups = [(match.start(), match.end()) for match in re.finditer("[0-9]+", run)]
    spans, first = list[tuple[int, int]](), 0
    while first < len(groups):
        start, end = groups[first]
        possible = run[start] in "23456" and (end - start == 4 or 13 <= end - start <= 19)
        for last in range(min(first + 5, len(groups)), first, -1) if possible else ():
            end = groups[last - 1][1]
            lengths = tuple(end - start for start, end in groups[first:last])
            usual = lengths in GROUPED if last - first > 1 else 13 <= lengths[0] <= 19
            if usual and _is_luhn(run[start:end]):
                spans.append((start, end))
                first = last - 1
                break
        first += 1
    return spans


def _is_luhn(number: str) -> bool:
    digits = [int(c) for c in number if c.isdigit()]
    doubled = [digit if place % 2 == 0 else sum(divmod(2 * digit, 10)) for place, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0 and len(set(digits)) > 1
