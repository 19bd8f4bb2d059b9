"""Splitting a corpus that comes in one file."""

from pathlib import Path

import pytest

from ld_agent.errors import InputError
from training.split import split


def test_three_files_share_nothing_and_are_drawn_by_seed(tmp_path: Path):
    lines = [f'{{"n": {n}}}' for n in range(20)]
    source = tmp_path / "all.jsonl"
    source.write_text("\n".join(lines) + "\n")
    drawn = {}
    for seed in (0, 0, 1):
        split(source, tmp_path / f"s{seed}", "10,3,4", seed, overwrite=True)
        parts = [
            (tmp_path / f"s{seed}" / f"{name}.jsonl").read_text().splitlines() for name in ("train", "valid", "test")
        ]
        assert [len(part) for part in parts] == [10, 3, 4]
        together = [line for part in parts for line in part]
        assert len(set(together)) == 17
        assert set(together) <= set(lines)
        assert drawn.setdefault(seed, parts) == parts
    assert drawn[0] != drawn[1]
    with pytest.raises(InputError, match="exists; give another folder"):
        split(source, tmp_path / "s0", "10,3,4", 0)
    with pytest.raises(InputError, match="has 20 of 5001 conversations; give smaller --sizes, such as 16,2,2"):
        split(source, tmp_path / "other")
    for count, fix in ((4, "give smaller --sizes, such as 2,1,1"), (2, "give a longer file")):
        source.write_text("\n".join(lines[:count]))
        with pytest.raises(InputError, match=fix):
            split(source, tmp_path / "other")
    with pytest.raises(InputError, match="three positive numbers"):
        split(source, tmp_path / "other", "10,3")
