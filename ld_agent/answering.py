"""Answer one utterance: generate a reply or, if it asks for what was told, one that what was said supports.

Asked "Which city do I live in?", a small model may say that it was not told although its prompt shows "I moved to Oslo.", or
make up a city. So the reader, where there is one, looks for the answer in one passage after the other, and the learned check
judges every answer; then the question is asked again with the most relevant line before it, or the line is quoted. Without a
check, the model's answer stands. Knows no store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ld_agent.backbones.base import Completion
from ld_agent.checks.changes import ended_since
from ld_agent.checks.kept import asks_for_memory, deciding, unquoted
from ld_agent.checks.learned import StatementCheck
from ld_agent.checks.statements import asks, asks_of, only_denies
from ld_agent.errors import BackboneError
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.evidence import Evidence, as_meant
from ld_agent.memory.quotes import worths
from ld_agent.modules.generator import Generator
from ld_agent.modules.reader import (
    Reader,
    about_then,
    agreed,
    answer_in,
    as_then,
    holding,
    read_in,
    source_of,
    timely,
)
from ld_agent.modules.replies import only_repeats, reply_text
from ld_agent.modules.situation import Prompted, Situation, only_about, with_results
from ld_agent.steps import Steps
from ld_agent.text import LONGEST_READ, whole_sentences
from ld_agent.types import SAID, ReplyOptions, Utterance

Hear = Callable[[str], None]

BEARING = 0.65
"""Minimum worth (`memory.quotes.worths`) of the user's line for a denial to be doubted: the best line has it in 108 of 190
questions about what was said, in 87 with the answer, and in 9 of 74 about what was not (`data/samples/questions.jsonl`)."""
QUOTED = "the model denied something the user may have said; their words are quoted instead"
UNDECIDED = "nothing that was said decides it"
REPEATED = "the model only repeated what had been said; it was asked again"
NO_COMPLETION = Completion("", 0, 0)
LONGEST_QUOTE = 300  # characters
TRAITS_READ = 3  # in a passage for the reader, at most


@dataclass(frozen=True, slots=True)
class Answer:
    """A checked answer, including the model's decision if it gave one.

    Attributes:
        completion: the model's last answer as generated.
        notes: what was left out, and whether the model was asked twice.
    """

    text: str
    completion: Completion
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answering:
    """Generates and checks the answers of one agent.

    Args:
        grounded: check answers against what the user said (``modules.generator.grounded``).
        encode: texts → (n, dimension) unit vectors.
        reader: looks for the answer in passages; None: the generator answers alone.
        passages: maximum number that it reads, besides one of traits.
        check: judges whether a passage supports an answer; None: no answer is checked.
        seen: collects every completion of the model.
    """

    generator: Generator
    encode: Callable[[Sequence[str]], Vectors]
    grounded: bool
    reader: Reader | None = None
    passages: int = 4
    check: StatementCheck | None = None
    seen: list[Completion] = field(default_factory=list)

    def steps(
        self,
        situation: Situation,
        prompted: Prompted,
        options: ReplyOptions | None = None,
        listen: Callable[[], Hear | None] = lambda: None,
        said: Collection[str] | None = None,
    ) -> Steps[Answer]:
        """Answer a rendered situation.

        Args:
            listen: makes what hears the pieces of one answer as they are generated; an answer that is checked arrives
                whole, after the check.
            said: sentences not to say again (`repeatable`): an answer of nothing else is asked for once more.
        """
        answer = yield from self._read_in_results(situation)
        if answer is None:
            if self.check is None or not situation.asked:
                return (yield from self._unrepeated(situation, prompted, options, listen, said))
            factual = replace(options or ReplyOptions(), temperature=0.0)  # what was told has one answer
            answer = yield from self._checked(self.check, situation, prompted, factual)
        if options is not None and options.max_new_tokens is not None:
            answer = self._shortened(answer, options.max_new_tokens)
        if answer.text and (hear := listen()) is not None:
            hear(answer.text)
        return answer

    def checks(self, situation: Situation) -> bool:
        """Whether the answer to a question about what was told is checked against what the user said."""
        return self.grounded and only_memory_answers(situation)

    def asks(self, heard: str, people: Collection[str], reading: Reading) -> bool:
        """Whether an utterance asks for what was told before: as far as the check knows, or about ``people`` by name; not after
        some pages."""
        if self.check is None or len(heard) > LONGEST_READ:
            return False
        return _asks_whether(heard, reading) or asks_of(people, heard, reading) or asks_for_memory(self.check, heard)

    def _unrepeated(
        self,
        situation: Situation,
        prompted: Prompted,
        options: ReplyOptions | None,
        listen: Callable[[], Hear | None],
        said: Collection[str] | None,
    ) -> Steps[Answer]:
        """The generator's answer, or a second one in other words, if the first says nothing new and the second does."""

        def reply(completion: Completion) -> str:
            return reply_text(completion.text, situation.agent, situation.people, decides=situation.decides)

        first = yield from self._completion(prompted, situation, options, listen())
        if said and only_repeats(reply(first), said):
            try:
                second = yield from self._completion(prompted, situation, options, listen(), again=True)
            except BackboneError as exc:
                return Answer(_whole(first.text, first.finish), first, (f"asked again without success: {exc}",))
            if reply(second) and not only_repeats(reply(second), said):
                return Answer(_whole(second.text, second.finish), second, (REPEATED,))
        return Answer(first.text if situation.passed.formatted else _whole(first.text, first.finish), first)

    def _completion(
        self,
        prompted: Prompted,
        situation: Situation,
        options: ReplyOptions | None,
        hear: Hear | None = None,
        again: bool = False,
    ) -> Steps[Completion]:
        decides, asked = situation.decides, situation.asked
        request = self.generator.request(prompted.messages, hear, decides=decides, asked=asked, options=options)
        [completion] = yield [self.generator.reworded(request) if again else request]
        self.seen.append(completion)
        return completion

    def _checked(
        self, check: StatementCheck, situation: Situation, prompted: Prompted, options: ReplyOptions
    ) -> Steps[Answer]:
        """An answer that what was said supports: read, generated, generated again, or a quote; or that it was not told."""
        if situation.about:
            situation = only_about(situation.about, situation)
            prompted = self.generator.prompt_for(situation)
        evidence, failed = self._evidence(check, situation), list[str]()
        read = self._whether(evidence)
        if read is None:
            read = yield from self._read(evidence, failed)
        if read is not None and not situation.decides:
            return read
        completion = yield from self._completion(prompted, situation, options)
        if read is not None:
            return replace(read, completion=completion)
        answer = yield from self._doubted(evidence, completion, options)
        return replace(answer, notes=(*failed, *answer.notes))

    def _shortened(self, answer: Answer, most: int) -> Answer:
        """The answer within the tokens that the caller allows; what was read or quoted may have more."""
        text = self.generator.beginning(answer.text, most)
        if text == answer.text:
            return answer
        return replace(answer, text=text, completion=replace(answer.completion, finish="length"))

    def _doubted(self, evidence: Evidence, completion: Completion, options: ReplyOptions) -> Steps[Answer]:
        """The generator's answer if what was said supports it, or else what is answered again, or quoted."""
        situation, text = evidence.situation, _reply(completion.text, completion.finish, evidence.situation)
        answer = Answer(text, completion)
        if not completion.text or completion.calls or evidence.support(text):
            return answer
        words, told = situation.language.words, self._said_by_user(situation)
        if told:
            reminded = self.generator.prompt_for(_reminded(situation, told[0].text))
            again = yield from self._completion(reminded, situation, options)
            second = _reply(again.text, again.finish, situation)
            if evidence.support(second):
                return Answer(second, again, (f"asked again, reminded of: {told[0].text}",))
            if quote := next((u.text for u in told if u.id and len(u.text) <= LONGEST_QUOTE), ""):
                return replace(answer, text=words.quoting.format(told=quote), notes=(QUOTED,))
        return answer if only_denies(text, situation.language.reading) else replace(answer, text=words.not_told)

    def _read(self, evidence: Evidence, failed: list[str]) -> Steps[Answer | None]:
        """The answer that passages agree on, or a timelier one; None: no passage has one, or there is no reader.

        Args:
            failed: takes a note if the reader cannot be asked.
        """
        situation, passages, reading = evidence.situation, evidence.passages, evidence.situation.language.reading
        if self.reader is None or not passages:
            return None
        then = replace(situation.heard, text=as_then(situation.heard.text, reading))
        alone = [len(passage) == 1 and passage[0].id in situation.ended for passage in passages]
        asked = [then if gone else situation.heard for gone in alone]
        try:
            completions = yield [self.reader.request(*one) for one in zip(asked, passages, strict=True)]
        except BackboneError as exc:
            failed.append(f"the reader failed: {exc}")
            return None
        self.seen.extend(completions)
        texts = [_reply(answer_in(one.text), one.finish, situation) for one in completions]
        found = [
            (source_of(passage, text, reading), Answer(text, completion, (read_in(passage, text, reading),)))
            for passage, text, completion, true in zip(passages, texts, completions, evidence.each(texts), strict=True)
            if true
        ]
        if not found:
            return None
        heard, ended = situation.heard, evidence.ended([line for line, _ in found])
        places = holding(heard.text, heard.speaker, [answer.text for _, answer in found], ended, reading)
        return _chosen(heard, [found[n] for n in places], reading)[1] if places else None

    def _read_in_results(self, situation: Situation) -> Steps[Answer | None]:
        """The answer that the reader finds in what tools returned for what was heard, unless the model knows tools itself."""
        results = with_results(replace(situation, context=()), self.generator.takes_results(situation)).context
        free = situation.decides or situation.passed.begun or situation.passed.formatted
        if self.check is None or free or not results:
            return None
        return (yield from self._read(Evidence(self.check, situation, [(result,) for result in results[::-1]]), []))

    def _whether(self, evidence: Evidence) -> Answer | None:
        """What the user said last that decides whether something is so, as models get yes and no wrong, or later words that end
        it; None: it is not asked, or a client's tool may know."""
        situation, heard = evidence.situation, evidence.situation.heard
        if not _asks_whether(heard.text, situation.language.reading):
            return None
        words, places = situation.language.words, deciding(evidence.check, evidence.lines, heard.speaker, heard.text)
        found = [source_of(evidence.passages[n], heard.text, situation.language.reading) for n in places]
        if not (found := [said for said in found if not _asks(said)]):
            return None if situation.passed.parameters else Answer(words.not_told, NO_COMPLETION, (UNDECIDED,))
        last = max(found, key=lambda said: (bool(said.id), said.at))
        over_by = situation.corrections.get(last.id, ()) if last.id in situation.ended else ()
        later = [said.text for said in over_by]
        if later and last.id in situation.slips:
            last, later = replace(last, text=" ".join(later)), []
        lines = {u.id: u for said in evidence.passages for u in said if u.speaker == last.speaker and u.id}.values()
        since = sorted((u for u in lines if u.at > last.at and not _asks(u)), key=lambda said: said.at)
        ended, perhaps = self._ended_since(evidence.check, last, since) if since else ([], [])
        told = (
            since[ended[-1]].text if ended else " ".join([last.text, *(later or [since[n].text for n in perhaps[-1:]])])
        )
        return Answer(words.reason.format(told=told), NO_COMPLETION, (f"decided by: {told}",))

    def _ended_since(
        self, check: StatementCheck, told: Utterance, since: Sequence[Utterance]
    ) -> tuple[list[int], list[int]]:
        """The places of later lines that end what one told, and of those that perhaps do."""
        texts = [said.text for said in since]
        first, *others = self.encode([told.text, *texts])
        return ended_since(check, (told.speaker, told.text), texts, np.array(others) @ first)

    def _evidence(self, check: StatementCheck, situation: Situation) -> Evidence:
        """What was said, most relevant first, then the traits most relevant to the question as one passage. Asked what was
        before, each line that has ended is a passage by itself: a small reader takes what ended it for the answer."""
        reading, traits = situation.language.reading, self._traits(situation)
        if traits:
            order = worths(situation.heard, situation.agent, traits, self.encode, reading).argsort()[::-1]
            traits = [traits[n] for n in order[:TRAITS_READ]]
        said = [as_meant(check, passage, self.encode, reading) for passage in situation.passages]
        former = reading.patterns["asks_former"].search(situation.heard.text)
        gone = {u.id: (u,) for passage in said for u in passage if u.id in situation.ended} if former else {}
        known = [*([tuple(traits)] if traits else []), *gone.values()]
        documents = [one.record.text for one in situation.recalled if one.record.channel not in SAID]
        found = [(replace(situation.heard, id="", speaker="", text=text),) for text in documents]
        return Evidence(check, situation, [*said[: self.passages], *known], [*said[self.passages :], *found])

    def _said_by_user(self, situation: Situation) -> list[Utterance]:
        """The lines the user said in the chat that bear on the question: quotes and traits (without ids), best first, those that
        do not hold any more last. Text from another channel is never attributed to the user."""
        heard, reading = situation.heard, situation.language.reading
        own = (u for u in situation.quotes if u.speaker == heard.speaker and u.channel == "chat" and not _asks(u))
        lines = [*self._traits(situation), *(u for u in own if u.id not in situation.slips)]
        worth = worths(heard, situation.agent, lines, self.encode, reading) if lines else np.zeros(0)
        over = {} if about_then(heard.text, reading) else situation.ended
        order = sorted(range(len(lines)), key=lambda n: (lines[n].id in over, -worth[n]))
        return [lines[n] for n in order if worth[n] >= BEARING]

    def _traits(self, situation: Situation) -> list[Utterance]:
        """What is known from the chat of the user, or of the person whom they ask about, in that person's words without ids;
        each by itself."""
        heard, doubted = situation.heard, situation.doubted
        person = situation.about or heard.speaker
        known = [(person, trait) for trait in situation.traits.get(person, ()) if (person, trait) not in doubted]
        texts = [situation.aged.get(one, one[1]) for one in known]
        return [replace(heard, id="", speaker=person, text=text, session=-n) for n, text in enumerate(texts, 1)]


def only_memory_answers(situation: Situation) -> bool:
    """Whether only the memory can answer, in its words: no tool has, no image came with the question, no reply has begun."""
    passed = situation.passed
    other = (*(aside.after for aside in passed.asides), *(line for line, _ in passed.media))
    free = passed.begun or passed.formatted
    return not free and all(line not in (situation.heard.text, "") for line in other)


def _asks_whether(text: str, reading: Reading) -> bool:
    return reading.patterns["asks_whether"].search(text) is not None


def _asks(said: Utterance) -> bool:
    """Whether an utterance only asks, apart from what it quotes."""
    return asks(unquoted([("", said.text)])[0][1])


def _chosen(heard: Utterance, found: Sequence[tuple[Utterance, Answer]], reading: Reading) -> tuple[Utterance, Answer]:
    """The answer to use: what most passages say, or what the same person said about it later or earlier, as the question asks
    for.

    Args:
        found: the line in which each answer was read, and the answer; the most relevant first.
    """
    best = found[agreed(heard.text, heard.speaker, [answer.text for _, answer in found], reading)]
    line = best[0]
    if not line.id:  # a trait: nobody knows when it was said
        return best
    alike = [best, *(o for o in found if o[0].id and o[0].speaker == line.speaker and o[0].session != line.session)]
    answers, sessions = [answer.text for _, answer in alike], [said.session for said, _ in alike]
    return alike[timely(heard.text, answers, sessions, reading)]


def _reminded(situation: Situation, line: str) -> Situation:
    """The situation with that line placed right before the question."""
    heard = situation.heard
    text = situation.language.words.reminder.format(told=line, question=heard.text)
    return replace(situation, heard=replace(heard, text=text))


def _reply(text: str, finish: str, situation: Situation) -> str:
    """What an answer says, without names and stage directions."""
    return reply_text(_whole(text, finish), situation.agent, situation.people, decides=situation.decides)


def _whole(text: str, finish: str) -> str:
    return text if finish == "stop" else whole_sentences(text)
