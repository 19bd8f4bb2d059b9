"""Which Chinese and Korean traits contradict each other: pairs, older first."""

from __future__ import annotations

import pytest

from ld_agent.languages import ENGLISH
from ld_agent.memory.contradiction import contradicts, slot

READING = ENGLISH.reading

CONTRADICTING = [
    ("我住在上海。", "我搬到了北京。"),
    ("我住在上海。", "我现在住在成都。"),
    ("我在医院工作。", "我现在在银行上班。"),
    ("我的职业是护士。", "我的职业是一名老师。"),
    ("我三十四岁。", "我今年三十五岁了。"),
    ("我单身。", "我结婚了。"),
    ("我最喜欢的颜色是蓝色。", "我最喜欢的颜色是绿色。"),
    ("我的狗叫饼干。", "我的狗叫豆豆。"),
    ("我有两只猫。", "我养了三只猫。"),
    ("我有两只猫。", "我没有猫了。"),
    ("我喜欢喝咖啡。", "我不喝咖啡了。"),
    ("我抽烟。", "我戒烟了。"),
    ("저는 서울에 살아요.", "저는 부산으로 이사했어요."),
    ("저는 병원에서 일해요.", "저는 은행에서 일해요."),
    ("저는 30살이에요.", "저는 31살이에요."),
    ("저는 서른여덟 살이에요.", "저는 서른아홉 살이에요."),
    ("우리 강아지 이름은 비스킷이에요.", "우리 강아지 이름은 초코예요."),
    ("제가 제일 좋아하는 색은 파랑이에요.", "제가 제일 좋아하는 색은 초록이에요."),
    ("저는 커피를 마셔요.", "저는 커피를 안 마셔요."),
    ("저는 고양이를 두 마리 키워요.", "저는 고양이를 세 마리 키워요."),
]
COMPATIBLE = [
    ("我住在上海。", "我住在上海浦东。"),
    ("我在医院工作。", "我的职业是护士。"),
    ("我有一只猫。", "我的猫叫咪咪。"),
    ("我喜欢喝咖啡。", "我喜欢喝茶。"),
    ("我的狗叫饼干。", "我的猫叫豆豆。"),
    ("我在学弹吉他。", "我不喜欢下雨。"),
    ("저는 서울에 살아요.", "저는 서울에서 일해요."),
    ("저는 커피를 마셔요.", "저는 차를 안 마셔요."),
    ("저는 커피를 마셔요.", "저는 3년 동안 커피를 마셔요."),  # "안" within a word
    ("我每天跑步。", "我差不多每天跑步。"),  # "不" within a word
]


@pytest.mark.parametrize(("older", "newer"), CONTRADICTING)
def test_a_contradiction(older: str, newer: str):
    assert contradicts(newer, older, READING)


@pytest.mark.parametrize(("older", "newer"), COMPATIBLE)
def test_no_contradiction(older: str, newer: str):
    assert not contradicts(newer, older, READING)


@pytest.mark.parametrize("trait", sorted({trait for pair in CONTRADICTING + COMPATIBLE for trait in pair}))
def test_nothing_contradicts_itself(trait: str):
    assert not contradicts(trait, trait, READING)


@pytest.mark.parametrize(
    ("trait", "expected"),
    [
        ("我现在住在里斯本。", ("home", "里斯本")),
        ("저는 부산으로 이사했어요.", ("home", "부산")),
        ("我不住在上海。", None),
        ("我在学弹吉他。", None),
        ("我住院了。", None),
        ("我叫了外卖。", None),
        ("我的名字是小红。", ("name", "小红")),
        ("저는 결혼식에 갔어요.", None),
    ],
)
def test_what_a_trait_is_about(trait: str, expected: tuple[str, str] | None):
    assert slot(trait, READING) == expected
