"""Sorts traits by theme, for people to look through: each goes to the theme of the nearest sample sentence.

Themes and samples come from the language's ``words.yaml``. Knows no store; asks no model but the encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ld_agent.memory.encoder import Vectors

NEAR = 0.25
"""The least cosine with a sample; below it, a trait belongs to the theme without samples."""


def themes_of(
    vectors: Vectors, samples: Mapping[str, Sequence[str]], encode: Callable[[Sequence[str]], Vectors]
) -> list[str]:
    """The theme of each of n traits.

    Args:
        vectors: (n, dimension) unit vectors.
        samples: sample sentences by theme; the theme without any takes what is near to none.
    """
    theme_by_column = [theme for theme, sentences in samples.items() for _ in sentences]
    rest = next(theme for theme, sentences in samples.items() if not sentences)
    cosines = vectors @ encode([sentence for sentences in samples.values() for sentence in sentences]).T
    nearest = zip(cosines.argmax(axis=1).tolist(), cosines.max(axis=1).tolist(), strict=True) if len(vectors) else ()
    return [theme_by_column[column] if cosine >= NEAR else rest for column, cosine in nearest]
