"""The persona extractor: one utterance in, its speaker's traits out, or none (LD-Agent, section 2.3).

Prefixes, numbers, quotes, reasoning and repeated examples are stripped from a model's answer, and sentences that share
no word with the input are discarded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.languages.reading import Reading
from ld_agent.modules.base import Models
from ld_agent.modules.json_form import TEXT, TEXTS, Parts, as_examples, form_of
from ld_agent.modules.listed_traits import listed_traits
from ld_agent.steps import Steps, run
from ld_agent.text import EAST_ASIAN, HANGUL, LONGEST_READ, first_paragraph, halves, stems_of, words_of

FIRST_PERSON = re.compile(r"\A(?:(?:I|My|We|Our)\b|[^a-zA-Z]*\Z)")
CODE = re.compile(r"[{}]|</?[a-z]\w*[=/>]|\w\(\s*+(?:\w++\s*+)?=|\"\s*:|\\u[0-9a-f]{4}", re.IGNORECASE)
MARKER = re.compile(
    r"(?:^|\s)\W{0,6}(?:extracted |personal |the )?(?:traits?|facts|answer|persona)(?: about the (?:person|speaker))?"
    r"\s*+(?:are|is)?[\s*_]*+:",
    re.IGNORECASE,
)
NEXT_EXAMPLE = re.compile(
    r"\b(?:sentence\s*:|the person says\s*:)(?:.*?(?=\b(?:traits?|thought|facts about the person)\s*:)|.*)",
    re.IGNORECASE,
)
THOUGHT = re.compile(r"\bthought\s*:", re.IGNORECASE)
PREFIX = re.compile(
    r"^(?:[-*•>\s\"'“”‘’]+|\(?\d{1,2}[.):](?=[^\d\s])|\(?\d{1,2}[.):]\s+|traits?\s*+(?:\d++\s*+)?:\s*"
    r"|(?:the speaker|speaker)\s*:\s*)+",
    re.IGNORECASE,
)
INLINE_NUMBER = re.compile(r"\s\(?\d{1,2}[.)]\s+(?=[\"'“]?[A-Z])")
INTERJECTION = re.compile(
    r"^(?:(?:yes|yeah|oh|okay|ok|haha)\b[,.!]*\s+|(?:no|well|so)[,.!]+\s+)+(?=\w)", re.IGNORECASE
)  # "no" and "so" without a comma carry meaning: "no kids", "so far"
BORDER = re.compile(r"(?<=[.!?])[\"'”’)]*\s+|[。！？；;|•\n]+")
ABBREVIATION = re.compile(r"\b(?:[A-Z]|dr|mr|mrs|ms|st|prof|jr|sr|vs|etc|approx|e\.g|i\.e|a\.m|p\.m)\.$", re.IGNORECASE)
UNFINISHED = re.compile(
    r"(?<![^.!?。！？\n])[^.!?。！？\n]*+\Z"
)  # a last sentence that the bound on new tokens cut off
LONGEST_PROMPT = 1024  # tokens: longer inputs yield no more traits, and time grows quadratically
SHORTEST_PART = 64  # characters
LONGEST_BEFORE = 240  # characters of the previous utterance: its end, where a question would be
LONGEST_TRAIT, LONGEST_TRAIT_CHARACTERS = 25, 200  # words; a word may be as long as an answer
MOST_TRAITS = 6
LONGEST_ANSWER = 10_000  # characters


class Extractor:
    """Extracts traits with the ``extractor`` module.

    Args:
        models: the backbones.
        prompting: "direct", "chain_of_thought" or "brief".
        grounded_only: drop traits that share no word with the utterance or, if the prompt shows it, with the previous
            one; see `grounded`.
    """

    def __init__(self, models: Models, prompting: str = "direct", grounded_only: bool = True) -> None:
        self._models = models
        self._grounded_only = grounded_only
        self._prompt = models.language.prompt(f"extractor_{prompting}")
        self._shows_before = prompting == "brief"
        self._reasoned = prompting == "chain_of_thought"
        self._form = form_of({"thought": TEXT, "traits": TEXTS} if self._reasoned else {"traits": TEXTS})

    def extract(self, texts: Sequence[str], before: Sequence[str] | None = None) -> list[tuple[str, ...]]:
        """Extract the traits of utterances in one batch; see `steps`."""
        return run(self.steps(texts, before), self._models.complete)

    def steps(self, texts: Sequence[str], before: Sequence[str] | None = None) -> Steps[list[tuple[str, ...]]]:
        """`extract` as steps, for callers that batch further. An utterance too long for the window is split.

        Args:
            texts: (n,) the utterances.
            before: (n,) what another speaker said right before each, "" for nothing; None: nothing before any. Only the
                prompting ``brief`` shows it: "I do too" is a trait only after "I love dogs".

        Raises:
            BackboneError: the model failed to answer.
        """
        parts = [self._parts(text, answered) for text, answered in zip(texts, before or [""] * len(texts), strict=True)]
        requests = [self._request(*part) for pieces in parts for part in pieces]
        completions = iter((yield requests))
        traits = [[trait for part in pieces for trait in self._read(next(completions), *part)] for pieces in parts]
        return [tuple(dict.fromkeys(of_utterance)) for of_utterance in traits]

    def _request(self, text: str, before: str) -> Request:
        messages, form = self.prompt_for(text, before), None
        if not self._shows_before and self._models.answers_json("extractor"):
            messages, form = as_examples(messages, self._parts_of), self._form
        constant = self._prompt.constant_messages
        return self._models.request("extractor", messages, constant_messages=constant, marked=True, form=form)

    def _parts_of(self, example: str) -> Parts:
        """An example of the prompt as JSON."""
        plain, reading = self._models.language.canonical(example), self._models.language.reading
        traits = parse_traits(plain, "", reading, grounded_only=False, reasoned=self._reasoned)
        thought = THOUGHT.sub("", MARKER.split(plain)[0], count=1).strip()
        return ({"thought": thought} if self._reasoned else {}) | {"traits": list(traits)}

    def _read(self, completion: Completion, part: str, before: str) -> tuple[str, ...]:
        text = completion.text if completion.finish == "stop" else UNFINISHED.sub("", completion.text)
        listed = None if completion.parts is None else completion.parts["traits"]
        shown = f"{_end_of(before)} {part}" if self._shows_before else part
        return parse_traits(
            text if listed is None else listed,
            shown,
            self._models.language.reading,
            grounded_only=self._grounded_only,
            reasoned=self._reasoned,
        )

    def prompt_for(self, text: str, before: str = "") -> tuple[Message, ...]:
        """Render the prompt for an utterance that fits the window, with the previous one; training uses the same
        prompt."""
        return self._prompt.render(text=text, before=_end_of(before))

    def _parts(self, text: str, before: str) -> list[tuple[str, str]]:
        """Split an utterance into parts that fit; the first includes the previous utterance if there is room."""
        if not text.strip():
            return []
        if self._fits(text, before):
            return [(text, before)]
        if before and self._fits(text, ""):
            return [(text, "")]
        first, second = halves(text)
        return [*self._parts(first, before), *self._parts(second, "")]

    def _fits(self, text: str, before: str) -> bool:
        if len(text) + len(before) <= SHORTEST_PART:
            return True
        if len(text) > 16 * self._room:  # no tokenizer compresses this much: do not count what cannot fit
            return False
        used = self._models.count_tokens("extractor", self.prompt_for(text, before)) - self._overhead
        return used <= self._room

    @cached_property
    def _overhead(self) -> int:
        return self._models.count_tokens("extractor", self.prompt_for(""))

    @cached_property
    def _room(self) -> int:
        """Maximum number of tokens in an utterance.

        If the examples alone fill the window, they are cut, not the utterance.
        """
        budget = min(self._models.prompt_budget("extractor"), LONGEST_PROMPT)
        return max(budget - self._overhead, budget // 2)


def _end_of(text: str) -> str:
    """The last words of a text, `LONGEST_BEFORE` characters at most."""
    line = " ".join(text[-4 * LONGEST_BEFORE :].split())
    end = line[-LONGEST_BEFORE:]
    return line if len(line) <= LONGEST_BEFORE else end.partition(" ")[2] or end


def parse_traits(
    answer: str | Sequence[str],
    utterance: str,
    reading: Reading,
    *,
    grounded_only: bool = True,
    reasoned: bool = False,
) -> tuple[str, ...]:
    """Parse the traits in a model's answer about an utterance.

    Args:
        answer: the model's text: sentences, a list, JSON, a chain of thought that ends in "Traits:", or some way of
            saying that there are none; or the traits that it listed.
        utterance: the source of the traits.
        grounded_only: see `grounded`.
        reasoned: the answer is a chain of thought, in which only the part after "Traits:" counts.

    Returns:
        unique traits as sentences that begin with a capital letter and end with a full stop; () for none.
    """
    lines = _lines(answer, reasoned, reading) if isinstance(answer, str) else answer
    sentences = [sentence for line in lines for sentence in _sentences(PREFIX.sub("", line))]
    no_trait = reading.patterns["no_trait"]
    stated = [sentence for sentence in sentences if not no_trait.search(unicodedata.normalize("NFKC", sentence))]
    traits: dict[str, str] = {}
    for sentence in stated:
        trait = _tidied(sentence, reading)
        if trait is None or (len(stated) < len(sentences) and not FIRST_PERSON.match(trait)):
            continue  # text after "no trait" is probably an explanation
        if not grounded_only or grounded(trait, utterance, reading):
            traits.setdefault(trait.casefold(), trait)
    return tuple(traits.values())[:MOST_TRAITS]


def _lines(answer: str, reasoned: bool, reading: Reading) -> Sequence[str]:
    answer = re.sub(r"[^\S\n]+", " ", answer[:LONGEST_ANSWER])
    listed = listed_traits(answer, bare=not reasoned)
    return _introduced(answer, reasoned, reading).splitlines() if listed is None else listed


def _introduced(answer: str, reasoned: bool, reading: Reading) -> str:
    """The part of an answer that contains traits, one per line if they are numbered; "": there are none."""
    text = next((block for block in NEXT_EXAMPLE.split(answer) if re.search(r"\w", block)), "")
    markers = list(MARKER.finditer(text))
    reasoned = reasoned or THOUGHT.search(text) is not None
    if reasoned and not markers:
        return ""
    text = first_paragraph(text[markers[-1 if reasoned else 0].end() :] if markers else text)
    if reading.patterns["nothing"].fullmatch(re.sub(r"^\W+|(?<!\W)\W+$", "", unicodedata.normalize("NFKC", text))):
        return ""
    return INLINE_NUMBER.sub("\n", text) if re.match(r"\A\W*+\d{1,2}[.)]", text) else text


def _sentences(line: str) -> list[str]:
    """Split a line into sentences; the full stop of "Dr. Smith" or "U.S. citizen" ends one only before "I" or "My"."""
    sentences: list[str] = []
    for piece in (p.strip() for p in BORDER.split(line) if p.strip()):
        if sentences and ABBREVIATION.search(sentences[-1][-8:]) and not re.match(r"(?:I|My)\b", piece):
            sentences[-1] += f" {piece}"
        else:
            sentences.append(piece)
    return sentences


def _tidied(sentence: str, reading: Reading) -> str | None:
    """Return a sentence as a trait, or None if it cannot be one."""
    text = INTERJECTION.sub("", PREFIX.sub("", " ".join(sentence.split()))).strip(" \"'“”‘’*`-,:")
    if "?" in text[-3:] or len(text) > LONGEST_TRAIT_CHARACTERS:
        return None
    if reading.patterns["of_the_task"].search(text) or CODE.search(text):
        return None
    words = words_of(text)
    if len(set(words)) < 2 or len(words) > LONGEST_TRAIT:
        return None
    text = text.rstrip(".!")
    wide = EAST_ASIAN.search(text[0] + text[-1]) and not HANGUL.search(text)  # Korean has Latin full stops
    return text[0].upper() + text[1:] + ("。" if wide else ".")


@lru_cache(64)
def _said(utterance: str, reading: Reading) -> frozenset[str]:
    """The stems of an utterance, of which an answer has several traits."""
    return frozenset(stems_of(utterance, reading))


def grounded(trait: str, utterance: str, reading: Reading) -> bool:
    """Whether a trait shares a content word with the utterance; forms of one stem count as one word.

    A trait without Latin letters is accepted, because its words cannot be separated here.
    """
    said, stems = _said(utterance[:LONGEST_READ], reading), stems_of(trait, reading)
    return any(stem in said for stem in stems) or not re.search(r"[a-zA-Z]", trait)
