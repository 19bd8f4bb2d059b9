"""What ends or changes something that was told: a later line, a slip that is taken back, a trait as a model has it now.

Pure functions over lines, claims and the learned check; knows no store and no model that writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ld_agent.checks.kept import LASTS, MOST_SENTENCES, SAID, statements_in, telling
from ld_agent.checks.learned import ENDED, LASTING, SUPPORTED, Lines, Pair, StatementCheck
from ld_agent.checks.slips import CORRECTING, LATELY, Slip
from ld_agent.checks.statements import sentences_of
from ld_agent.languages.numbers import numbers
from ld_agent.languages.reading import Reading
from ld_agent.text import LONGEST_READ, words_of

OVER = 0.64
"""Least probability that a line ends a statement."""
OVER_MEAN, OVER_FAR, OVER_ALONE, TAKES_BACK = 0.5, 0.8, 0.94, 0.5
"""Least probabilities that a line ends a statement: the mean of what it says after the lines before, after its speaker's own and
by itself, or in one of its sentences; that of a statement less like it than `ALIKE`, as a line that ends something seems to end
22 in 100 of such others with the first bound, and 6 with this one; by itself; and the log-odds that it corrects something, from
which `OVER` after the lines before is enough. Of what is ended in held-out claims 36 % is found, and 10 % of the rest seems to
be; of 300 facts that another followed, two do."""
FOLLOWS, CHANGED, TOUCHED = 0.4, 0.5, 0.2
"""Least probabilities that a trait as it is now follows from what it was and a line, that it or the line ends what it was, and
that the line does where the trait as it is now does: "Our second son is here, his name is Jasper!" ends no other's name."""
NAMES = ("User", "Nell", "Tom")
"""Speakers for whom it is judged."""
PUT_RIGHT, OF_A_KIND = 0.7, 0.5
"""Least probability that two lines support the first one as the second corrects it, and cosine of what is exchanged: nine in ten
of such sentences are what was meant."""
ALIKE, ABOUT = 0.3, 0.2
"""Least cosine of two lines of which one may end what the other says, and of a line and a trait that it may end."""
PERHAPS_OVER = 0.2
"""Least probability that a later line ends what one says that it is `ABOUT`, from which both are quoted; of lines about other
things, 4 in 100 have it."""


def changed(check: StatementCheck, line: str, old: str, new: str) -> tuple[bool, bool]:
    """Whether a trait as a model has it now is stored, and whether the trait that it comes from has ended.

    What only follows from two lines is judged less surely, and otherwise for each name: hence the mean over some. A sum follows.

    Args:
        line: what its speaker said, from which the model concluded that.
    """
    pairs: list[Pair] = [(LASTING, new)]
    for name in NAMES:
        claim, now = f"{name}: {old}", f"{name}: {new}"
        pairs += [([(name, old), (name, line)], now), ([(name, line)], now)]
        pairs += [([(name, told)], claim) for told in (line, new)]
    found = check.probabilities(pairs)
    follows, denied, by_line, by_new = found[1:].reshape(len(NAMES), 4, -1).mean(0)
    again = max(by_new[SUPPORTED], denied[ENDED]) >= SAID  # as it was, or as the line says that it is not
    touched = by_line[ENDED] >= TOUCHED or check.corrections.log_odds(line) >= TAKES_BACK
    true = (adds_up(old, line, new) and touched) or (follows[SUPPORTED] >= FOLLOWS and not again)
    ended = by_line[ENDED] >= CHANGED or (by_new[ENDED] >= CHANGED and touched)
    return bool(true and found[0, SUPPORTED] >= LASTS), bool(true and ended)


def adds_up(old: str, line: str, new: str) -> bool:
    """Whether a text is another, in its words, with one number in it greater by one, or by one that a line tells: "I have six
    hens." is "I have four hens." after "Two more hens arrived."."""
    counted = {word.casefold() for word, _ in numbers(new)}
    if not set(words_of(new)) - counted <= set(words_of(old)):
        return False
    (was, *others), (now, *more) = ([int(n) for _, n in numbers(text) if n.isdigit()] or [0] for text in (old, new))
    told = {1, *(int(n) for _, n in numbers(line) if n.isdigit())}
    return was > 0 and not others and not more and (now - was in told or (now in told - {1} and now > was))


def over(check: StatementCheck, statements: Sequence[Pair]) -> list[int]:
    """The places of the statements that the lines beside them end or deny."""
    return np.flatnonzero(check.probabilities(statements)[:, ENDED] >= OVER).tolist()


def ended_since(
    check: StatementCheck, told: tuple[str, str], since: Sequence[str], alike: NDArray[np.float32]
) -> tuple[list[int], list[int]]:
    """The places of later lines of its speaker that end what a line told, and of those that perhaps do.

    Args:
        alike: (n,) cosines of the line and those later ones.
    """
    speaker, text = told
    ended = check.probabilities([([(speaker, later)], f"{speaker}: {text}") for later in since])[:, ENDED]
    ended = np.where(alike >= ABOUT, ended, 0.0)
    return np.flatnonzero(ended >= OVER).tolist(), np.flatnonzero(ended >= PERHAPS_OVER).tolist()


def ended_by(
    check: StatementCheck, lines: Lines, claims: Sequence[str], alike: Sequence[bool] | None = None
) -> list[int]:
    """The places of the claims that the last line ends or denies, read after those before it, after its speaker's own and by
    itself: what else it says, or somebody else said, misleads. A question ends nothing.

    Args:
        alike: whether the cosine of the line and each claim is at least `ALIKE`; None: of all.
    """
    who = lines[-1][0] if lines else ""
    text = " ".join(told for _, told in telling(lines[-1:], who)).strip()
    if not claims or not text:
        return []
    whole = (*telling(lines[:-1], who), (who, text))
    own = tuple([line for line in whole if line[0] == who])
    parts = [((who, part),) for part in (text, *sentences_of(text)[:MOST_SENTENCES])]
    readings = list(dict.fromkeys([whole, own, *parts]))  # a first line by itself is all three
    found = check.probabilities([(reading, claim) for reading in readings for claim in claims])[:, ENDED]
    ends = dict(zip(readings, found.reshape(len(readings), -1), strict=True))
    by_whole, by_own, alone = ends[whole], ends[own], np.max([ends[part] for part in parts], axis=0)
    least = OVER_MEAN if alike is None else np.where(alike, OVER_MEAN, OVER_FAR)
    over_by_mean = (by_whole + by_own + alone) / 3 >= least
    taken_back = (by_whole >= OVER) & (check.corrections.log_odds(text) >= TAKES_BACK)
    return np.flatnonzero(over_by_mean | taken_back | (alone >= OVER_ALONE)).tolist()


def put_right(check: StatementCheck, lines: Lines, slip: Slip, reading: Reading) -> list[str]:
    """What is stored where the last line takes something back: the corrected sentence, if words of one kind are exchanged and the
    lines support it, or else the line's own sentence with these words, if there is one."""
    true = check.probabilities([(lines, f"{lines[-1][0]}: {slip.text}")])[0, SUPPORTED] >= PUT_RIGHT
    own = [sentence for sentence in statements_in(lines[-1][1], reading) if slip.new in sentence]
    return [slip.text] if true and slip.alike >= OF_A_KIND else own[:1]


def in_which_slips_are_right(
    check: StatementCheck, lines: Lines, encode: Callable[[Sequence[str]], NDArray[np.float32]], reading: Reading
) -> Lines:
    """Lines, with what their speakers took back a moment later, also in the same line, as they meant it, if that is sure, and
    without what only says so.

    Args:
        encode: texts → (n, dimension) unit vectors.
    """
    right = [*lines]
    for n, (speaker, text) in enumerate(lines):
        sentences = sentences_of(text[:LONGEST_READ])
        short = len(text) <= LONGEST_READ and 1 < len(sentences) <= MOST_SENTENCES
        if short and any(check.corrections.log_odds(s) >= CORRECTING for s in sentences[1:]):
            within = in_which_slips_are_right(check, [(speaker, s) for s in sentences], encode, reading)
            if (meant := [s for _, s in within]) != sentences:
                right[n] = (speaker, " ".join(filter(None, meant)))
    for n, (speaker, text) in enumerate(right):
        if len(text) > LONGEST_READ or check.corrections.log_odds(text) < CORRECTING:
            continue
        before = [m for m in range(max(n - LATELY, 0), n) if lines[m][0] == speaker]
        read = {m: sentences_of(right[m][1][:LONGEST_READ])[:MOST_SENTENCES] for m in before}
        told = [(m, sentence) for m, sentences in read.items() for sentence in sentences]
        slip = check.corrections.slip([sentence for _, sentence in told], text, encode, reading) if told else None
        if slip is None:
            continue
        m, wrong = told[slip.place]
        if put_right(check, [(speaker, wrong), (speaker, text)], slip, reading) == [slip.text]:
            more = [s for s in sentences_of(text) if not check.corrections.nothing_else(s, wrong, slip.text, reading)]
            right[m], right[n] = (speaker, right[m][1].replace(wrong, slip.text)), (speaker, " ".join(more))
    return right


def ending(check: StatementCheck, told: Sequence[tuple[str, str]], alike: NDArray[np.float32]) -> set[int]:
    """The places of lines, oldest first, that end what an earlier line of the same speaker says.

    Args:
        alike: (n, n) cosines of the lines; of those less alike than `ALIKE`, none is about the other.
    """
    pairs = [
        (old, new)
        for new, (speaker, _) in enumerate(told)
        for old in range(new)
        if told[old][0] == speaker and alike[old, new] >= ALIKE
    ]
    stated = [telling([line], line[0]) for line in told]  # a question ends nothing
    pairs = [(old, new) for old, new in pairs if stated[new]]
    return {pairs[n][1] for n in over(check, [(stated[new], f"{told[old][0]}: {told[old][1]}") for old, new in pairs])}
