"""Every mechanism that asks a model, in Chinese and Korean: prompts in the language, answers in its words, no fallback."""

from datetime import timedelta

import pytest
from agent_parts import START

from ld_agent import Agent, load_config
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone

SAID = {
    "zh": ("我有一只狗，叫饼干。", "我的狗叫什么名字？"),
    "ko": ("저는 비스킷이라는 강아지를 키워요.", "우리 강아지 이름이 뭐예요?"),
}
FACT = {"zh": "User有一只狗，叫饼干。", "ko": "User는 비스킷이라는 강아지를 키운다."}
ANSWERS = {
    "zh": {
        "[首行]": f"1-2 | 狗 | {FACT['zh']}",
        "有帮助的笔记编号": "1",
        "“足够：”": "足够：1",
        "更新后的记忆": f"User：{FACT['zh']}",
        "填写下面几行": f"记住：是\n相关：无\n情境：User在谈自己的狗。\n笔记：{FACT['zh']}",
        "描述User": "User喜欢狗，性格开朗。",
        "概括其中的主要事件": FACT["zh"],
    },
    "ko": {
        "[첫 줄]": f"1-2 | 강아지 | {FACT['ko']}",
        "도움이 되는 메모 번호": "1",
        '"충분:"': "충분: 1",
        "기억을 새로 쓰세요": f"User: {FACT['ko']}",
        "항목만 채워": f"기억: 예\n관련: 없음\n상황: User는 강아지 이야기를 한다.\n메모: {FACT['ko']}",
        "User님에 대해": "User는 강아지를 좋아하고 밝다.",
        "중요한 일과 사실": FACT["ko"],
    },
}


@pytest.mark.parametrize("code", ["zh", "ko"])
@pytest.mark.parametrize("arm", ["recursive", "conditional", "memochat", "memorybank"])
def test_a_mechanism_in_another_language(arm: str, code: str):
    def memory(request: Request) -> str:
        prompt = request.messages[-1].content
        return next(answer for asked, answer in ANSWERS[code].items() if asked in prompt)

    said, question = SAID[code]
    model = ScriptedBackbone({"generator": "OK.", "extractor": "NO_TRAIT", "summarizer": FACT[code], "memory": memory})
    with Agent.from_config(load_config(arm, ["store.path=:memory:", f"language={code}"]), backbone=model) as agent:
        talk = agent.conversation("x")
        talk.respond(said, at=START)
        talk.end_session()
        reply = talk.respond(question, at=START + timedelta(days=3))
        assert talk.records
        assert not any(record.fallback for record in talk.records)
        assert not reply.notes
        assert any(FACT[code].rstrip("。.") in recalled.record.text for recalled in reply.recalled)
        assert not any(mark in record.text for record in talk.records for mark in ("Note", "Situation", "NO_TRAIT"))
