"""What a reply makes up, in Chinese and Korean, by the rules of their folders."""

import pytest

from ld_agent.checks.invention import addressed, asks_what_was_told, supported
from ld_agent.checks.not_knowing import says_unknown
from ld_agent.checks.numbers import counted, numbers
from ld_agent.languages import ENGLISH
from ld_agent.memory.topics import TopicExtractor

READING = ENGLISH.reading

SHOWN = (
    "你是Sam，在和小红聊天。\n小红说：“我妈妈九十一岁了，她养了三只山羊。我的未婚妻叫碧茜，我只喝白桦汁。我没有狗。”\n"
)
SHOWN += "碧茜是海关官员。\n"
KOREAN = "당신은 Sam입니다.\n우리 강아지 이름은 비스킷이에요. 저는 부산에서 간호사로 일해요. 염소를 3마리 키워요.\n"


@pytest.mark.parametrize(
    "text",
    ["我妈妈多大年纪了？", "你还记得我的狗叫什么名字吗？", "碧茜最喜欢什么花？", "我養了幾隻山羊？", "Anna几岁了？",
     "我跟你说过我住在哪里吗？", "我是怎么认识她的？", "请告诉我我的狗叫什么。", "提醒我我的车停在哪里。",
     "우리 강아지 이름이 뭐예요?", "제 직업이 뭐예요? 기억하세요?", "제가 언제 돈을 잃었죠?"],
)  # fmt: skip
def test_questions_about_something_said(text: str):
    assert asks_what_was_told(text, READING, f"{SHOWN}Anna是老师。")


@pytest.mark.parametrize(
    "text",
    ["我应该怎么办？", "你叫什么名字？", "今天天气怎么样？", "你觉得我的狗为什么叫？", "我很累。", "我几乎没睡？",
     "제가 어떻게 해야 할까요?", "당신은 누구예요?", "오늘 뭐 했어요?", "나가는 길이 어디예요?"],
)  # fmt: skip
def test_other_questions(text: str):
    assert not asks_what_was_told(text, READING, SHOWN)


@pytest.mark.parametrize(
    ("question", "reply", "kept"),
    [
        ("我妈妈多大年纪了？", "你妈妈91岁了。", "你妈妈91岁了。"),
        ("我妈妈多大年纪了？", "你妈妈八十二岁了。", ""),
        ("我妈妈多大年纪了？", "她年纪很大了。", ""),  # no number
        ("我的未婚妻叫什么？", "你的未婚妻叫碧茜。", "你的未婚妻叫碧茜。"),  # "叫碧茜" is taken for a name
        ("我的未婚妻叫什么？", "你的未婚妻叫李碧华。", ""),
        ("我儿子叫什么名字？", "你的儿子叫小红。", ""),  # the asker's own name
        ("我养了几只山羊？", "你养了几只山羊？", ""),  # says the question again
        ("我養了幾隻山羊？", "你養了三隻山羊。", "你養了三隻山羊。"),
        ("我不喝咖啡，那喝什么？", "我只喝白桦汁。", "你只喝白桦汁。"),
        ("我有没有猫？叫什么？", "你没有养猫。", ""),  # denied by nobody
        ("我姐姐是做什么的？", "这件事你没有告诉过我。", "这件事你没有告诉过我。"),
        ("우리 강아지 이름이 뭐예요?", "강아지 이름은 비스킷이에요.", "강아지 이름은 비스킷이에요."),
        ("우리 고양이 이름이 뭐예요?", "고양이 이름은 나비예요.", ""),
        ("제가 염소를 몇 마리 키우죠?", "염소를 세 마리 키우세요.", "염소를 세 마리 키우세요."),
        ("제가 염소를 몇 마리 키우죠?", "염소를 다섯 마리 키우세요.", ""),
        ("제가 염소를 몇 마리 키우죠?", "염소를 많이 키우세요.", ""),
    ],
)
def test_only_what_is_shown_stays(question: str, reply: str, kept: str, topics: TopicExtractor):
    assert supported(reply, SHOWN + KOREAN + question, topics.extract, READING, question, ("小红", "Sam"))[0] == kept


def test_a_name_cut_off_together_with_its_verb_is_shown(topics: TopicExtractor):
    question = "我的未婚妻叫什么？"
    shown = f"碧茜是海关官员。我的未婚妻很好。\n{question}"
    assert topics.extract(["你的未婚妻叫碧茜。"]) == [("叫碧茜", "未婚妻")]
    assert supported("你的未婚妻叫碧茜。", shown, topics.extract, READING, question, ("小红", "Sam")) == (
        "你的未婚妻叫碧茜。",
        [],
    )
    assert supported("你的未婚妻叫李碧华。", shown, topics.extract, READING, question, ("小红", "Sam"))[0] == ""


def test_an_answer_in_the_askers_person_is_turned_to_them():
    assert addressed("我的船叫英格堡。", "我的船叫什么名字？", READING) == "你的船叫英格堡。"
    assert addressed("我记得你的船叫英格堡。", "我的船叫什么名字？", READING) == "我记得你的船叫英格堡。"
    assert addressed("我的船叫英格堡。", "你的船叫什么名字？", READING) == "我的船叫英格堡。"


def test_numbers_in_chinese():
    assert [value for _, value in numbers("九十一岁，一九三一年，两百块，三万五千，2岁")] == [
        "2",
        "91",
        "1931",
        "200",
        "35000",
    ]
    assert counted("我们一起去，十分好，两次，第一", READING) == [("两", "2")]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("저는 서른여덟 살이에요.", ["38"]),
        ("어머니는 아흔한 살이세요. 구십일 세입니다.", ["91", "91"]),
        ("사천오백 원, 이만 원, 만 원", ["4500", "20000", "10000"]),
        ("천구백삼십일 년", ["1931"]),
        ("한 분이 오셨어요.", ["1"]),
        ("이 사람은 열이 나요. 네, 하나도 안 추워요. 세상에!", []),
        ("네 대답은 만년필 이야기네요. 두부를 먹었어요. 이 일 때문에요.", []),
    ],
)
def test_korean_numbers_in_words(text: str, values: list[str]):
    assert [value for _, value in numbers(text)] == values
    assert [value for _, value in counted(text, READING)] == [value for value in values if value != "1"]


@pytest.mark.parametrize(
    "reply",
    ["你没跟我说过。", "你沒有告訴過我這件事。", "我不太清楚。", "无法得知。", "말씀하신 적이 없어요.", "그건 말씀 안 하셨어요.",
     "기억이 안 나요.", "I don't think you've told me."],
)  # fmt: skip
def test_not_knowing_in_every_language(reply: str):
    assert says_unknown(reply, READING)
