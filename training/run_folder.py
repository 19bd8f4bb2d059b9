"""The folder of a run: whether it may be used, and its description.

Knows no model. ``run.json`` describes the run; there are checkpoints while it is unfinished, and the adapter's config
once it is done.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ld_agent.backbones.weights import file_sha256
from ld_agent.errors import InputError
from training.settings import TrainingSettings

DONE, RUN = "adapter_config.json", "run.json"
WRITTEN = (DONE, RUN, "adapter_model.safetensors", "README.md", "index.html", "trainer_state.json", ".adapter")


def description(settings: TrainingSettings, module: str) -> dict[str, Any]:
    """Settings and digests of the data. Two runs with one description are the same run."""
    files = {"train": settings.train_file, "eval": settings.eval_file}
    return {
        "module": module,
        "settings": settings.model_dump(mode="json", exclude={"output_dir"}),
        "data_sha256": {name: file_sha256(Path(path)) for name, path in files.items() if path is not None},
    }


def check_folder(folder: Path, run: dict[str, Any], overwrite: bool) -> None:
    """Reject a folder with other contents before anything is loaded.

    Raises:
        InputError: it contains a finished adapter, another run or foreign files, and ``overwrite`` is false.
    """
    if overwrite or not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"output_dir={folder} is a file; give a folder, or remove it")
    if (folder / DONE).exists():
        raise InputError(
            f"output_dir={folder} holds a finished adapter; give another folder, or --overwrite to replace it"
        )
    unfinished = _read(folder / RUN)
    if unfinished is None and any(folder.iterdir()):
        raise InputError(f"output_dir={folder} exists and is not empty; give another folder, or --overwrite to use it")
    if unfinished is not None and (difference := _difference(unfinished, run)):
        raise InputError(
            f"output_dir={folder} holds an unfinished run with other settings ({difference}); "
            f"give those to resume it, or --overwrite to start again"
        )


def claim(folder: Path, run: dict[str, Any], overwrite: bool) -> None:
    """Prepare the folder for this run. With ``overwrite``, files of an earlier run are removed, but never other files.

    Raises:
        InputError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if overwrite:
            for path in [*folder.glob("checkpoint-*"), *(folder / name for name in WRITTEN)]:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        (folder / RUN).write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as exc:
        raise InputError(f"output_dir={folder} cannot be written ({exc.strerror}); give a writable folder") from exc


def last_checkpoint(folder: Path) -> str | None:
    """The last complete checkpoint of a folder; an interrupted one lacks the trainer's state, which is written last."""
    complete = (state.parent for state in folder.glob("checkpoint-*/trainer_state.json"))
    return max(map(str, complete), key=lambda path: int(path.rpartition("-")[2]), default=None)


def tidy(folder: Path) -> None:
    """Remove files that a finished adapter does not need."""
    for path in folder.glob("checkpoint-*"):
        shutil.rmtree(path, ignore_errors=True)


def _difference(begun: dict[str, Any], run: dict[str, Any]) -> str:
    if begun.get("module") != run["module"]:
        return f"of the {begun.get('module')}"
    before, now = begun.get("settings", {}), run["settings"]
    # A setting unknown to an older version counts as its default.
    defaults = {key: field.default for key, field in TrainingSettings.model_fields.items()}
    for key in [*now, *before]:
        was, is_now = before.get(key, defaults.get(key)), now.get(key)
        if was != is_now:
            return f"{key} was {was!r} and is {is_now!r}"
    return "" if begun.get("data_sha256") == run["data_sha256"] else "the data files have changed"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
