"""The periods of time that a Chinese or Korean question names ("去年五月", "지난주", "三天前"), for `ld_agent.memory.dates`.

Reckoned from the time of the question, as in English. A text is looked at by its script, whatever the configured language, since
people mix languages. Traditional and simplified characters are read alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ld_agent.memory.dates import DAY, Period, months, span

_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {
    "两": 2,
    "兩": 2,
    "几": 3,
    "幾": 3,
}
_KOREAN = {"한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9, "열": 10, "몇": 3}
_YEARS = {"今": 0, "去": 1, "前": 2, "올해": 0, "작년": 1, "지난해": 1, "재작년": 2}
_DAYS = {"今": 0, "昨": 1, "前": 2, "오늘": 0, "어제": 1, "그저께": 2, "그제": 2}
_WEEKDAYS = {character: n for n, character in enumerate("一二三四五六日")} | {"天": 6}
_WEEKDAYS |= {character: n for n, character in enumerate("월화수목금토일")}
_UNITS = {"天": 1, "日": 1, "周": 7, "週": 7, "星期": 7, "礼拜": 7, "禮拜": 7, "月": 30, "年": 365}
_UNITS |= {"일": 1, "주": 7, "주일": 7, "달": 30, "개월": 30, "년": 365}
_LAST = frozenset(("上", "지난"))

_N = r"(?:\d{1,3}|[一二三四五六七八九十两兩几幾]{1,3})"
_YEAR = r"(?:(?P<year>(?:19|20)\d\d)\s*[年년]|(?P<which>[今去前]年|올해|작년|지난해|재작년))"
_MONTH = rf"(?P<month>{_N})\s*(?:月份?|월)"
_DAY = rf"(?P<day>{_N})\s*(?:[日号號]|일)"
_ZH_WEEK = r"(?P<which>[上这這本])(?:个|個)?(?:周|週|星期|礼拜|禮拜)"
_KO_WEEK = r"(?P<which>지난|이번)\s*주"
_UNIT = r"(?P<unit>个?星期|個?星期|个?礼拜|個?禮拜|[天日周週年]|个月|個月|주일|개월|[일주달년])"


def number(text: str) -> int:
    """A number up to 99 in digits, Chinese ("二十一") or Korean ("세")."""
    if text.isdigit():
        return int(text)
    if text in _KOREAN:
        return _KOREAN[text]
    tens, ten, ones = text.rpartition("十")
    return (10 * (_DIGITS[tens] if tens else 1) if ten else 0) + (_DIGITS[ones] if ones else 0)


def _today(at: datetime) -> datetime:
    return datetime(at.year, at.month, at.day, tzinfo=UTC)


def _year_of(match: re.Match[str], at: datetime) -> int | None:
    if match["year"]:
        return int(match["year"])
    if not match["which"]:
        return None
    return at.year - _YEARS[match["which"].removesuffix("年")]


def _date(match: re.Match[str], at: datetime) -> Period:
    month, day, year = number(match["month"]), number(match["day"]), _year_of(match, at)
    date = datetime(year or at.year, month, day, tzinfo=UTC)
    return span(date if year or date <= at else date.replace(year=at.year - 1), 1)


def _month(match: re.Match[str], at: datetime) -> Period:
    month, year = number(match["month"]), _year_of(match, at)
    return months(year or at.year - (month > at.month), month)


def _year(match: re.Match[str], at: datetime) -> Period:
    return months(_year_of(match, at) or at.year, 1, 12)


def _ago(match: re.Match[str], at: datetime) -> Period:
    days = _UNITS[match["unit"].lstrip("个個")]
    middle = (at - timedelta(days=days * number(match["number"]))).timestamp()
    return Period(middle - days * DAY / 2, middle + days * DAY / 2)


def _recent_month(match: re.Match[str], at: datetime) -> Period:
    month = at.month - (match["which"] in _LAST)
    return months(at.year - (month == 0), month or 12)


def _week(match: re.Match[str], at: datetime) -> Period:
    monday = _today(at) - timedelta(days=at.weekday() + 7 * (match["which"] in _LAST))
    if match["weekend"]:
        return span(monday + timedelta(days=5), 2)
    return span(monday + timedelta(days=_WEEKDAYS[match["weekday"]]), 1) if match["weekday"] else span(monday, 7)


def _weekday(match: re.Match[str], at: datetime) -> Period:
    back = (at.weekday() - _WEEKDAYS[match["weekday"]]) % 7
    return span(_today(at) - timedelta(days=back or 7), 1)


def _near_day(match: re.Match[str], at: datetime) -> Period:
    return span(_today(at) - timedelta(days=_DAYS[match["day"]]), 1)


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Period]], ...] = tuple(
    (re.compile(pattern), resolve)
    for pattern, resolve in (
        (rf"(?:{_YEAR}\s*的?\s*)?{_MONTH}\s*{_DAY}", _date),
        (rf"(?P<number>{_N}|한|두|세|네|다섯|여섯|일곱|여덟|아홉|열|몇)\s*{_UNIT}\s*(?:之?前|以前|전)", _ago),
        (rf"(?:{_YEAR}\s*的?\s*)?(?<![个個\d])(?<!이번)(?<!지난){_MONTH}", _month),
        (_YEAR, _year),
        (r"(?P<which>[上这這本]|지난|이번)(?:(?:个|個)月|\s*달)", _recent_month),
        (rf"{_ZH_WEEK}(?:(?P<weekend>末)|(?P<weekday>[一二三四五六日天]))?", _week),
        (r"(?P<which>지난|이번)\s*(?P<weekend>주말)(?P<weekday>)", _week),
        (rf"{_KO_WEEK}(?:\s*(?P<weekday>[월화수목금토일])요일)?(?P<weekend>)", _week),
        (r"(?:周|週|星期|礼拜|禮拜)(?P<weekday>[一二三四五六日天])", _weekday),
        (r"(?P<weekday>[월화수목금토일])요일", _weekday),
        (r"(?P<day>[今昨前](?=天)|오늘|어제|그저께|그제)", _near_day),
    )
)
_SOMETHING = re.compile("[年月周週星礼禮天前년월주전오어그]|달|해|요일|작년")
"""What no text is without that names a time."""


def east_asian_periods(text: str, at: datetime) -> list[Period]:
    """The periods that a text names in Chinese or Korean, in the order of the patterns; no date in it, none.

    Args:
        at: the time of the text, aware.
    """
    periods: list[Period] = []
    if text.isascii() or not _SOMETHING.search(text):
        return periods
    for pattern, resolve in _PATTERNS:

        def taken(match: re.Match[str], resolve: Callable[[re.Match[str], datetime], Period] = resolve) -> str:
            try:
                periods.append(resolve(match, at))
            except (ValueError, OverflowError, KeyError):
                return match.group()
            return " " * len(match.group())  # one stretch of the text names one period

        text = pattern.sub(taken, text)
    return periods
