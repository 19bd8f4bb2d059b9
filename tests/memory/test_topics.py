"""Topic sets with the real spaCy pipeline."""

from pathlib import Path

import pytest
import spacy

from ld_agent.config import Config
from ld_agent.errors import ConfigError, ModelError
from ld_agent.memory.topics import LONGEST, TopicExtractor


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Maya flew to Rome with her two dogs.", ("dog", "maya", "rome")),  # nouns and proper nouns
        ("mice and children in New York City", ("child", "city", "mouse", "new", "york")),  # lemmas
        ("I love ROME and rome and Rome!", ("rome",)),  # case
        ("what about maya's trip to rome?", ("maya", "rome", "trip")),  # as people type
        ("She sings loudly.", ()),
        ("", ()),
        (" \n\t ", ()),
        ("🎉😀!!! ...", ()),
    ],
)
def test_topics_of_a_text(topics: TopicExtractor, text: str, expected: tuple[str, ...]):
    assert topics.extract([text]) == [expected]


def test_the_configured_parts_of_speech_count():
    names = TopicExtractor(Config().topics.model, ("PROPN",))
    assert names.extract(["Maya walks her dog in Rome."]) == [("maya", "rome")]
    verbs = TopicExtractor(Config().topics.model, ("VERB",))
    assert verbs.extract(["Maya walks her dogs."]) == [("walk",)]
    assert TopicExtractor(Config().topics.model, ()).extract(["Maya walks."]) == [()]


def test_many_texts_keep_their_order_and_their_topics_are_sorted(topics: TopicExtractor):
    texts = ["Zebras eat grass.", "", "A violin in Norway", "The zoo has bears and apes."]
    together = topics.extract(texts)
    assert together == [topics.extract([text])[0] for text in texts]
    assert all(list(found) == sorted(set(found)) for found in together)


def test_a_hundred_kilobytes_are_read_to_the_end(topics: TopicExtractor):
    filler = "She sings and sings and sings very loudly today. "
    text = "A violin. " + filler * (110_000 // len(filler)) + "Then a penguin came."
    assert len(text) > LONGEST
    [found] = topics.extract([text])
    assert {"violin", "penguin"} <= set(found)


def test_a_word_longer_than_the_pipeline_takes_is_cut_anywhere(topics: TopicExtractor):
    assert len(topics.extract(["a" * 250_000])) == 1


def test_an_unknown_tag_names_the_known_ones():
    with pytest.raises(ConfigError, match=r"topics\.pos names 'NOUNS'.*PROPN"):
        TopicExtractor(Config().topics.model, ("NOUNS",))


def test_a_missing_pipeline_says_how_to_get_it():
    with pytest.raises(
        ModelError, match=r"'en_core_web_none'.*topics\.model.*python -m spacy download en_core_web_none"
    ):
        TopicExtractor("en_core_web_none")


def test_a_pipeline_without_lemmas_gives_the_words_themselves(tmp_path: Path):
    spacy.load(Config().topics.model, exclude=["lemmatizer", "parser", "ner", "senter"]).to_disk(tmp_path / "no_lemmas")
    without = TopicExtractor(str(tmp_path / "no_lemmas"))
    assert without.extract(["Maya feeds her dogs."]) == [("dogs", "maya")]


def test_a_pipeline_is_loaded_once_for_all_extractors(topics: TopicExtractor):
    settings = Config().topics
    assert TopicExtractor(settings.model, ("VERB",))._pipeline is TopicExtractor(settings.model)._pipeline
