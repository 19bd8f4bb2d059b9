"""Periods of time that questions in Chinese, Korean and French name, by hand; asked on Thursday, 12 March 2026."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ld_agent.languages import ENGLISH, language
from ld_agent.languages.reading import Reading
from ld_agent.memory.dates import periods

READING = ENGLISH.reading

AT = datetime(2026, 3, 12, 15, tzinfo=UTC)


def days(text: str, reading: Reading = READING) -> list[tuple[str, str]]:
    return [
        (f"{datetime.fromtimestamp(p.start, UTC):%Y-%m-%d}", f"{datetime.fromtimestamp(p.end, UTC):%Y-%m-%d}")
        for p in periods(text, AT, reading)
    ]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2023年5月7日我去了哪里？", "2023-05-07", "2023-05-08"),
        ("十二月三日呢？", "2025-12-03", "2025-12-04"),
        ("去年五月我在哪儿？", "2025-05-01", "2025-06-01"),
        ("我六月份做什么工作？", "2025-06-01", "2025-07-01"),
        ("上个月我买了什么？", "2026-02-01", "2026-03-01"),
        ("上周我跟谁吃饭？", "2026-03-02", "2026-03-09"),
        ("上週三呢？", "2026-03-04", "2026-03-05"),
        ("上周末我去哪儿了？", "2026-03-07", "2026-03-09"),
        ("星期二我说了什么？", "2026-03-10", "2026-03-11"),
        ("昨天我说了什么？", "2026-03-11", "2026-03-12"),
        ("大前天呢？", "2026-03-09", "2026-03-10"),
        ("上上周我去哪儿了？", "2026-02-23", "2026-03-02"),
        ("去年夏天我在哪儿？", "2025-06-01", "2025-09-01"),
        ("2023 年 5 月我在哪儿？", "2023-05-01", "2023-06-01"),
        ("2023년 5월 7일에 어디 갔어요?", "2023-05-07", "2023-05-08"),
        ("작년 5월에 어디 있었죠?", "2025-05-01", "2025-06-01"),
        ("지난달에 뭘 샀죠?", "2026-02-01", "2026-03-01"),
        ("지난주에 누구랑 밥을 먹었죠?", "2026-03-02", "2026-03-09"),
        ("지난주 수요일에는요?", "2026-03-04", "2026-03-05"),
        ("지난 주말에 뭐 했죠?", "2026-03-07", "2026-03-09"),
        ("화요일에 뭐라고 했죠?", "2026-03-10", "2026-03-11"),
        ("어제 뭐라고 했죠?", "2026-03-11", "2026-03-12"),
        ("작년 여름에 어디 갔죠?", "2025-06-01", "2025-09-01"),
        ("지난겨울에는요?", "2025-12-01", "2026-03-01"),
        ("저번 주에 누구를 만났죠?", "2026-03-02", "2026-03-09"),
        ("사흘 전에 뭐 했죠?", "2026-03-09", "2026-03-10"),
        ("엊그제 어디 갔죠?", "2026-03-10", "2026-03-11"),
    ],
)
def test_a_period(text: str, start: str, end: str):
    assert days(text) == [(start, end)]


@pytest.mark.parametrize(
    ("text", "middle"),
    [
        ("三天前", "2026-03-09"),
        ("2주 전에", "2026-02-26"),
        ("삼 개월 전", "2025-12-12"),
        ("前几天我去哪儿了？", "2026-03-09"),
    ],
)
def test_so_long_ago_is_a_stretch_around_that_day(text: str, middle: str):
    [period] = periods(text, AT, READING)
    assert f"{datetime.fromtimestamp((period.start + period.end) / 2, UTC):%Y-%m-%d}" == middle


@pytest.mark.parametrize(
    "text",
    [
        "우리 강아지 이름이 뭐예요?",
        "十三月四十日",
        "我以前年轻的时候住在哪里？",
        "我喜欢春天的花。",
        "전화번호가 뭐죠?",
        "以前晚上我做什么？",
    ],
)
def test_what_names_no_date(text: str):
    assert days(text) == []


def test_a_year_within_chinese_is_named_once():
    assert len(periods("2023年我在哪里？", AT, READING)) == 1


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("Qu'ai-je fait le 7 mai 2023 ?", "2023-05-07", "2023-05-08"),
        ("Où étais-je en décembre ?", "2025-12-01", "2026-01-01"),
        ("l'été dernier", "2025-06-01", "2025-09-01"),
        ("la semaine dernière", "2026-03-02", "2026-03-09"),
        ("mardi dernier", "2026-03-10", "2026-03-11"),
        ("avant-hier", "2026-03-10", "2026-03-11"),
        ("il y a trois jours", "2026-03-09", "2026-03-09"),
    ],
)
def test_a_language_of_ones_own_names_its_times(text: str, start: str, end: str):
    french = language(str(Path(__file__).parents[2] / "data" / "samples" / "languages" / "fr"))
    [(began, ended)] = days(text, french.reading)
    assert (began, ended if "il y a" not in text else began) == (start, end)
