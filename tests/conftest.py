"""What every test shares: the real encoder and topic extractor, loaded once, and a wall around the machine."""

import ipaddress
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_parts import Scene
from agent_process import Processes
from cli_commands import CommandLine

from ld_agent.config import Config, parse_config
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor

pytest_plugins = ["postgres_server", "backbones.stage", "backbones.tiny_models"]
MakeConfig = Callable[..., Config]
SLOW = (
    # whole tuning runs, and replays for their data
    "tests/training/test_build.py",
    "tests/training/test_bench.py",
    "tests/training/test_settings.py::test_a_dry_run",
    "tests/training/test_settings.py::test_the_commands",
    "tests/training/test_settings.py::test_two_processes",
    "tests/training/test_train.py",
    "tests/training/test_families.py",
    "tests/training/test_reader_rows.py",
    # the embedded model, served or beside transformers
    "tests/backbones/test_endpoint_served.py",
    "tests/backbones/test_adapter_export.py",
    "tests/backbones/test_llama.py",
    "tests/backbones/test_local",
    "tests/backbones/test_weights.py",
    "tests/evaluation/test_bert_score.py",
    "tests/test_adapters.py",
    "tests/attack/",
    # real processes, some of them killed, and installs
    "tests/storage/test_connection.py::test_processes",
    "tests/test_cli_chat.py",
    "tests/test_cli_run.py",
    "tests/test_cli.py::test_the_demo_plays",
    "tests/test_cli.py::test_the_real_command",
    "tests/test_import.py",
    "tests/integrations/",
    "tests/test_nothing_lost.py",
    "tests/test_two_processes.py",
    "tests/test_wheel.py",
    # every command of the documents and of the memory
    "tests/test_cli_memory.py",
    "tests/test_configs.py",
    "tests/test_docs.py",
    # a browser, real server processes, whatever a document allows
    "tests/server/test_browser.py",
    "tests/server/test_document.py",
    "tests/server/test_hostile.py",
    "tests/server/test_mcp.py::test_the_command",
    "tests/server/test_process.py",
    "tests/evaluation/test_evaluate.py",
    "tests/evaluation/test_retrieval.py",
    "tests/server/test_tenants.py",
    "tests/storage/test_postgres",
    # many turns, or long texts
    "tests/memory/test_packaged_encoders.py::test_vectors_have_unit_length",
    "tests/memory/views/test_contract.py::test_killed_anywhere",
    "tests/memory/views/test_golden.py",
    "tests/modules/test_summarizer.py::test_an_utterance_longer",
    "tests/test_agent_input.py::test_strange_text",
    "tests/test_agent_threads.py::test_many_threads",
    "tests/test_mixed_conversations.py",
    "tests/test_languages.py::test_a_conversation_in",
    "tests/test_query_plans.py",
    "tests/test_replay.py::test_interrupted_anywhere",
    "tests/memory/test_encoder.py::test_the_later_part",
    "tests/memory/index/test_long_term.py::test_the_index_agrees",
    "tests/memory/test_topics.py::test_a_hundred_kilobytes",
    "tests/memory/views/test_commands.py",
    "tests/modules/test_summarizer.py::test_the_fallback_of_a_long",
    "tests/storage/test_store_contract.py::test_records_are_returned",
    "tests/test_agent_failures.py",
)
"""How the ids of slow tests begin; those on a real PostgreSQL are slow as well."""


LONG = (
    # notebooks, clusters, and servers and commands that are killed and started again
    "tests/test_site.py::test_a_notebook",
    "tests/test_on_ray.py::test_conversations_played",
    "tests/test_on_ray.py::test_whoever_is_killed",
    "tests/server/test_two_servers.py::test_one_is_killed",
    "tests/server/test_process.py::test_killed",
    "tests/memory/views/test_contract.py::test_killed_anywhere",
    "tests/test_nothing_lost.py",
    "tests/test_cli_chat.py::test_an_interrupt_stops",
    "tests/test_cli_run.py::test_an_interrupt_ends",
    # a disk that fills up, clients that leave, whatever a document allows
    "tests/attack/test_faults.py::test_a_disk",
    "tests/attack/test_streams.py::test_slow_and_leaving",
    "tests/server/test_document.py::test_whatever_a_client_sends",
    "tests/backbones/test_weights.py::test_two_processes",
    "tests/backbones/test_weights.py::test_a_disk",
    # tuning runs that are compared with each other
    "tests/training/test_bench.py",
    "tests/training/test_settings.py::test_two_processes",
    "tests/training/test_train.py::test_a_resumed_run",
    "tests/training/test_train.py::test_a_run_killed",
    "tests/training/test_train.py::test_an_encoder_decoder",
    "tests/training/test_train.py::test_occupied_folders",
    "tests/training/test_train.py::test_the_loss_starts",
    # rows of every training text, all lengths of a text, what the README shows
    "tests/training/test_build.py::test_generator_rows_equal",
    "tests/training/test_reader_rows.py::test_a_file_of_ones_own",
    "tests/training/test_reader_rows.py::test_labelled_answers",
    "tests/training/test_reader_rows.py::test_most_answers",
    "tests/training/test_reader_rows.py::test_rows_are_the_same",
    "tests/training/test_reader_rows.py::test_what_one_of_two",
    "tests/checks/test_learned.py::test_it_tells_supported_claims",
    "tests/checks/test_learned.py::test_rows_on_what_is_asked",
    "tests/memory/test_packaged_encoders.py::test_vectors_have_unit_length",
    "tests/test_docs.py::test_the_first_python",
    "tests/test_cli_chat.py::test_a_terminal_shows_colour",
    "tests/test_cli_chat.py::test_a_narrow_terminal",
    "tests/test_cli_run.py::test_a_reader_who_leaves",
    "tests/test_cli_run.py::test_the_real_command",
    "tests/test_wheel.py::test_chat_runs",
    # the embedded models, whole, and what is measured with them
    "tests/backbones/test_adapter_export.py::test_what_ships",
    "tests/backbones/test_endpoint_served.py::test_a_real",
    "tests/evaluation/test_bench_memory.py::test_a_conversation_grows",
    "tests/evaluation/test_bench_memory.py::test_recall_is_timed",
    "tests/integrations/test_openai_client.py::test_a_stream_that_outlives",
    "tests/memory/test_encoder.py::test_the_default_gives",
    "tests/memory/views/test_commands.py::test_the_cost",
    "tests/test_adapters.py::test_what_only_the_memory",
    "tests/test_repeats.py::TestEmbeddedModel::test_every_session",
    "tests/server/test_mcp.py::test_the_command",
    "tests/server/test_process.py::test_a_model_that_cannot",
    # a package of one's own
    "tests/test_example_package.py::test_a_view",
    "tests/test_example_package.py::test_an_installed",
)
"""How the ids of tests begin that take five seconds or more each, for whole programs that they start, kill or compare."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow and long tests, and put them first: at the end of a run, two workers then share quick ones evenly."""
    for item in items:
        if item.nodeid.startswith((*SLOW, *LONG)) or "[postgres" in item.nodeid:
            item.add_marker(pytest.mark.slow)
        if item.nodeid.startswith(LONG):
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session", autouse=True)
def network_blocked() -> Iterator[None]:
    """Fail whatever connects to anything but loopback; a code path that swallows exceptions does not hide it."""
    plain = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex")}

    def guarded(name: str) -> Callable[..., Any]:
        def connect(self: socket.socket, address: Any) -> Any:
            if self.family != socket.AF_UNIX and not _is_loopback(address[0]):
                pytest.fail(f"a test connects to {address[0]!r}; tests reach nothing but loopback")
            return plain[name](self, address)

        return connect

    with pytest.MonkeyPatch.context() as patch:
        for name in plain:
            patch.setattr(socket.socket, name, guarded(name))
        yield


def _is_loopback(host: str | bytes) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return name in ("localhost", "")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def encoder() -> SentenceEncoder:
    """The real default encoder."""
    return SentenceEncoder(Config().encoder.model)


@pytest.fixture(scope="session")
def topics() -> TopicExtractor:
    """The real default topic extractor."""
    settings = Config().topics
    return TopicExtractor(settings.model, settings.pos)


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Real processes that talk to a store; their parent is started once."""
    with Processes() as running:
        yield running


@pytest.fixture
def config(tmp_path: Path) -> MakeConfig:
    """Make a config whose store lies in ``tmp_path``; keys are dotted: ``config(**{"memory.k": 5})``."""

    def make(**assigned: Any) -> Config:
        values: dict[str, Any] = {"store": {"path": str(tmp_path / "store.db")}}
        for path, value in assigned.items():
            *sections, key = path.split(".")
            section = values
            for name in sections:
                section = section.setdefault(name, {})
            section[key] = value
        return parse_config(values)

    return make


@pytest.fixture
def scene(config: MakeConfig, encoder: SentenceEncoder, topics: TopicExtractor) -> Iterator[Scene]:
    """Agents over one store, closed at the end."""
    scene = Scene(config, encoder, topics)
    yield scene
    scene.close()


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)
