"""Count how often a memory mechanism fell back, so that results of fallbacks are not taken for those of the mechanism.

A part is one kind of request to a model, such as "conditional records" or "recursive rewrites"; it fails if the answer
cannot be parsed or is refused. Each prediction of a run stores the counts of its reply under ``reply_fallbacks`` and
those of its conversation's memory under ``memory_fallbacks``, as {part: [failed, asked]}. Knows no metric and no
terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ld_agent.evaluation.run_files import Prediction
from ld_agent.memory.views import VIEWS
from ld_agent.modules.base import Models
from ld_agent.storage.store import Store
from ld_agent.turn import NOT_STATED, STOCK_PHRASE
from ld_agent.types import Record, Reply

MOST = 0.2
"""The share of failures above which a system does not count as the mechanism it is named after."""
REPLY, MEMORY = "reply_fallbacks", "memory_fallbacks"
MARK = "†"
Counts = dict[str, tuple[int, int]]
"""For each part, the number of failed answers and of requests."""


def of_reply(reply: Reply) -> Counts:
    """Count the requests behind one reply: the reply itself, decisions, reflections and choices of topics."""
    asked = [("replies", any(note.endswith(STOCK_PHRASE) for note in reply.notes))]
    for view, explanation in reply.explanations.items():
        if "decision" in explanation:
            asked.append((f"{view} decisions", explanation["decision"] == NOT_STATED))
        asked += [
            (f"{view} reflections", entry["outcome"] in ("unusable", "failed"))
            for entry in explanation.get("rounds", ())
        ]
        if "picked by" in explanation:
            asked.append((f"{view} choices", explanation["picked by"] == "cosine"))
    return _counted(asked)


def of_records(records: Iterable[Record]) -> Counts:
    """Count the records that views asked a model to write, including the rewrites and portraits behind them."""
    records = list(records)
    written = [r for r in records if r.view in VIEWS and VIEWS[r.view].asks_model]
    counts = _counted((f"{r.view} records", r.fallback) for r in written)
    for record in written:
        for part in ("rewrites", "portraits"):
            if part in record.details:
                failed, asked = record.details[part]
                counts = merged([counts, {f"{record.view} {part}": (int(failed), int(asked))}])
    return counts


def of_memory(store: Store, key: int) -> Counts:
    """Count a conversation's records, and what was refused and is still pending."""
    waiting = [
        {f"{f.work} {'rewrites' if VIEWS[f.work].rewrites else 'records'}": (f.attempts, f.attempts)}
        for f in store.failures(key)
        if f.work in VIEWS
    ]
    return merged([of_records(store.records(key)), *waiting])


def of_models(models: Models) -> Counts:
    """Count, by module, the answers that had to be JSON and were not."""
    return merged({f"{module} answers as JSON": counts} for module, counts in models.as_json.items())


def of_predictions(predictions: Sequence[Prediction]) -> Counts:
    """Add up the counts of a run's predictions; each conversation's memory counts once."""
    memories = {p.episode: p.details[MEMORY] for p in predictions if MEMORY in p.details}
    parts = [*memories.values(), *(p.details[REPLY] for p in predictions if REPLY in p.details)]
    summaries = [p.details["fallback"] for p in predictions if isinstance(p.details.get("fallback"), bool)]
    if summaries:
        parts.append({"summaries": (sum(summaries), len(summaries))})
    return merged(parts)


def merged(counts: Iterable[Mapping[str, Sequence[int]]]) -> Counts:
    """Add counts up, part by part."""
    total: Counts = {}
    for each in counts:
        for part, (failed, asked) in each.items():
            before = total.get(part, (0, 0))
            total[part] = (before[0] + failed, before[1] + asked)
    return {part: count for part, count in total.items() if count[1]}


def mostly(counts: Counts) -> list[str]:
    """Return the parts that failed too often (`MOST`) for the system to bear its mechanism's name."""
    return [part for part, (failed, asked) in counts.items() if failed > MOST * asked]


def as_json(counts: Counts) -> dict[str, dict[str, float]]:
    """Return the counts as ``--json`` shows them."""
    return {
        part: {"fallbacks": failed, "of": asked, "share": round(failed / asked, 4)}
        for part, (failed, asked) in counts.items()
    }


def counts_of(scores: Mapping[str, Any]) -> Counts:
    """Return the counts in a run's scores; the inverse of `as_json`."""
    return {part: (int(c["fallbacks"]), int(c["of"])) for part, c in scores["fallback_counts"].items()}


def in_words(counts: Counts) -> str:
    """Return the counts on one line: "conditional records 3 of 56 (5 %), replies 0 of 72"."""
    return ", ".join(
        f"{part} {failed} of {asked}" + (f" ({100 * failed / asked:.0f} %)" if failed else "")
        for part, (failed, asked) in counts.items()
    )


def footnote(counts: Counts) -> str:
    """Return why a system is marked; "": it is not."""
    parts = {part: counts[part] for part in mostly(counts)}
    if not parts:
        return ""
    return f"not the mechanism it is named after: more than {MOST:.0%} are fallbacks ({in_words(parts)})"


def _counted(asked: Iterable[tuple[str, bool]]) -> Counts:
    return merged({part: (int(failed), 1)} for part, failed in asked)
