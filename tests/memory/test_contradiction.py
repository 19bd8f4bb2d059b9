"""Which traits contradict each other: a table of pairs, older first."""

import pytest

from ld_agent.checks.contradiction import contradicts, slot
from ld_agent.languages import ENGLISH

READING = ENGLISH.reading

CONTRADICTING = [
    ("I live in Rome.", "I moved to Oslo."),
    ("I live in Seattle.", "I have recently relocated to Denver."),
    ("I live in Rome.", "I no longer live in Rome."),
    ("I work as a nurse.", "I now work as a teacher."),
    ("I work at Google.", "I work for a small bakery now."),
    ("I am a teacher.", "I used to be a teacher."),
    ("I have two dogs.", "I have three dogs."),
    ("I have two dogs.", "I have no dogs."),
    ("I have a dog.", "I don't have a dog anymore."),
    ("I like coffee.", "I can't stand coffee."),
    ("I like coffee.", "I can’t stand coffee."),
    ("I love running.", "I hate running."),
    ("I smoke.", "I quit smoking."),
    ("I eat meat.", "I gave up meat."),
    ("I go to the gym every day.", "I stopped going to the gym."),
    ("I am single.", "I got married."),
    ("I work as a nurse.", "I am retired now."),
    ("I live in portugal.", "i moved to lisbon."),
    ("I am married.", "I am divorced."),
    ("I am 29 years old.", "I am 30 years old."),
    ("My favorite color is blue.", "My favourite color is green."),
    ("My dog is named Rex.", "My dog's name is Bruno."),
    ("我住在上海。", "我搬到了北京。"),
    ("我在医院工作。", "我现在在银行上班。"),
    ("我三十四岁。", "我今年三十五岁了。"),
    ("我最喜欢的颜色是蓝色。", "我最喜欢的颜色是绿色。"),
    ("我的狗叫饼干。", "我的狗叫豆豆。"),
    ("我有两只猫。", "我没有猫了。"),
    ("我抽烟。", "我戒烟了。"),
    ("저는 서울에 살아요.", "저는 부산으로 이사했어요."),
    ("저는 병원에서 일해요.", "저는 은행에서 일해요."),
    ("저는 서른여덟 살이에요.", "저는 서른아홉 살이에요."),
    ("우리 강아지 이름은 비스킷이에요.", "우리 강아지 이름은 초코예요."),
    ("제가 제일 좋아하는 색은 파랑이에요.", "제가 제일 좋아하는 색은 초록이에요."),
    ("저는 커피를 마셔요.", "저는 커피를 안 마셔요."),
]
COMPATIBLE = [
    ("I work as a nurse.", "I work at a hospital."),  # what one does, and where
    ("I work as a nurse.", "I also work as a bartender on weekends."),  # a second job
    ("I work at Google.", "I work at night."),
    ("I am a teacher.", "My wife is a teacher."),
    ("I moved to Boston for work.", "I live in Boston, Massachusetts."),
    ("I live in Portugal.", "I live in the country."),  # a kind of place, not a name
    ("I live in Oslo.", "I moved in with my boyfriend."),
    ("I live in Oslo.", "I used to live in Rome."),
    ("My brother lives in Oslo.", "I live in Rome."),
    ("I have a dog.", "I have a cat."),
    ("I have two dogs.", "I have a dog."),  # speaks of one of them
    ("I have no kids.", "I don't have any kids."),
    ("I like tea.", "I don't like coffee."),
    ("I can't swim.", "I want to learn to swim."),
    ("My favorite color is blue.", "My favorite food is pizza."),
    ("我有一只猫。", "我的猫叫咪咪。"),
    ("我在学弹吉他。", "我不喜欢下雨。"),
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


@pytest.mark.parametrize(("older", "newer"), CONTRADICTING + COMPATIBLE)
def test_nothing_contradicts_itself(older: str, newer: str):
    assert not contradicts(older, older, READING)
    assert not contradicts(newer, newer, READING)


@pytest.mark.parametrize(
    ("trait", "expected"),
    [
        ("I now live in Lisbon.", ("home", "lisbon")),
        ("I've just moved back to New York City last year!", ("home", "new york city")),
        ("I have three kids.", ("number of kid", "3")),
        ("I don't have any pets.", ("number of pet", "0")),
        ("My favorite kind of music is jazz.", ("favorite kind of music", "jazz")),
        ("", None),
        ("我现在住在里斯本。", ("home", "里斯本")),
        ("저는 부산으로 이사했어요.", ("home", "부산")),
        ("我在学弹吉他。", None),
        ("我住院了。", None),
        ("我的名字是小红。", ("name", "小红")),
        ("저는 결혼식에 갔어요.", None),
    ],
)
def test_what_a_trait_is_about(trait: str, expected: tuple[str, str] | None):
    assert slot(trait, READING) == expected
