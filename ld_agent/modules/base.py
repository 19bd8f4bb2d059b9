"""The backbones of a configuration and the requests of its modules. Knows no prompt and no memory."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ld_agent.backbones import build_backbone
from ld_agent.backbones.answer_text import AnswerStream
from ld_agent.backbones.base import ASKED, NOT_PASSED, Backbone, Completion, Message, Request, noted
from ld_agent.config import Config
from ld_agent.config.sections import ModuleSection, ModulesSection
from ld_agent.errors import BackboneError
from ld_agent.languages import Language, language
from ld_agent.modules.json_form import parts_in

MODULES = tuple(ModulesSection.model_fields)
MOST_CHARACTERS_A_TOKEN = 16
"""Characters per token, more than any tokenizer's average; bounds the answers of a server that ignores
``max_tokens``."""
WARMER = 0.7
"""Temperature of a retry: with the same prompt, greedy decoding would repeat its answer."""
AVOIDING = 1.2
"""Repetition penalty of an answer in other words. At temperature 0.7 without a penalty, 3 of 7 were the same again."""

REASONS = re.compile(r"think|reason|qwq|magistral|(?<![a-z0-9])r1(?![0-9])", re.IGNORECASE)
"""In a model's name: it reasons first, and its server may mark only where that ends."""


class Models:
    """The modules' backbones, created on first use: one for all modules, unless a module names its own.

    Args:
        config: the configuration.
        backbone: a ready backbone to use for every module instead, such as a `ScriptedBackbone`.

    Attributes:
        modules: the settings of the modules.
        language: language of the prompts; its markers are replaced with canonical ones in answers.
        as_json: by module, how many answers that had to be JSON were something else, and how many had to be.
    """

    def __init__(self, config: Config, backbone: Backbone | None = None) -> None:
        self._settings: Mapping[str, ModuleSection] = {m: getattr(config.modules, m) for m in MODULES}
        self._sections = {m: self._settings[m].backbone or config.backbone for m in MODULES}
        self.modules = config.modules
        self._given = backbone
        self._built: dict[str, Backbone] = {}
        self._unopened: set[str] = set()  # keys of backbones seen to begin with reasoning that no tag opens
        self._open: set[str] = set()  # keys of backbones seen to answer otherwise
        self._prose: set[str] = set()  # keys of backbones that refused to answer as JSON
        self._lock = threading.Lock()
        self.language = language(config.language)
        self.as_json: dict[str, tuple[int, int]] = {}

    def speaking(self, spoken: Language) -> Models:
        """The same models with the prompts of another language."""
        models = copy.copy(self)
        models.language = spoken
        return models

    def backbone(self, module: str) -> Backbone:
        """The backbone of a module, loaded if necessary.

        Raises:
            ModelError: it cannot be loaded.
        """
        if self._given is not None:
            return self._given
        section = self._sections[module]
        key = self.backbone_key(module)
        with self._lock:
            if key not in self._built:
                sharing = [m for m in MODULES if self._sections[m] == section]
                self._built[key] = build_backbone(
                    section,
                    adapters={m: a for m in sharing if (a := self._settings[m].adapter) is not None},
                    models={m: name for m in sharing if (name := self._settings[m].model) is not None},
                )
            return self._built[key]

    def backbone_key(self, module: str) -> str:
        """A value that is equal for modules sharing a backbone; loads nothing."""
        return "" if self._given is not None else self._sections[module].model_dump_json()

    def passes_on(self, module: str) -> bool:
        """Whether the model of a module gets what a client sent besides text: images, tools."""
        return bool(getattr(self.backbone(module), "passes_on", False))

    def answers_json(self, module: str) -> bool:
        """Whether a module's model is asked for JSON: an endpoint's, where the config says so and it has not refused."""
        asked = self._sections[module].json_answers and self.backbone_key(module) not in self._prose
        return asked and self.passes_on(module)

    def concurrent(self, module: str) -> bool:
        """Whether the model of a module answers many callers at once, as endpoints do; loads nothing."""
        given = self._given
        return self._sections[module].kind == "openai" if given is None else bool(getattr(given, "concurrent", False))

    def settings(self, module: str) -> ModuleSection:
        return self._settings[module]

    def prompt_budget(self, module: str) -> int:
        """Maximum number of tokens in a prompt of this module, so that the answer still fits the window."""
        window = self.backbone(module).context_window
        return max(window - self._settings[module].max_new_tokens, window // 4)

    def count_tokens(self, module: str, messages: Sequence[Message]) -> int:
        return self.backbone(module).count_tokens(messages)

    def fits(self, module: str, messages: Sequence[Message]) -> bool:
        """Whether a prompt leaves the window room for the answer."""
        return self.count_tokens(module, messages) <= self.prompt_budget(module)

    def request(
        self,
        module: str,
        messages: tuple[Message, ...],
        *,
        constant_messages: int = 0,
        seed: int = 0,
        on_text: Callable[[str], None] | None = None,
        most: int | None = None,
        marked: bool = False,
        decides: bool = False,
        form: Mapping[str, Any] | None = None,
        asked: bool = False,
    ) -> Request:
        """Build a request with the module's settings.

        Args:
            most: maximum number of new tokens in a useful answer, if less than the module's limit; bounds the cost of
                a model that does not stop. If the model thinks, only a reply is bounded.
            marked: the answer has the markers of the prompt's language ("笔记："), to be read as English ones.
            decides: a reply is followed by a decision.
            form: the answer's, if the model `answers_json`.
            asked: only the memory can answer: for the adapter's part `ASKED`, where it has one.
        """
        settings = self._settings[module]
        if self._sections[module].thinking and module != "generator":
            most = None
        return Request(
            messages=messages,
            module=module,
            adapter=self._adapter(module, asked),
            max_new_tokens=min(settings.max_new_tokens, most or settings.max_new_tokens),
            temperature=settings.temperature,
            repetition_penalty=settings.repetition_penalty,
            seed=seed,
            on_text=None if on_text is None else AnswerStream(on_text, thinks=self._may_reason_unmarked(module)),
            cacheable_prefix=constant_messages,
            read=self._reading(module, marked, decides),
            form=form,
        )

    def _adapter(self, module: str, asked: bool) -> str | None:
        """The name of a module's adapter, or of the part of it for what only the memory can answer."""
        if self._settings[module].adapter is None:
            return None
        part = f"{module}/{ASKED}"
        return part if asked and part in getattr(self.backbone(module), "adapters", ()) else module

    def reworded(self, request: Request) -> Request:
        """The same request for an answer in other words.

        A local model stays greedy and avoids the words of the prompt; sampled, a small one answers beside the point. An
        endpoint may ignore the penalty, so it samples.
        """
        penalty = max(request.repetition_penalty, AVOIDING)
        other = replace(request, repetition_penalty=penalty, seed=request.seed + 1)
        local = self._given is None and self._sections[request.module].kind == "transformers"
        return other if local else replace(other, temperature=max(request.temperature, WARMER))

    def _reading(self, module: str, marked: bool, decides: bool) -> Callable[[str], str] | None:
        """What makes an answer readable for its parser; free text, such as a summary, stays as it is."""
        if marked:
            return self.language.canonical
        return partial(self.language.canonical_reply, decides=decides) if module == "generator" else None

    def _reasons_unmarked(self, module: str) -> bool:
        """Whether the text of a module's model may begin with reasoning of which only the end is marked: an endpoint's that is
        declared to think, or one that has done so. Of a local model the beginning is known from its template."""
        section = self._sections[module]
        return (section.kind == "openai" and section.thinking) or self.backbone_key(module) in self._unopened

    def _may_reason_unmarked(self, module: str) -> bool:
        """The same, or the endpoint's name for the model says that it reasons, and it has not answered yet."""
        name = self._settings[module].model or self._sections[module].model
        named = self._sections[module].kind == "openai" and REASONS.search(name)
        return self._reasons_unmarked(module) or bool(named and self.backbone_key(module) not in self._open)

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer requests of any modules, in order; those that share a backbone form one batch.

        Raises:
            BackboneError: a backbone failed.
        """
        by_backbone: dict[int, list[int]] = {}
        for position, request in enumerate(requests):
            by_backbone.setdefault(id(self.backbone(request.module)), []).append(position)
        answers: dict[int, Completion] = {}
        for positions in by_backbone.values():
            batch = [requests[p] for p in positions]
            completions = self.backbone(batch[0].module).generate(batch)
            if len(completions) != len(batch):
                raise BackboneError(
                    f"the backbone gave {len(completions)} answers to {len(batch)} requests; it must give one each"
                )
            if any(completion.unopened for completion in completions):
                self._unopened.add(self.backbone_key(batch[0].module))
            elif any(completion.text for completion in completions):
                self._open.add(self.backbone_key(batch[0].module))
            if self._reasons_unmarked(batch[0].module):
                completions = [_without_cut_reasoning(completion) for completion in completions]
            if not self.passes_on(batch[0].module):
                completions = list(map(noted, completions, batch))
            completions = list(map(_bounded, completions, batch))
            self._count_json(batch, completions)
            answers.update(zip(positions, completions, strict=True))
        return [answers[p] for p in range(len(requests))]

    def _count_json(self, requests: Sequence[Request], completions: Sequence[Completion]) -> None:
        """Count the answers that had to be JSON; an endpoint that refuses to be told so is not told again."""
        with self._lock:
            for request, completion in zip(requests, completions, strict=True):
                if request.form is not None:
                    failed, asked = self.as_json.get(request.module, (0, 0))
                    self.as_json[request.module] = (failed + (completion.parts is None), asked + 1)
                    if NOT_PASSED["format"] in completion.notes:
                        self._prose.add(self.backbone_key(request.module))

    def close(self) -> None:
        with self._lock:
            for backbone in self._built.values():
                backbone.close()
            self._built.clear()


def retried(request: Request, tried: int = 1) -> Request:
    """The same request, asked again after ``tried`` answers that were of no use."""
    return (
        replace(request, temperature=max(request.temperature, WARMER), seed=request.seed + tried) if tried else request
    )


def _without_cut_reasoning(completion: Completion) -> Completion:
    """No answer, if the limit cut a text off before any reasoning in it has ended."""
    cut = completion.finish == "length" and not completion.reasoned
    return replace(completion, text="", lack="reasoning") if cut else completion


def _bounded(completion: Completion, request: Request) -> Completion:
    most = MOST_CHARACTERS_A_TOKEN * request.max_new_tokens
    if len(completion.text) > most:
        completion = replace(completion, text=completion.text[:most], finish="length")
    parts = parts_in(completion.text, request.form) if request.form else None
    read = completion.text if request.read is None or parts is not None else request.read(completion.text)
    changed = read != completion.text or parts is not None
    return replace(completion, text=read, parts=parts) if changed else completion
