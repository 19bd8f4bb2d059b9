"""``ld-agent ecm``: build ECM's three benchmarks with a model, and ask agents their questions."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from ld_agent.cli.evaluate import command_of
from ld_agent.cli.options import Json, Limit, OneConfig, Overrides
from ld_agent.cli.show import say
from ld_agent.config import load_config
from ld_agent.datasets import load_episodes
from ld_agent.errors import InputError
from ld_agent.evaluation.tasks.registry import ECM
from ld_agent.files import check_output
from ld_agent.program import print_json

app = typer.Typer(help="Build and run ECM's benchmarks: continuing, knowledge, feedback.", no_args_is_help=True)
Source = Annotated[
    Path, typer.Option("--from", help="Conversations (knowledge: with personas); for feedback requests, one a line.")
]


@app.command()
def build(
    benchmark: Annotated[str, typer.Argument(help="continuing, knowledge or feedback.")],
    source: Source,
    out: Annotated[Path, typer.Option("--out", help="The file to write, JSON lines.")],
    overrides: Overrides = None,
    config: OneConfig = None,
    limit: Limit = None,
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="Stop after N samples (ECM: 200, knowledge 300).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Build a benchmark with the backbone of a config; unusable model output is skipped and counted.

    Examples:

      ld-agent ecm build knowledge --from data/samples/msc_session_3.txt --out knowledge.jsonl -c openai

      ld-agent ecm build feedback --from data/samples/requests.txt --out feedback.jsonl --limit 20
    """
    from ld_agent.backbones import build_backbone
    from ld_agent.evaluation.tasks.ecm import write_samples
    from ld_agent.evaluation.tasks.ecm_build import build as build_benchmark
    from ld_agent.evaluation.tasks.ecm_build import load_requests

    check_output(out, (source, config))
    section = load_config(config, overrides or []).backbone
    sources = load_requests(source)[:limit] if benchmark == "feedback" else load_episodes(source, limit=limit)
    with closing(build_backbone(section)) as backbone:
        built = build_benchmark(benchmark, sources, backbone.generate, samples)
    dropped = dict(built.dropped.most_common())
    reasons = ", ".join(f"{reason} {count}×" for reason, count in dropped.items())
    made, probes = len(built.samples), sum(len(sample.questions) for sample in built.samples)
    if not made:
        raise InputError(
            f"{section.model} made no samples from {len(sources)} sources ({reasons}); use a stronger model"
        )
    write_samples(out, benchmark, built.samples, {"by": section.model, "from": str(source), "dropped": dropped})
    if samples is not None and made < samples:
        say(f"only {made} of {samples} samples: {source} has no more sources")
    if as_json:
        print_json({"benchmark": benchmark, "samples": made, "probes": probes, "dropped": dropped})
    else:
        say(f"{made} samples with {probes} questions in {out}{reasons and f'; left out: {reasons}'}")


app.command("run")(command_of(ECM))
