"""Relative times become the dates that they stood for; what is ambiguous stays; by hand, said on Thursday, 12 March 2026."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from ld_agent.languages import ENGLISH
from ld_agent.memory.when import aged, as_dated, dated, held
from ld_agent.types import Utterance

READING = ENGLISH.reading
AT = datetime(2026, 3, 12, 18, tzinfo=UTC)
SUNDAY = datetime(2026, 3, 15, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("I adopted a greyhound yesterday!", "I adopted a greyhound on 11 March 2026!"),
        ("Tomorrow my brother Ivo opens his cafe.", "On 13 March 2026 my brother Ivo opens his cafe."),
        ("Today is my birthday.", "12 March 2026 is my birthday."),
        ("I saw him the day before yesterday.", "I saw him on 10 March 2026."),
        ("I'm singing tonight.", "I'm singing on the evening of 12 March 2026."),
        ("I ran ten km this morning.", "I ran ten km on the morning of 12 March 2026."),
        ("Last night was great.", "The night of 11 March 2026 was great."),
        ("I've been ill since yesterday.", "I've been ill since 11 March 2026."),
        ("I married three days ago.", "I married on 9 March 2026."),
        ("We moved two weeks ago.", "We moved around 26 February 2026."),
        ("I quit ten years ago.", "I quit around 2016."),
        ("Next year we'll build.", "In 2027 we'll build."),
        ("Last summer we hiked.", "In summer 2025 we hiked."),
        ("We are moving in two weeks.", "We are moving around 26 March 2026."),
        (
            "My sister gets married in ten days, I'm nervous!",
            "My sister gets married around 22 March 2026, I'm nervous!",
        ),
        ("in three weeks im off to nagoya", "around 2 April 2026 im off to nagoya"),
        ("In two weeks.", "Around 26 March 2026."),
        ("In two weeks, my sister gets married.", "Around 26 March 2026, my sister gets married."),
        ("I have a big test in two weeks.", "I have a big test around 26 March 2026."),
        ("Two weeks from today I have my test.", "On 26 March 2026 I have my test."),
        ("It rained last week.", "It rained in the week of 2 March 2026."),
        ("This weekend we're painting.", "On the weekend of 14 March 2026 we're painting."),
        ("Last month I bought a boat.", "In February 2026 I bought a boat."),
        ("He died in June last year.", "He died in June 2025."),
        ("Since Monday I drive a tram.", "Since 9 March 2026 I drive a tram."),
        ("I broke it last Friday.", "I broke it on 6 March 2026."),
        ("I'll see her next Monday.", "I'll see her on 16 March 2026."),
        ("On Saturday I'm running a marathon.", "On 14 March 2026 I'm running a marathon."),
        ("I retired on Friday!", "I retired on 6 March 2026!"),
        ("I'm covering a shift on Saturday.", "I'm covering a shift on 14 March 2026."),
        ("I'm invited on Saturday.", "I'm invited on Saturday."),
        ("I met Anna on Saturday.", "I met Anna on 7 March 2026."),
        ("We're flying to Tallinn on 4 May.", "We're flying to Tallinn on 4 May 2026."),
        ("they operate tmrw at 8", "they operate on 13 March 2026 at 8"),
        ("fell off my bike yday", "fell off my bike on 11 March 2026"),
        ("starting over tmrw", "starting over on 13 March 2026"),
        ("gig tonite!", "gig on the evening of 12 March 2026!"),
        ("the exam is next tues", "the exam is on 17 March 2026"),
        ("im off till mon", "im off till 16 March 2026"),
        ("sold the car 2 wks ago", "sold the car around 26 February 2026"),
        ("quit smoking 3 yrs ago", "quit smoking around 2023"),
        ("昨天我领养了一只狗。", "2026年3月11日我领养了一只狗。"),
        ("我去年夏天去了日本。", "我2025年夏天去了日本。"),
        ("下周三我要考试。", "2026年3月18日我要考试。"),
        ("三天前我搬家了。", "2026年3月9日我搬家了。"),
        ("昨晚下雨了。", "2026年3月11日晚上下雨了。"),
        ("어제 강아지를 입양했어!", "2026년 3월 11일에 강아지를 입양했어!"),
        ("어제부터 아파.", "2026년 3월 11일부터 아파."),
        ("지난주 금요일에 만났어.", "2026년 3월 6일에 만났어."),
        ("작년 여름에 갔어.", "2025년 여름에 갔어."),
        ("3일 전에 결혼했어요.", "2026년 3월 9일에 결혼했어요."),
    ],
)
def test_a_relative_time_becomes_a_date(said: str, expected: str):
    assert dated(said, AT, READING) == expected


@pytest.mark.parametrize(
    "said",
    [
        "I'm getting married next Saturday!",  # the coming one, or the one after
        "Next summer we'll go to Spain.",  # this year's, or the one after
        "Last Monday I fell.",  # this week's, or the one before
        "I teach yoga on Saturday.",
        "The meeting on Saturday got cancelled.",
        "If I'm going on Saturday, I'll call.",
        "I learned it in two weeks.",
        "I haven't been to a theatre in two years.",
        "havent seen her in ten years",
        "In ten years, we never fought.",
        "In three weeks, I lost 5 kilos.",
        "It's the coldest day in twenty years.",
        "手术三天后他恢复得很好。",
        "I read two novels in four days.",
        "I can restore a clock in six weeks.",
        "More than two years ago I lived in Rome.",
        "A few days ago I had a cold.",
        "Over the last year I lost weight.",
        "My last year at school was fun.",
        "My birthday is on 4 May.",
        "I wasn't born yesterday.",
        "Kids today read.",
        "yesterday's soup",
        "We may march in May.",
        "几天前我感冒了。",
        "后天的努力很重要。",
        "그제야 알았다.",
    ],
)
def test_what_is_ambiguous_or_names_no_time_stays(said: str):
    assert dated(said, AT, READING) == said


def test_on_a_sunday_people_differ_in_which_week_is_the_next():
    assert dated("It is due next week.", SUNDAY, READING) == "It is due next week."
    assert dated("I'll sleep next weekend.", SUNDAY, READING) == "I'll sleep on the weekend of 21 March 2026."


def test_a_time_that_a_model_shortened_is_the_one_that_was_said():
    said = ["I see the dentist the day after tomorrow.", "Fine!"]
    assert dated("I see the dentist tomorrow.", AT, READING, said) == "I see the dentist on 14 March 2026."
    assert dated("I see the dentist tomorrow.", AT, READING, ["I see him tomorrow.", "I fell today."]).endswith(
        "on 13 March 2026."
    )


def test_of_several_times_none_is_guessed_and_what_nobody_said_stays():
    several = ["I see the dentist the day after tomorrow.", "I fell yesterday."]
    for said in (several, ["I see the dentist."], ["I see the dentist next Saturday."]):
        assert dated("I see the dentist tomorrow.", AT, READING, said) == "I see the dentist tomorrow."


def test_the_day_is_that_of_the_speaker():
    seoul = AT.astimezone(timezone(timedelta(hours=9)))  # 3 in the morning of the 13th
    assert dated("I did it yesterday.", seoul, READING) == "I did it on 12 March 2026."


def test_a_year_that_the_calendar_lacks_stays():
    assert dated("It was 900 years ago.", datetime(500, 1, 1, tzinfo=UTC), READING) == "It was 900 years ago."


def test_an_utterance_keeps_everything_but_its_text():
    said = Utterance("u1", "Maya", "I came yesterday.", AT, 3, "observe")
    same = Utterance("u2", "Maya", "I have a cat.", AT, 3)
    [(written, left)] = as_dated([[said, same]], READING, AT)
    assert written == Utterance("u1", "Maya", "I came on 11 March 2026.", AT, 3, "observe")
    assert left is same


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("I turned fifty today!", "I turned fifty (51 now) today!"),
        ("I turned forty-one on 8 March 2026!", "I turned forty-one (42 now) on 8 March 2026!"),
        ("I turned forty one in 2026.", "I turned forty one (42 now) in 2026."),
        ("She's forty-two.", "She's forty-two (43 now)."),
        ("My mum is seventy-three years old.", "My mum is seventy-three (74 now) years old."),
        ("The twins are 5 years old and loud.", "The twins are 5 (6 now) years old and loud."),
        ("Our Zanele is seven today, there is cake.", "Our Zanele is seven (8 now) today, there is cake."),
        ("Our Zanele is seven on 12 March 2026!", "Our Zanele is seven on 12 March 2026 (8 now)!"),
        ("The meeting is seven doors down.", "The meeting is seven doors down."),
        ("He is 34 years old", "He is 34 (35 now) years old"),
        ("I'm thirty one, lol", "I'm thirty one (32 now), lol"),
        ("I've lived here for six years.", "I've lived here for six years (7 now)."),
        ("been with them for 11 years now", "been with them for 11 years now (12 now)"),
        ("He's lived in Oslo for five years.", "He's lived in Oslo for five years (6 now)."),
        ("We haven't smoked for nine years", "We haven't smoked for nine years (10 now)"),
        ("I have a contract for three years.", "I have a contract for three years."),
        ("I had been a nurse for ten years when I quit.", "I had been a nurse for ten years when I quit."),
        ("I have a sister who lived in Rome for three years.", "I have a sister who lived in Rome for three years."),
        ("I have cooked for many years.", "I have cooked for many years."),
        ("I lived there for six years.", "I lived there for six years."),
        ("I'm two minutes late, it is ten.", "I'm two minutes late, it is ten."),
        ("When I turned 18, I moved.", "When I turned 18, I moved."),
        ("I turned 18 on 5 May 1999.", "I turned 18 on 5 May 1999."),
    ],
)
def test_an_age_moves_on_with_whole_years(said, expected):
    assert aged(said, AT, AT + timedelta(days=400), READING) == expected
    assert aged(said, AT, AT + timedelta(days=300), READING) == said


def test_the_reader_sees_one_age():
    later = AT + timedelta(days=400)
    said = [[Utterance("u1", "Maya", "I'm thirty-nine, hooray! I've lived here for six years.", AT, 3)]]
    [(read,)] = as_dated(said, READING, later, in_place=True)
    assert read.text == "I'm 40, hooray! I've lived here for six years (7 now)."
    assert "thirty-nine (40 now)" in as_dated(said, READING, later)[0][0].text
    said = [[Utterance("u1", "Maya", "I'm sixty-nine today!", AT, 3)]]
    assert as_dated(said, READING, later, in_place=True)[0][0].text == "I'm 70!"
    assert as_dated(said, READING, later)[0][0].text == "I'm sixty-nine on 12 March 2026 (70 now)!"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Our son was born on 12 March 2019.", "Our son was born on 12 March 2019 (7 now)."),
        ("Our son was born on March 13, 2019!", "Our son was born on March 13, 2019 (6 now)!"),
        (
            "She came into this world on 2 May 1930, in a storm",
            "She came into this world on 2 May 1930 (95 now), in a storm",
        ),
        ("I was born in Rome on 31 February 2001.", "I was born in Rome on 31 February 2001."),
        ("I was born in Rome. We married on 3 May 2001.", "I was born in Rome. We married on 3 May 2001."),
        ("Born 3 May 1940, died 4 June 2010.", "Born 3 May 1940, died 4 June 2010."),
        ("Grandpa was born on 3 May 1890.", "Grandpa was born on 3 May 1890."),
        ("The baby was born on 3 May 2025.", "The baby was born on 3 May 2025."),
        ("I was born on 3 May.", "I was born on 3 May."),
    ],
)
def test_who_was_born_on_a_day_is_read_with_the_age(said, expected):
    assert aged(said, AT, AT, READING) == expected


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("I adopted a greyhound yesterday.", "2026-03-11", None),
        ("I started today.", "2026-03-12", None),
        ("I am flying to Tallinn on 4 May 2026.", None, "2026-05-05"),
        ("My exam is next week.", None, "2026-03-23"),
        ("From 1 April 2026 on I work as a nurse.", "2026-04-01", None),
        ("I work nights from April 1st, 2026.", "2026-04-01", None),
        ("Starting next month I drive a tram.", "2026-04-01", None),
        ("We fly home from Bristol on 4 May 2026.", None, "2026-05-05"),
        ("从2026年4月1日起我在医院上班。", "2026-04-01", None),
        ("2026년 4월 1일부터 병원에서 일해요.", "2026-04-01", None),
        ("I lived in Rome until 2019.", None, "2020-01-01"),
        ("I broke my arm yesterday, no climbing till summer.", "2026-03-11", None),
        ("I live in Oslo since last year.", "2025-01-01", None),
        ("My birthday is on 4 May.", None, None),
        ("I was in Oslo in 2019 and in Rome in 2021.", None, None),
        ("我去年搬到了上海。", "2025-01-01", None),
    ],
)
def test_from_when_and_until_when_something_holds(text: str, start: str | None, end: str | None):
    expected = tuple(day and datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (start, end))
    assert held(text, AT, READING) == expected
