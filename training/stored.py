"""Examples in a file that is mapped into memory, so that a training file may be larger than memory.

Rows are tokenized once, one after the other; of each only its place and sizes stay here, about 30 bytes. Any of them can be
read at any time, so that batches of like length, and resuming in the middle of an epoch, are as with examples in memory.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import overload

import numpy as np

from training.examples import Example


class StoredExamples(Sequence[Example]):
    """Examples in their order, in a file without a name that goes with this process (in the folder that TMPDIR names).

    Args:
        examples: are read once, and not kept.
    """

    def __init__(self, examples: Iterable[Example]) -> None:
        self._ends, self._prompts, self._answers, self._cuts = array("q", [0]), array("i"), array("i"), array("i")
        with tempfile.TemporaryFile() as file:
            for example in examples:
                ids = [*example.prompt, *example.answer, *(place for span in example.spans for place in span)]
                file.write(np.array(ids, np.int32).tobytes())
                self._ends.append(self._ends[-1] + len(ids))
                self._prompts.append(len(example.prompt))
                self._answers.append(len(example.answer))
                self._cuts.append(example.cut)
            file.flush()
            self._ids = np.memmap(file, np.int32, "r") if self._ends[-1] else np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self._prompts)

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        ids = self._ids[self._ends[row] : self._ends[row + 1]].tolist()
        prompt, answer = self._prompts[row], self._prompts[row] + self._answers[row]
        spans = list(pairwise(ids[answer:]))[::2]
        return Example(ids[:prompt], ids[prompt:answer], self._cuts[row], tuple(spans))

    @property
    def lengths(self) -> list[int]:
        """The tokens of each example, without reading it."""
        return [prompt + answer for prompt, answer in zip(self._prompts, self._answers, strict=True)]
