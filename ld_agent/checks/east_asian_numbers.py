"""Chinese and Korean numbers in words: "三十八", "서른여덟 살", "사천오백 원". Pure.

Most of the Korean words have other meanings: "이" is also "this", "열" a fever, "세" an age. They count as numbers where
another number word, or the word for what is counted, says so.
"""

from __future__ import annotations

import re

from ld_agent.text import HAN, HANGUL

_CHINESE = re.compile("[零〇一二两兩三四五六七八九十百千万萬]+")
_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_TIMES = {"十": 10, "百": 100, "千": 1000}

_SINO = "일이삼사오육칠팔구십백천만"
_AS_CHINESE = str.maketrans(_SINO, "一二三四五六七八九十百千万")
_TENS = {word: 10 * n for n, word in enumerate("열 스물 서른 마흔 쉰 예순 일흔 여든 아흔".split(), 1)} | {"스무": 20}
_WHOLE = {word: n for n, word in enumerate("하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉".split(), 1)}
_UNITS = _WHOLE | {"한": 1, "두": 2, "세": 3, "네": 4}
_ENDS = "(?![가-힣])|(?=[은는이가을를도의에와과만로나랑고째쯤씩동뒤후전예였입])"  # what may follow the word for what is counted
_COUNTERS = (
    "살|명|분|사람|마리|개|번|시간|시|달|주|권|잔|병|대|채|장|가지|곳|군데|켤레|그루|송이|끼|배|차례|척|벌|상자|곡|해"
)
_SINO_COUNTERS = (
    "년|개월|주일|학년|월|층|원|명|마리|개|번|권|쪽|페이지|분|초|미터|킬로|퍼센트|프로|인분|달러|유로|파운드"
)
_TEN, _UNIT, _LAST = "|".join(_TENS), "|".join(_UNITS), "|".join(_WHOLE)
_KOREAN = re.compile(
    "(?<![가-힣])(?:"
    rf"(?:(?:{_TEN})(?:{_UNIT})?|(?:{_UNIT}))(?=\s?(?:{_COUNTERS})(?:{_ENDS}))"  # 서른여덟 살, 세 마리
    rf"|(?:(?:{_TEN})(?:{_LAST})|스물|서른|마흔|예순|일흔|여든|아흔)(?:{_ENDS})"  # 서른여덟이에요
    rf"|(?:[{_SINO}]{{2,}}|[십백천만])(?=\s?(?:{_SINO_COUNTERS})(?:{_ENDS}))"  # 사천오백 원
    rf"|[{_SINO}]{{2,}}(?=\s?세(?:{_ENDS}))"  # 구십일 세
    rf"|[{_SINO}](?=\s?(?:년|개월|주일|학년)(?:{_ENDS}))"  # 삼 년
    ")"
)


def chinese_numbers(text: str) -> list[re.Match[str]]:
    """The Chinese numbers of a text."""
    return list(_CHINESE.finditer(text)) if HAN.search(text) else []


def chinese_number(word: str) -> int:
    """The value of a Chinese number: "九十一" is 91, "一九三一" 1931, "四千五百" 4500.

    >>> [chinese_number(word) for word in ("十", "二十一", "两百", "三万", "一九三一")]
    [10, 21, 200, 30000, 1931]
    """
    if not set(word) & {*_TIMES, "万", "萬"}:
        return int("".join(str(_DIGITS[character]) for character in word))
    total = part = digit = 0
    for character in word:
        if character in _DIGITS:
            digit = _DIGITS[character]
        elif character in _TIMES:
            part, digit = part + (digit or 1) * _TIMES[character], 0
        else:
            total, part, digit = (total + (part + digit or 1)) * 10_000, 0, 0
    return total + part + digit


def korean_numbers(text: str) -> list[tuple[str, int]]:
    """The Korean numbers of a text, with their values.

    >>> korean_numbers("서른여덟 살이고 염소를 세 마리 키워요. 이만 원, 삼 년 전")
    [('서른여덟', 38), ('세', 3), ('이만', 20000), ('삼', 3)]
    """
    if not HANGUL.search(text):
        return []
    return [(match.group(), _korean_number(match.group())) for match in _KOREAN.finditer(text)]


def _korean_number(word: str) -> int:
    if set(word) <= set(_SINO):
        return chinese_number(word.translate(_AS_CHINESE))
    ten = next((ten for ten in _TENS if word.startswith(ten)), "")
    unit = word.removeprefix(ten)
    return _TENS.get(ten, 0) + _UNITS.get(unit, 0)
