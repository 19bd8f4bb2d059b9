"""What a turn makes of a database that fails: what was said is kept, a retry answers it, nothing is there twice."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from agent_parts import START, Clock
from server_parts import Served

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.errors import BackboneError, StoreError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor

psycopg = pytest.importorskip("psycopg")
AT = datetime(2024, 5, 1, tzinfo=UTC)
OTHERS = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s AND pid != pg_backend_pid()"


@pytest.fixture
def small_disk(postgres_server: str) -> Iterator[str]:
    """A database on a disk of 60 MB; skips where none can be mounted."""
    folder = Path(tempfile.mkdtemp(prefix="ld-agent-disk-"))
    with psycopg.connect(postgres_server, autocommit=True) as db:
        [data] = db.execute("SHOW data_directory").fetchone()
        mounted = os.path.exists(data) and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(folder)], capture_output=True, check=False
        )
        if not mounted or mounted.returncode:
            folder.rmdir()
            pytest.skip("a small disk cannot be mounted here")
        owner = os.stat(data)
        os.chown(folder, owner.st_uid, owner.st_gid)
        folder.chmod(0o700)
        try:
            db.execute(f"CREATE TABLESPACE small_disk LOCATION '{folder}'")
            db.execute("CREATE DATABASE on_small_disk TABLESPACE small_disk")
            yield urlunsplit(urlsplit(postgres_server)._replace(path="/on_small_disk"))
            db.execute("DROP DATABASE on_small_disk WITH (FORCE)")
            db.execute("DROP TABLESPACE small_disk")
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
            shutil.rmtree(folder)


def test_a_full_disk_on_the_server_is_named_and_loses_nothing(
    small_disk: str, encoder: SentenceEncoder, topics: TopicExtractor, config: Callable[..., Config]
) -> None:
    backbone = ScriptedBackbone({"generator": "How nice.", "extractor": "NO_TRAIT", "summarizer": "They met."})
    settings = config(**{"store.path": small_disk})
    with Agent(settings, backbone=backbone, encoder=encoder, topics=topics, clock=Clock()) as agent:
        talk = agent.conversation("ann")
        talk.respond("Before.")
        with psycopg.connect(small_disk, autocommit=True) as db:
            db.execute("CREATE TABLE filler (data bytea STORAGE EXTERNAL)")
            for size in (2**20, 2**13):
                with suppress(psycopg.errors.DiskFull):
                    for _ in range(200):
                        db.execute(
                            "INSERT INTO filler SELECT decode(repeat(md5(random()::text), %s), 'hex')", (size // 16,)
                        )

            def fill() -> None:
                for number in range(200):
                    talk.observe(f"{number} " + os.urandom(20_000).hex())

            with pytest.raises(StoreError, match="the server's disk is full; free some space and try again"):
                fill()
            kept = [u.text for u in talk.utterances]
            db.execute("DROP TABLE filler")
            db.execute("CHECKPOINT")
        assert kept[:2] == ["Before.", "How nice."]
        talk.respond("After.")
        assert [u.text for u in talk.utterances] == [*kept, "After.", "How nice."]


def test_a_connection_lost_while_the_model_thinks_costs_nothing(
    new_database: Callable[[], str], encoder: SentenceEncoder, topics: TopicExtractor, config: Callable[..., Config]
) -> None:
    address = new_database()

    def cut(request: Request) -> str:
        with psycopg.connect(address, autocommit=True) as db:
            db.execute(OTHERS, (urlsplit(address).path[1:],))
        return "How nice."

    backbone = ScriptedBackbone({"generator": cut, "extractor": "NO_TRAIT", "summarizer": "They met."})
    settings = config(**{"store.path": address})
    with Agent(settings, backbone=backbone, encoder=encoder, topics=topics, clock=Clock()) as agent:
        talk = agent.conversation("ann")
        for text in ("One.", "Two."):
            talk.respond(text)
        assert [u.text for u in talk.utterances] == ["One.", "How nice.", "Two.", "How nice."]


@pytest.mark.anyio
async def test_a_server_with_a_slow_clock_answers_what_a_fast_one_heard(
    served: Served, new_database: Callable[[], str]
) -> None:
    address = new_database()

    def fails(request: Request) -> str:
        raise BackboneError("the model is away")

    def clock(client: object, at: datetime) -> None:
        client.service.agent.resources.clock.at = at  # type: ignore[attr-defined]

    async with served({"generator": fails}, **{"store.path": address}) as ahead:
        clock(ahead, START + timedelta(minutes=10))
        assert (await ahead.chat("Hello.")).status_code >= 500
        assert await ahead.said() == ["Hello."]
        async with served({"generator": "How nice."}, **{"store.path": address}) as behind:
            clock(behind, START)
            assert (await behind.chat("Hello.")).status_code == 200
            assert (await behind.chat("Hello.", "How nice.", "And now?")).status_code == 200
            assert await behind.said() == ["Hello.", "How nice.", "And now?", "How nice."]
            key = behind.service.agent.store.find_conversation("ann").key
            times = [u.at for u in behind.service.agent.store.utterances(key)]
            assert times == sorted(times)
