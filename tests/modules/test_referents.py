"""Whom a trait is about: names and people that an extractor loses."""

from __future__ import annotations

import pytest

from ld_agent.checks.referents import referring
from ld_agent.languages import ENGLISH

READING = ENGLISH.reading


@pytest.mark.parametrize(
    ("utterance", "trait", "kept"),
    [
        ("My husband Tom teaches maths.", "I have a husband who teaches maths.", "I have a husband named Tom who teaches maths."),
        ("My sister Kate is a nurse and works nights.", "My sister is a nurse.", "My sister Kate is a nurse."),
        ("My husband Tom is off. He teaches maths.", "He teaches maths.", "My husband Tom teaches maths."),
        ("My husband's name is Tom. His car broke down.", "His car broke down.", "My husband Tom's car broke down."),
        ("My wife just started at the library.", "I work at a library.", None),
        ("My wife is a model.", "I am a model.", None),
        ("Yes! My son is in junior high and I let him watch.", "I am in junior high.", None),
        ("My dad works hard and drives a truck, so I cook.", "I drive a truck.", None),
        ("My wife and I work at the library.", "I work at a library.", "I work at a library."),
        ("Both me and my friend are vegans.", "I am a vegan.", "I am a vegan."),
        ("My dog is a poodle.", "I have a poodle.", "I have a poodle."),
        ("My son plays chess, and I love it.", "I love chess.", "I love chess."),
        ("My brother Ben and my sister Kate moved.", "He moved.", "He moved."),  # which of them is not said
        ("My sister Kate is a nurse.", "My sister Kate is a nurse.", "My sister Kate is a nurse."),
        ("My brother I saw yesterday.", "My brother came.", "My brother came."),
        ("I like tea.", "I like tea.", "I like tea."),
        ("我丈夫教数学。", "我丈夫教数学。", "我丈夫教数学。"),
        ("我姐姐叫小丽，她是护士。", "我姐姐是护士。", "我姐姐小丽是护士。"),
        ("我丈夫叫老王。他教数学。", "他教数学。", "我丈夫老王教数学。"),
        ("我丈夫叫老王。他的车坏了。", "他的车坏了。", "我丈夫老王的车坏了。"),
        ("我太太在图书馆上班。", "我在图书馆上班。", None),
        ("我和太太都在图书馆上班。", "我在图书馆上班。", "我在图书馆上班。"),
        ("我的狗叫什么来着？", "我的狗很大。", "我的狗很大。"),
        ("우리 언니 이름은 수진이에요. 간호사예요.", "우리 언니는 간호사예요.", "우리 수진 언니는 간호사예요."),
        ("제 아내는 도서관에서 일해요.", "저는 도서관에서 일해요.", None),
        ("저는 도서관에서 일해요. 아내는 쉬어요.", "저는 도서관에서 일해요.", "저는 도서관에서 일해요."),
    ],
)  # fmt: skip
def test_a_trait_says_whom_it_is_about(utterance: str, trait: str, kept: str | None):
    assert referring(trait, utterance, READING) == kept
