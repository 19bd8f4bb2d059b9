"""Every metric, checked against a published or hand-computed value."""

from __future__ import annotations

import math

import pytest

from ld_agent.evaluation import metrics

# The example of NLTK's documentation, whose values are BLEU 0.5046 and METEOR 0.6944.
OBEYS = "It is a guide to action which ensures that the military always obeys the commands of the party"
GUIDES = (
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
)


def test_bleu_matches_the_nltk_documentation():
    assert metrics.bleu([OBEYS], [GUIDES])["bleu_4"].overall == pytest.approx(0.5045666840058485)


def test_bleu_clips_counts_as_papineni_et_al():
    assert metrics.bleu(["the the the the the the the"], [["The cat is on the mat"]])[
        "bleu_1"
    ].overall == pytest.approx(2 / 7)


def test_bleu_is_cumulative_brief_and_unsmoothed():
    found = metrics.bleu(["a b c d"], [["a b x d e"]])  # precisions 3/4, 1/3, 0, 0 and brevity exp(1 - 5/4)
    brevity = math.exp(-0.25)
    assert found["bleu_1"].overall == pytest.approx(brevity * 0.75)
    assert found["bleu_2"].overall == pytest.approx(brevity * math.sqrt(0.75 / 3))
    assert (found["bleu_3"].overall, found["bleu_4"].overall) == (0.0, 0.0)


def test_bleu_takes_the_closest_reference_length_and_the_lower_of_two():
    # Lengths 3 and 5 are as close to 4: the shorter counts, so there is no brevity penalty.
    assert metrics.bleu(["a b c d"], [["a b c d e", "a b c"]], [1])["bleu_1"].overall == pytest.approx(1.0)
    assert metrics.bleu(["a b c d"], [["a b c d e"]], [1])["bleu_1"].overall == pytest.approx(math.exp(-0.25))


def test_bleu_is_a_corpus_metric_rather_than_a_mean():
    # 1 of 1 and 1 of 3 unigrams: 2 of 4 together, where the mean would be 2/3.
    assert metrics.bleu(["a", "b x y"], [["a"], ["b p q"]], [1])["bleu_1"].overall == pytest.approx(0.5)


def test_rouge_l_matches_lin():
    reference = [["police killed the gunman"]]
    assert metrics.rouge(["police kill the gunman"], reference)["rouge_l"].overall == pytest.approx(3 / 4)
    assert metrics.rouge(["the gunman kill police"], reference)["rouge_l"].overall == pytest.approx(2 / 4)
    assert metrics.rouge(["the gunman police killed"], reference)["rouge_l"].overall == pytest.approx(2 / 4)


def test_rouge_matches_its_documentation():
    found = metrics.rouge(["The quick brown dog jumps on the log."], [["The quick brown fox jumps over the lazy dog"]])
    assert found["rouge_1"].overall == pytest.approx(2 * 0.75 * (2 / 3) / (0.75 + 2 / 3))
    assert found["rouge_l"].overall == pytest.approx(2 * 0.625 * (5 / 9) / (0.625 + 5 / 9))
    assert found["rouge_2"].overall == pytest.approx(2 * 2 / (7 + 8))


def test_rouge_counts_the_best_reference_and_stems_only_if_asked():
    references = [["nothing alike", "police killed the gunman"]]
    assert metrics.rouge(["police kills the gunman"], references)["rouge_1"].overall == pytest.approx(3 / 4)
    assert metrics.rouge(["police kills the gunman"], references, stem=True)["rouge_1"].overall == pytest.approx(1.0)


def test_rouge_supports_other_scripts():
    assert metrics.rouge(["저는 개를 좋아해요"], [["저는 개를 좋아해요"]])["rouge_l"].overall == pytest.approx(1.0)


def test_no_trait_matches_no_trait_perfectly():
    assert metrics.rouge(["NO_TRAIT"], [["NO_TRAIT"]])["rouge_l"].overall == 1.0
    assert metrics.rouge(["NO_TRAIT"], [["I have no dog."]])["rouge_l"].overall == 0.0


def test_meteor_matches_the_nltk_documentation():
    assert metrics.meteor([OBEYS], [GUIDES]).overall == pytest.approx(0.6944, abs=5e-5)


def test_meteor_matches_stems_and_counts_chunks():
    assert metrics.meteor(["she walks home"], [["she walked home"]]).overall == pytest.approx(1 - 0.5 / 27)
    assert metrics.meteor(["home she"], [["she home"]]).overall == pytest.approx(1 - 0.5)  # two chunks of two matches


def test_token_f1_compares_bags_of_words():
    # 2 of 3 words said are wanted, 2 of 4 wanted words are said; a word counts as often as it stands on both sides.
    assert metrics.token_f1(["Dogs, dogs run"], [["dogs run in parks"]]).overall == pytest.approx(2 * 2 / (3 + 4))
    assert metrics.token_f1(["", "cats"], [["dogs"], ["Cats!"]]).overall == pytest.approx(0.5)


def test_distinct_counts_over_the_whole_corpus():
    assert metrics.distinct(["a b a b"], 1) == 2 / 4
    assert metrics.distinct(["a b a b"], 2) == 2 / 3
    assert metrics.distinct(["a b", "a b"], 2) == 1 / 2
    assert metrics.distinct([""], 1) == 0.0


def test_accuracy_and_perplexity_by_hand():
    assert metrics.accuracy([True, True, False, False], [True, False, False, True]).overall == 0.5
    # Two tokens of probability 1/4 and two of 1/16: the geometric mean is 1/8.
    assert metrics.perplexity([2 * math.log(4), 2 * math.log(16)], [2, 2]).overall == pytest.approx(8.0)


def test_a_restricted_measure_counts_only_its_part():
    whole = metrics.rouge(["police", "x"], [["police"], ["y"]])["rouge_l"]
    assert whole.where([True, False]).overall == 1.0
    assert math.isnan(whole.where([False, False]).overall)
    assert math.isnan(metrics.bleu(["a"], [["a"]])["bleu_1"].where([False]).overall)


def test_empty_predictions_count_as_wrong():
    assert metrics.bleu([""], [["a b"]])["bleu_1"].overall == 0.0
    assert metrics.rouge([""], [["a b"]])["rouge_l"].overall == 0.0
    assert metrics.meteor([""], [["a b"]]).overall == 0.0


def test_chinese_characters_are_words_of_bleu():
    assert metrics.bleu(["我住在上海。"], [["我住在上海。"]])["bleu_4"].overall == pytest.approx(1.0)
    found = metrics.bleu(["我住在北京"], [["我住在上海"]])  # 3 of 5 characters, 2 of 4 pairs
    assert found["bleu_1"].overall == pytest.approx(0.6)
    assert found["bleu_2"].overall == pytest.approx(math.sqrt(0.6 * 0.5))
    assert metrics.token_f1(["我住在北京"], [["我住在上海"]]).overall == pytest.approx(0.6)
