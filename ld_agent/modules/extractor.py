"""The persona extractor: one utterance in, its speaker's traits out, or none (LD-Agent, section 2.3).

What a model says is not what a trait is: prefixes, numbers, quotes, reasoning and examples said back are taken off, and a
sentence that shares no word with the utterance is not believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ld_agent.backbones.base import Message
from ld_agent.modules.base import Models
from ld_agent.prompts import prompt
from ld_agent.steps import Steps, run

NO_TRAIT = re.compile(
    r"\bno[\s_\-]*(?:personal(?:ity)?[\s_\-]*)?traits?\b|\bnotrait\b|^\W*(?:none|nothing|n/?a|no|null)\W*$"
    r"|\bno (?:\w+ ){0,3}(?:information|persona)\b",
    re.IGNORECASE,
)
MARKER = re.compile(
    r"(?:^|[\n.!?]\s*|\s)\W*(?:extracted |personal |the )?(?:traits?|answer|persona)\s*(?:are|is)?\s*:", re.IGNORECASE
)
PREFIX = re.compile(
    r"^(?:[-*•>\s\"'“”‘’]+|\(?\d{1,2}[.):]\s+|traits?\s*\d*\s*:\s*|(?:the speaker|speaker)\s*:\s*)+", re.IGNORECASE
)
INTERJECTION = re.compile(r"^(?:(?:yes|yeah|no|oh|well|ok|okay|haha|so)\b[,.!]?\s+)+(?=\w)", re.IGNORECASE)
SENTENCE = re.compile(r"[^.!?\n;|]+(?:[.!?](?=\w)[^.!?\n;|]+)*[.!?]*")
LONGEST_TRAIT = 25
MOST_TRAITS = 6
FUNCTION_WORDS = frozenset(
    (
        "i me my mine myself we our us you your he she it its they them their this that these those a an the and or "
        "but if of in on at to for from with by as is am are was were be been being do does did have has had having "
        "will would can could should may might not no yes yeah oh ok okay haha well so too very just also now then "
        "there here what who when where why how which some any all about"
    ).split()
)


class Extractor:
    """Extracts traits with the ``extractor`` module.

    Args:
        models: the backbones.
        prompting: "direct" or "chain_of_thought".
    """

    def __init__(self, models: Models, prompting: str = "direct") -> None:
        self._models = models
        self._prompt = prompt(f"extractor_{prompting}")

    def extract(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Extract the traits of utterances in one batch; see `steps`."""
        return run(self.steps(texts), self._models.complete)

    def steps(self, texts: Sequence[str]) -> Steps[list[tuple[str, ...]]]:
        """The same as steps, for a caller who batches further. An utterance too long for the window is read in parts.

        Raises:
            BackboneError: the model failed to answer at all.
        """
        parts = [self._parts(text) for text in texts]
        requests = [
            self._models.request("extractor", self.prompt_for(part), constant_messages=self._prompt.constant_messages)
            for own in parts
            for part in own
        ]
        completions = iter((yield requests))
        found = [[t for part in own for t in parse_traits(next(completions).text, part)] for own in parts]
        return [tuple(dict.fromkeys(own)) for own in found]

    def prompt_for(self, text: str) -> tuple[Message, ...]:
        """The prompt of an utterance that fits the window: what training renders too."""
        return self._prompt.render(text=text)

    def _parts(self, text: str) -> list[str]:
        if not text.strip():
            return []
        if self._fits(text):
            return [text]
        words = text.split()
        half = len(words) // 2
        if half == 0:
            middle = len(text) // 2
            return self._parts(text[:middle]) + self._parts(text[middle:])
        return self._parts(" ".join(words[:half])) + self._parts(" ".join(words[half:]))

    def _fits(self, text: str) -> bool:
        budget = min(self._models.prompt_budget("extractor"), LONGEST_PROMPT)
        if len(text) > 8 * budget:
            return False
        return self._models.count_tokens("extractor", self.prompt_for(text)) <= budget


LONGEST_PROMPT = 2048  # tokens: a persona fact is not found better by reading more at once


def parse_traits(answer: str, utterance: str, believe: Callable[[str, str], bool] | None = None) -> tuple[str, ...]:
    """Read the traits out of what a model said about an utterance.

    Args:
        answer: the model's text: one or several sentences, a list, a chain of thought that ends in "Traits:", or one of
            the ways of saying that there are none.
        utterance: what the traits are said to come from.
        believe: (trait, utterance) → keep it; default: `grounded`.

    Returns:
        traits as sentences that begin with a capital letter and end with a full stop, without repetitions; () for none.
    """
    markers = list(MARKER.finditer(answer))
    text = answer[markers[-1].end() :] if markers else answer
    text = text.split("\n\n")[0] if text.strip() else ""
    if NO_TRAIT.search(text.strip()) or not re.search(r"\w", text):
        return ()
    if re.search(r"\bSentence:", text):
        text = re.split(r"\bSentence:", text)[0]
    traits: list[str] = []
    for line in text.splitlines():
        for sentence in SENTENCE.findall(PREFIX.sub("", line)):
            trait = _tidied(sentence)
            if (
                trait
                and (believe or grounded)(trait, utterance)
                and trait.casefold() not in {t.casefold() for t in traits}
            ):
                traits.append(trait)
    return tuple(traits[:MOST_TRAITS])


def _tidied(sentence: str) -> str | None:
    """One sentence as a trait, or None where it cannot be one."""
    text = INTERJECTION.sub("", PREFIX.sub("", " ".join(sentence.split()))).strip(" \"'“”‘’*`-,")
    words = re.findall(r"\w+", text)
    if not 2 <= len(words) <= LONGEST_TRAIT or text.endswith("?"):
        return None
    text = text.rstrip(".!")
    return text[0].upper() + text[1:] + "."


def grounded(trait: str, utterance: str) -> bool:
    """Whether a trait shares a word that carries meaning with the utterance; word forms of one stem count as one.

    A trait without any word of Latin letters is believed: where words end is not known there.
    """
    said, stems = _stems(utterance), _stems(trait)
    return any(stem in said for stem in stems) or not re.search(r"[a-zA-Z]", trait)


def _stems(text: str) -> set[str]:
    words = re.findall(r"[^\W_]+(?:['’][^\W_]+)?", text.casefold())
    words = [re.split(r"['’]", word)[0] if not word.endswith(("n't", "n’t")) else "not" for word in words]
    return {w if w.isdigit() else w[:4] for w in words if w not in FUNCTION_WORDS and (len(w) > 2 or w.isdigit())}
