"""What Chinese and Korean traits say of one-valued things, and whether they deny: the rules of `ld_agent.memory.contradiction`.

By the script of the trait, not by the configured language: people mix languages. As in English, in doubt nothing contradicts.
"""

from __future__ import annotations

import re

_NOW = r"(?:现在|現在|目前|刚刚|剛剛|刚|剛|已经|已經|最近)*"
_ME = rf"^我{_NOW}"
_I = r"^(?:저는|나는|전|난)?\s*(?:지금은?|현재는?|이제는?|최근에)?\s*"
_IS = r"(?:이에요|예요|입니다|이다|이야|야|다)"
_COUNT = r"\d+|[一二两兩三四五六七八九十]"
_MEASURE = r"[只隻个個条條头頭匹辆輛台臺位]"
SLOTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("home", rf"{_ME}(?:住在|住|搬到了?|搬去了?|定居在|定居于)(?P<value>[^，,。]+)"),
        ("work as", rf"^我{_NOW}的?(?:职业|職業|工作)是(?:一[名位个個])?(?P<value>[^，,。]+)"),
        ("work as", rf"{_ME}(?:当|當)(?P<value>[^，,。的过過]+?)了?$"),
        ("work at", rf"{_ME}在(?P<value>[^，,。]+?)(?:工作|上班)$"),
        ("name", r"^我(?:的名字)?(?:叫|是叫)(?P<value>[^，,。]+)$"),
        ("age", rf"^我{_NOW}(?:今年|今年是)?(?P<value>\d{{1,3}}|[一二三四五六七八九十百]+)[岁歲]了?$"),
        ("marriage", rf"{_ME}(?P<value>单身|單身|已婚|结婚|結婚|离婚|離婚|订婚|訂婚|丧偶|喪偶)了?$"),
        ("favorite {of}", r"^我最喜[欢歡]的(?P<of>[^，,。是]{1,8})是(?P<value>[^，,。]+)"),
        ("name of my {of}", r"^我(?:的|家的?)(?P<of>[^，,。叫]{1,4}?)(?:的名字)?(?:叫|名叫)(?P<value>[^，,。]+)$"),
        ("number of {of}", rf"{_ME}(?:有|养了?|養了?)(?P<value>{_COUNT}){_MEASURE}(?P<of>[^，,。]{{1,4}})$"),
        ("number of {of}", rf"{_ME}(?P<none>没有|沒有|没养|沒養|不再养|不再養)(?P<of>[^，,。了]{{1,4}})了?$"),
        ("home", rf"{_I}(?P<value>\S+?)에서?\s*(?:산다|살아요|살고 있\S*|삽니다|살아)$"),
        ("home", rf"{_I}(?P<value>\S+?)(?:으로|로)\s*이사\S*(?:\s\S+)?$"),
        ("work at", rf"{_I}(?P<value>\S+?)에서\s*(?:일한다|일해요|일하고 있\S*|일합니다|근무\S*)$"),
        ("work as", rf"{_I}(?P<value>\S+?)(?:으로|로)\s*(?:일한다|일해요|일하고 있\S*|일합니다|근무\S*)$"),
        ("name", rf"^(?:내|제) 이름은 (?P<value>\S+?){_IS}$"),
        ("age", rf"{_I}(?P<value>\d{{1,3}})\s*[살세]{_IS}?$"),
        ("marriage", rf"{_I}(?P<value>미혼|기혼|결혼|이혼|약혼)\S*(?:\s\S+)?$"),
        ("favorite {of}", rf"^(?:내가|제가)?\s*(?:가장|제일) 좋아하는 (?P<of>\S+?)[은는] (?P<value>.+?){_IS}$"),
        ("name of my {of}", rf"^(?:우리|내|제) (?P<of>\S+?)(?:의)? 이름은 (?P<value>\S+?){_IS}$"),
    )
)
NEGATION = re.compile(
    "不(?!过|過|但|同|错|錯)|没(?!事)|沒(?!事)|别再|戒|辞掉|辭掉|放弃|放棄|停止|讨厌|討厭|以前|曾经|曾經"
    "|않|없|아니|못\\s|안\\s|싫|그만|끊었|예전"
)
_EMPTY = re.compile(
    "[我的了是在有着過过很最也都就再不没沒戒]|[抽吸](?=[烟煙])|以前|曾经|曾經|现在|現在|喜欢|喜歡|讨厌|討厭|放弃|放棄|停止"
    "|않\\S*|없\\S*|아니\\S*|싫\\S*|좋아\\S*|그만\\S*|끊\\S*|예전에?|저는|나는|[\\W_]"
)
"""What says nothing of the thing itself: pronouns, particles, liking and its opposite."""
_NUMBERS = {character: str(n) for n, character in enumerate("零一二三四五六七八九十")} | {"两": "2", "兩": "2"}
_PLACE = re.compile("(?:附近|市|城|的家|那边|那邊)$")


def slot(trait: str) -> tuple[str, str] | None:
    """The one-valued thing that a trait is about and its value; None: no such thing.

    >>> slot("我现在住在里斯本。")
    ('home', '里斯本')
    """
    text = trait.strip().rstrip("。.!！ ")
    for name, pattern in SLOTS:
        if not (match := pattern.match(text)):
            continue
        parts = match.groupdict()
        name = name.format(of=parts.get("of") or "")
        if name.startswith("number"):
            value = "0" if parts.get("none") else parts["value"]
            return name, _NUMBERS.get(value, value)
        if negated(text):
            return None
        value = re.sub("了$", "", parts["value"])
        return name, _PLACE.sub("", value) if name == "home" else value
    return None


def agree(newer: str, older: str) -> bool:
    """Whether one value says no more than the other: "上海浦东" is still "上海"."""
    return newer == older or (not newer.isdigit() and not older.isdigit() and (newer in older or older in newer))


def negated(trait: str) -> bool:
    """Whether a trait denies, ends or dislikes what it is about; two negations undo each other."""
    return len(NEGATION.findall(trait)) % 2 == 1


def content(trait: str) -> set[str]:
    """Pairs of the characters that say what a trait is about; a single character where there is only one."""
    runs = [run for run in _EMPTY.sub(" ", trait).split() if run]
    return {run[n : n + 2] for run in runs for n in range(max(len(run) - 1, 1))}
