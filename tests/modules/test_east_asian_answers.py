"""Answers in Chinese and Korean as models write them: full-width colons, bars and commas, and no spaces between sentences."""

import pytest

from ld_agent.backbones.base import Completion
from ld_agent.languages import ENGLISH
from ld_agent.memory.views.memochat import memos_of, picked_numbers
from ld_agent.memory.views.memory_text import facts_from
from ld_agent.modules.extractor import LONGEST_BEFORE, _end_of, parse_traits
from ld_agent.modules.replies import ReplyStream, repeatable, reply_text
from ld_agent.modules.summarizer import cleaned
from ld_agent.text import whole_sentences
from ld_agent.types import Utterance, utc

READING = ENGLISH.reading


def test_a_reply_is_without_the_names_before_it_and_other_speakers_lines():
    assert reply_text("山姆：你好呀！\n玛丽：我很好。", "山姆", ["玛丽"]) == "你好呀！"
    assert reply_text("샘: 안녕하세요!", "샘", []) == "안녕하세요!"


def test_a_stream_shows_no_name_either():
    shown: list[str] = []
    stream = ReplyStream("山姆", ["玛丽"], shown.append)
    for piece in ("山", "姆", "：", "你好", "呀！", "\n玛", "丽：我"):
        stream(piece)
    assert "".join(shown) == "你好呀！"


def test_a_sentence_is_not_said_twice():
    said = repeatable(["今天见到你真的很高兴。", "好。"])
    assert reply_text("今天见到你真的很高兴。你吃饭了吗？", "山姆", [], said=said) == "你吃饭了吗？"
    assert reply_text("好。你吃饭了吗？", "山姆", [], said=said) == "好。你吃饭了吗？"


def test_facts_by_speaker():
    assert facts_from("玛丽：她住在上海。她有一只狗。\n山姆：他喜欢茶。", ["玛丽", "山姆"], READING) == {
        "玛丽": ["她住在上海。", "她有一只狗。"],
        "山姆": ["他喜欢茶。"],
    }
    assert facts_from("玛丽住在上海。", ["玛丽", "山姆"], READING) == {"玛丽": ["玛丽住在上海。"]}
    assert facts_from("无。", ["玛丽"], READING) == {}


def test_memos_and_the_choice_among_them():
    said = [
        Utterance(f"u{n}", "玛丽", text, utc("2026-01-05T10:00:00+00:00"), 1)
        for n, text in enumerate(("我有一只狗。", "它叫饼干。"))
    ]
    [memo] = memos_of(Completion("1—2｜狗｜玛丽有一只狗，它叫饼干。", 1, 1), said, READING)
    assert (memo.topic, memo.summary, memo.fallback) == ("狗", "玛丽有一只狗，它叫饼干。", False)
    assert picked_numbers("1、3", 5) == picked_numbers("1和3。", 5) == {1, 3}


def test_what_was_cut_off_ends_with_a_whole_sentence():
    assert whole_sentences("玛丽住在上海。她有一只狗。她在学") == "玛丽住在上海。她有一只狗。"
    assert whole_sentences("It is 3.5 metres long. She") == "It is 3.5 metres long."


@pytest.mark.parametrize("lead", ["以下是这次对话的总结：", "对话摘要:\n"])
def test_a_summary_is_without_its_heading(lead: str):
    assert cleaned(f"{lead}玛丽住在上海。", READING) == "玛丽住在上海。"


@pytest.mark.parametrize("answer", ["没有透露任何个人情况。", "暂无。", "특징이 드러나지 않습니다."])
def test_no_trait_in_a_models_own_words(answer: str):
    assert parse_traits(answer, answer, READING) == ()


def test_remarks_about_the_task_are_not_traits():
    assert parse_traits("這個人沒有透露任何資訊。", "這個人", READING) == ()
    assert parse_traits("这个人没有透露任何信息。", "你好", READING) == ()
    assert parse_traits("1. 我有一只狗\n2. 我住在上海", "我有一只狗，住在上海", READING) == (
        "我有一只狗。",
        "我住在上海。",
    )


def test_the_end_of_a_long_text_without_spaces():
    assert _end_of("我" * 500) == "我" * LONGEST_BEFORE
