"""Languages: their folders, what is read in their words, and conversations in them."""

import re
import shutil
import textwrap
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from agent_parts import DAY, START
from test_prompts import VARIABLES

from ld_agent import Agent, load_config
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.errors import ConfigError
from ld_agent.languages import ENGLISH, detected, english_prompts, language, shipped
from ld_agent.languages.words import KEYS
from ld_agent.memory.views import VIEWS
from ld_agent.modules.extractor import parse_traits
from ld_agent.modules.replies import ReplyStream, decision
from ld_agent.running.rebuild import rebuild
from ld_agent.text import SENTENCE_END, stems_of, terms_of

READING = ENGLISH.reading

FOLDERS = Path(__file__).parents[1] / "ld_agent" / "languages"
ASKED = {
    "zh": (
        ["我的狗叫饼干，它很喜欢跑步。", "昨天股市大跌，我赔了很多钱。"],
        "我的狗叫什么名字？", "无特征。", "你是Sam",
    ),
    "ko": (
        ["우리 강아지 이름은 비스킷이에요.", "어제 주식이 떨어져서 돈을 많이 잃었어요."],
        "우리 강아지 이름이 뭐예요?", "특징 없음.", "당신은 Sam",
    ),
    "en": (
        ["My dog is called Biscuit.", "I lost a lot of money on shares."],
        "What is my dog called?", "NO_TRAIT", "You are Sam",
    ),
}  # fmt: skip


def backbone(none: str) -> ScriptedBackbone:
    def summary(request: Request) -> str:
        return next(line for line in request.messages[-1].content.splitlines() if "User" in line)

    return ScriptedBackbone({"generator": "OK.", "extractor": none, "summarizer": summary})


@pytest.mark.parametrize("code", sorted(ASKED))
@pytest.mark.parametrize("setting", ["own", "auto"])
def test_a_conversation_in_a_language(code: str, setting: str):
    said, question, none, beginning = ASKED[code]
    model = backbone(none)
    config = load_config(
        "default",
        [
            'store.path=":memory:"',
            f"language={code if setting == 'own' else setting}",
            "memory.tau=null",
            "checks.adapter=null",  # which would keep what lasts, whatever the extractor says
        ],
    )
    with Agent.from_config(config, backbone=model) as agent:
        talk, at = agent.conversation("x"), START
        for text in said:
            talk.respond(text, at=at)
            talk.end_session()
            at += 3 * DAY
        reply = talk.respond(question, at=at)
        assert reply.recalled[0].record.session == 1
        assert talk.persona("User") == []
        prompts = [r.messages[0].content for r in model.requests if r.module == "generator"]
        assert all(prompt.startswith(beginning) for prompt in prompts)
        assert language(code).ago(at - timedelta(days=6), at) in prompts[-1]


def test_auto_keeps_each_conversation_its_own_language():
    model = backbone("NO_TRAIT")
    with Agent.from_config(load_config("default", ['store.path=":memory:"', "language=auto"]), backbone=model) as agent:
        for name, text in (("a", "你好，我住在上海。"), ("b", "Hello from York."), ("a", "And now in English.")):
            agent.conversation(name).respond(text, at=START)
    begins = [r.messages[0].content[:3] for r in model.requests if r.module == "generator"]
    assert begins == ["你是S", "You", "你是S"]


def test_auto_keeps_the_language_when_a_conversation_is_reopened(tmp_path: Path):
    model = backbone("NO_TRAIT")
    config = load_config("default", [f"store.path={tmp_path / 'a.db'}", "language=auto"])
    for texts in (("!!", "Hello!", "我叫小红，我住在上海，我有一只狗。"), ("我回来了。",)):
        with Agent.from_config(config, backbone=model) as agent:
            for text in texts:
                agent.conversation("a").respond(text, at=START)
    assert {r.messages[0].content[:3] for r in model.requests if r.module == "generator"} == {"You"}


def test_auto_rebuilds_a_memory_in_the_language_of_its_conversation(tmp_path: Path):
    settings = [f"store.path={tmp_path / 'a.db'}", "language=auto", "checks.adapter=null"]
    with Agent.from_config(
        load_config("default", [*settings, "memory.views=[none]"]), backbone=backbone("无特征。")
    ) as agent:
        talk = agent.conversation("a")
        talk.respond("你好，我住在上海。", at=START)
        talk.end_session()
    model = backbone("无特征。")
    with Agent.from_config(load_config("default", [*settings, "memory.views=[events]"]), backbone=model) as agent:
        [stored] = agent.store.conversations()
        rebuild(agent, stored, taken=lambda view, sessions: None)
    [asked] = [r for r in model.requests if r.module == "summarizer"]
    assert asked.messages[0].content.startswith("你善于")


@pytest.mark.parametrize("code", shipped())
@pytest.mark.parametrize("name", sorted(english_prompts()))
def test_every_prompt_renders_in_every_language(code: str, name: str):
    name = name.removesuffix(".yaml")
    own, english = (spoken.prompt(name).render(**VARIABLES[name]) for spoken in (language(code), ENGLISH))
    assert [m.role for m in own] == [m.role for m in english]
    assert language(code).prompt(name).constant_messages == ENGLISH.prompt(name).constant_messages
    for value in ("Maya", "I have a dog."):
        assert (value in str(own)) == (value in str(english))


@pytest.mark.parametrize(
    ("code", "answer", "read"),
    [
        ("zh", "无特征。", "NO_TRAIT"),
        ("zh", "思考：他说自己。\n特征：无特征", "Thought: 他说自己。\nTraits: NO_TRAIT"),
        ("zh", "记住：是\n相关：无\n笔记：小红有一只狗。", "Remember: Yes\nRelated: None\nNote: 小红有一只狗。"),
        ("zh", "足够：1，3", "Enough: 1，3"),
        ("zh", "我没有狗。", "我没有狗。"),
        ("ko", "특징 없음.", "NO_TRAIT"),
        ("ko", "이 사람의 특징: 나는 개를 키운다.", "Traits: 나는 개를 키운다."),
        ("en", "Enough: 1, 3", "Enough: 1, 3"),
    ],
)
def test_answers_are_read_in_the_words_of_the_language(code: str, answer: str, read: str):
    assert language(code).canonical(answer) == read


@pytest.mark.parametrize(
    ("code", "said"),
    [("zh", "没有。"), ("zh", "是的。"), ("zh", "我有一个。想法：去爬山。"), ("ko", "네."), ("ko", "없습니다.")],
)
def test_a_reply_stays_in_its_own_words(code: str, said: str):
    model = ScriptedBackbone({"generator": said, "extractor": "NO_TRAIT", "summarizer": "好。"})
    with Agent.from_config(
        load_config("default", ['store.path=":memory:"', f"language={code}"]), backbone=model
    ) as agent:
        assert agent.conversation("x").respond("你好", at=START).text == said


@pytest.mark.parametrize(
    ("code", "answer", "reply", "decided"),
    [
        ("zh", "回答：太好了！\n记住：是", "太好了！", True),
        ("zh", "Reply: 太好了！\nRemember: 是", "太好了！", True),
        ("zh", "记住要带伞。\nRemember: no", "记住要带伞。", False),
        ("ko", "대답: 정말 잘됐네요!\n기억: 예", "정말 잘됐네요!", True),
    ],
)
def test_a_decision_is_read_and_not_shown(code: str, answer: str, reply: str, decided: bool):
    model = ScriptedBackbone({"generator": answer, "extractor": "NO_TRAIT", "memory": "Note: x", "summarizer": "好。"})
    settings = ['store.path=":memory:"', f"language={code}", "memory.conditional.decision=with_reply"]
    with Agent.from_config(load_config("conditional", settings), backbone=model) as agent:
        stream = agent.conversation("x").stream("我有一只狗。", at=START)
        assert "".join(stream) == reply
        assert stream.reply is not None
        assert stream.reply.text == reply
    shown: list[str] = []
    show = ReplyStream("Sam", ["小红"], shown.append, decides=True, language=language(code))
    for character in answer:
        show(character)
    assert reply.startswith("".join(shown))
    assert decision(language(code).canonical_reply(answer, decides=True)) is decided


def test_traits_end_as_sentences_of_their_script_do():
    assert parse_traits("저는 개를 키워요. 산책을 좋아해요", "저는 개를 키워요", READING) == (
        "저는 개를 키워요.",
        "산책을 좋아해요.",
    )
    assert parse_traits("我的狗叫Biscuit", "我的狗叫Biscuit", READING) == ("我的狗叫Biscuit。",)
    assert parse_traits("我有一只小狗。我每天散步。", "我领养了一只小狗", READING) == ("我有一只小狗。", "我每天散步。")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("你好，我叫Tom", "zh"),
        ("我喜欢Taylor Swift", "zh"),
        ("제 이름은 Alexander예요", "ko"),
        ("I'm 小红", "en"),
        ("My teacher 王小明老师 is nice", "en"),
        ("Hello 你", "en"),
        ("?! 123", None),
        ("مرحبا", "en"),
    ],
)
def test_the_script_tells_the_language(text: str, code: str | None):
    assert detected([text]) == code


def test_words_of_east_asian_text_are_pairs_of_characters():
    assert terms_of("我的狗叫Biscuit") == ["我的", "的狗", "狗叫", "biscuit"]
    assert terms_of("餅乾") == terms_of("饼干")
    assert stems_of("我有狗", READING) == {"我有", "有狗"}
    assert SENTENCE_END.split("我有狗。它叫饼干！真的？") == ["我有狗。", "它叫饼干！", "真的？"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDERS / "zh", tmp_path / "mine"))


def test_a_folder_of_ones_own(folder: Path):
    assert language(str(folder)).words.name == "中文"
    assert load_config("default", [f"language={folder}"]).encoder.model == "usem3"


@pytest.mark.parametrize(
    ("file", "was", "becomes", "said"),
    [
        ("words.yaml", "  week:", "  weeks:", r"words\.yaml: ago: .*lacks the key 'week'"),
        ("words.yaml", "{told}那么", "{quote}那么", r"words\.yaml: reminder: .*must have in braces: question, told"),
        ("prompts/reader.yaml", "messages:", "turns:", r"prompts/reader\.yaml: .*messages"),
        ("prompts/reader.yaml", "{{ question", "{{ enquiry", r"prompts/reader\.yaml: .*'enquiry' is not one of: asker"),
        ("prompts/reader.yaml", "role: system", "role: user", r"prompts/reader\.yaml: messages have the roles"),
        ("words.yaml", "speechless:", "speachless:", r"words\.yaml: speechless: field required"),
        ("rules.yaml", "negated:", "denied:", r"rules\.yaml: negated: field required"),
        ("rules.yaml", '"[我咱]"', '"[我咱"', r"rules\.yaml: first_person: .*is not a regular expression"),
        (
            "rules.yaml",
            "stemmer: ''",
            "stemmer: klingon",
            r"rules\.yaml: stemmer: .*'klingon' is not one of snowball's stemmers",
        ),
        ("rules.yaml", "(?P<what>", "(?P<it>", r"rules\.yaml: asks_to_forget: .*lacks the group 'what'"),
        ("dates.yaml", "weekdays:", "days_of_the_week:", r"dates\.yaml: weekdays: field required"),
        (
            "dates.yaml",
            "[year, '{year}']",
            "[century, '{year}']",
            r"dates\.yaml: patterns\.\d+\.0: input should be 'date'",
        ),
        (
            "dates.yaml",
            "[year, '{year}']",
            "[year, '{yaer}']",
            r"dates\.yaml: .*\{yaer\} is neither a list of words nor one of the parts",
        ),
        ("dates.yaml", "[year, '{year}']", "[year, '({year}']", r"dates\.yaml: .*is not a regular expression"),
        ("dates.yaml", "(?P<back>大前|[今昨前])", "明", r"dates\.yaml: .*lacks the group 'back'"),
    ],
)
def test_a_broken_file_is_named_at_load(folder: Path, file: str, was: str, becomes: str, said: str):
    path = folder / file
    path.write_text(path.read_text(encoding="utf-8").replace(was, becomes), encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        load_config("default", [f"language={folder}"])


def test_words_are_required_for_every_mechanism():
    assert set(KEYS["kinds"]) == set(VIEWS) - {"full", "none"}
    for table, keys in KEYS.items():
        assert set(getattr(ENGLISH.words, table)) == set(keys)


def test_a_missing_prompt_is_named(folder: Path):
    (folder / "prompts" / "summarizer.yaml").unlink()
    with pytest.raises(ConfigError, match=r"prompts lacks summarizer\.yaml"):
        language(f"{folder}/.")


def test_a_script_that_the_encoder_does_not_know_is_noted_once():
    model = backbone("NO_TRAIT")
    with Agent.from_config(load_config("default", ['store.path=":memory:"']), backbone=model) as agent:
        talk = agent.conversation("x")
        replies = [talk.respond(text, at=START) for text in ("🎉🎉", "Great 🎉", "…", "我住在上海。", "我有一只狗。")]
    assert [len(reply.notes) for reply in replies] == [0, 0, 0, 1, 0]
    assert "language=auto" in replies[3].notes[0]


def test_the_excerpts_of_the_docs_are_in_the_french_folder():
    root = Path(__file__).parents[1]
    words, dates = (root / "docs" / "languages.md").read_text(encoding="utf-8").split("```yaml\n")[1:]
    french = root / "data" / "samples" / "languages" / "fr"
    shown = yaml.safe_load(textwrap.dedent(words.split("```")[0]))
    assert shown.items() <= yaml.safe_load((french / "words.yaml").read_text(encoding="utf-8")).items()
    pattern = re.search(r"'(.+)'", dates.split("```")[0])
    assert pattern is not None
    assert ["date", pattern[1]] in yaml.safe_load((french / "dates.yaml").read_text(encoding="utf-8"))["patterns"]
