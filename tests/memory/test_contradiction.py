"""Which traits contradict each other: a table of pairs, older first."""

from __future__ import annotations

import pytest

from ld_agent.checks.contradiction import contradicts, differ, negated, same_slot, slot
from ld_agent.languages import ENGLISH

READING = ENGLISH.reading

CONTRADICTING = [
    ("I live in Rome.", "I moved to Oslo."),
    ("I live in Portland, Oregon.", "I just moved to Chicago."),
    ("I'm living in Rome.", "I've moved to Oslo."),
    ("I live in Seattle.", "I have recently relocated to Denver."),
    ("I live in Rome.", "I no longer live in Rome."),
    ("I work as a nurse.", "I now work as a teacher."),
    ("I work as a waiter.", "I got a job as a chef."),
    ("I work at Google.", "I work for a small bakery now."),
    ("I am a teacher.", "I used to be a teacher."),
    ("I am a teacher.", "I quit teaching."),
    ("I am a student.", "I am not a student anymore."),
    ("I have two dogs.", "I have three dogs."),
    ("I have a dog.", "I have 2 dogs."),
    ("I have two dogs.", "I have no dogs."),
    ("I have no cats.", "I have a cat."),
    ("I have a dog.", "I don't have a dog anymore."),
    ("I own a car.", "I no longer own a car."),
    ("I like coffee.", "I can't stand coffee."),
    ("I like coffee.", "I can’t stand coffee."),
    ("I love running.", "I hate running."),
    ("I hate coffee.", "I used to hate coffee."),
    ("I smoke.", "I quit smoking."),
    ("I smoke.", "I don't smoke anymore."),
    ("I eat meat.", "I gave up meat."),
    ("I go to the gym every day.", "I stopped going to the gym."),
    ("I am single.", "I got married."),
    ("I am a widow.", "I got married again."),
    ("I am married.", "I'm a widower."),
    ("I work as a nurse.", "I am retired now."),
    ("I live in Portugal.", "I moved to The Hague."),
    ("I live in portugal.", "i moved to lisbon."),
    ("I am engaged.", "I just got married."),
    ("I am married.", "I am divorced."),
    ("I am 29 years old.", "I am 30 years old."),
    ("I am 41.", "I am 42 years old."),
    ("My favorite color is blue.", "My favourite color is green."),
    ("My dog is named Rex.", "My dog's name is Bruno."),
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
    ("I work as a nurse.", "I work at a hospital."),  # what one does, and where
    ("I work as a nurse.", "I also work as a bartender on weekends."),  # a second job
    ("I work as a nurse in Rome.", "I work as a nurse at a big hospital."),
    ("I work for a law firm.", "I work for long hours."),
    ("I work at Google.", "I work at night."),
    ("I am a teacher.", "My wife is a teacher."),
    ("I am not a teacher.", "I am a nurse."),
    ("I live in Rome.", "I live in Rome with my wife."),
    ("I live in Rome, Italy.", "I moved to Rome two years ago."),
    ("I moved to Boston for work.", "I live in Boston, Massachusetts."),
    ("I live in Miami.", "I live near the beach."),
    ("I live in Portugal.", "I live in the country."),  # a kind of place, not a name
    ("I live in the suburbs.", "I live in Boston."),
    ("I am a widow.", "I am widowed."),
    ("I live in Berlin.", "I live in a house with a garden."),
    ("I live in Oslo.", "I moved in with my boyfriend."),
    ("I live in Oslo.", "I used to live in Rome."),
    ("I used to live in Rome.", "I live in Oslo."),
    ("My brother lives in Oslo.", "I live in Rome."),
    ("I live in Texas.", "I grew up in Texas."),
    ("I have a dog.", "I have a cat."),
    ("I have two dogs.", "I have two cats."),
    ("I have two dogs.", "I have a dog."),  # speaks of one of them
    ("I have a dog.", "I don't like dogs."),
    ("I have no kids.", "I don't have any kids."),
    ("I like tea.", "I don't like coffee."),
    ("I like tea.", "I like coffee."),
    ("I don't smoke.", "I never smoke."),
    ("I can't swim.", "I want to learn to swim."),
    ("I am married.", "I am engaged in politics."),
    ("I am used to cold weather.", "I love cold weather."),
    ("I can't live without coffee.", "I like coffee."),
    ("My favorite color is blue.", "My favorite food is pizza."),
    ("My name is Maya.", "I am called Maya."),
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
        ("I have a dog", ("number of dog", "at least 1")),
        ("I don't have any pets.", ("number of pet", "0")),
        ("My favorite kind of music is jazz.", ("favorite kind of music", "jazz")),
        ("I love jazz.", None),
        ("", None),
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


def test_two_homes_are_one_topic_however_they_are_worded():
    assert same_slot("I live in Rome.", "I've relocated to Oslo.", READING)
    assert not same_slot("I live in Rome.", "I work at Oslo University.", READING)
    assert not same_slot("I like tea.", "I like tea.", READING)


@pytest.mark.parametrize(
    ("trait", "expected"),
    [
        ("I don't smoke anymore.", True),
        ("I no longer hate coffee.", False),
        ("I never stopped loving him.", False),
        ("I used to play chess.", True),
        ("I am used to the cold.", False),
        ("I love chess.", False),
    ],
)
def test_negation_counts_its_words(trait: str, expected: bool):
    assert negated(trait, READING) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("I was born in 1990.", "I was born in 1991.", True),
        ("I have two kids in school.", "I have three kids in school.", True),
        ("I have 2 kids in school.", "I have two kids in school.", False),
        ("I like tea.", "I don't like tea.", True),
        ("I like tea.", "I enjoy tea.", False),
    ],
)
def test_numbers_and_polarity_keep_near_traits_apart(a: str, b: str, expected: bool):
    assert differ(a, b, READING) is expected
