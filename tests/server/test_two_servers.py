"""Two real servers on one database: requests of a person land on either; one is killed mid-turn, the other takes over."""

import json
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml
from agent_parts import START
from backbones.stage import Call, Stage, says, streams
from cli_commands import light_config
from server_parts import Served
from server_process import ServerProcess

from ld_agent.backbones.base import Request
from ld_agent.errors import BackboneError, ConversationBusyError, StoreError
from ld_agent.running.turnstile import Turnstile
from ld_agent.storage.served import Directory

psycopg = pytest.importorskip("psycopg")
from ld_agent.storage.postgres.store import PostgresStore  # noqa: E402

TRAITS = {"generator": "How nice.", "extractor": "NO_TRAIT", "summarizer": "Ann talked about her bees."}
KEPT = "Nobody may lose this."


@pytest.mark.slow
def test_one_is_killed_in_a_turn_and_the_other_continues(tmp_path: Path, new_database: Callable[[], str]) -> None:
    model, address, asked = Stage(), new_database(), threading.Event()

    def answer(call: Call) -> None:
        """Until it reads `KEPT`; that it never answers."""
        if call.body["model"] == "generator" and KEPT in str(call.body["messages"]):
            asked.set()
            call.wait_until_client_leaves()
        else:
            said = TRAITS[call.body["model"]]
            (streams(said) if call.body.get("stream") else says(said))(call)

    model.plays = [answer]
    threading.Thread(target=model.serve_forever, daemon=True).start()
    backbone = {"kind": "openai", "model": "base", "base_url": f"http://127.0.0.1:{model.server_port}/v1"}
    modules = {name: {"model": name} for name in TRAITS}
    scripted = light_config(tmp_path, **TRAITS)
    asking = tmp_path / "asking" / scripted.name  # both servers serve the same model by name
    asking.parent.mkdir()
    encoder = yaml.safe_load(scripted.read_text())["encoder"]
    asking.write_text(yaml.safe_dump({"base": "openai", "backbone": backbone, "modules": modules, "encoder": encoder}))
    folders = [tmp_path / name for name in ("first", "second")]

    def start(config: Path, folder: Path) -> ServerProcess:
        folder.mkdir()
        return ServerProcess("-c", config, "--store", address, "server.tidy=0.2", folder=folder)

    with ThreadPoolExecutor(4) as pool:
        first, second = pool.map(start, (asking, scripted), folders)
        with second:
            texts = [f"Number {number} of mine." for number in range(6)]
            for number, text in enumerate(texts):
                (first, second)[number % 2].chat(text, "ann", **{"X-LD-Thread": "t"})
            broken = pool.submit(first.chat, KEPT, "ann", **{"X-LD-Thread": "t", "Idempotency-Key": "k"})
            assert asked.wait(30)
            waiting = pool.submit(second.chat, "Meanwhile, on the phone.", "ann", **{"X-LD-Thread": "phone"})
            first.process.send_signal(signal.SIGKILL)
            first.process.wait(30)
            assert isinstance(broken.exception(30), Exception)
            assert waiting.result(30) == "How nice."
            for _ in range(2):  # a client that heard nothing asks again, and again
                again = second.chat(KEPT, "ann", **{"X-LD-Thread": "t", "Idempotency-Key": "k"})
                assert again == "How nice."
            exported = second.http.get("/v1/memory/people/ann/export").text
        first.http.close()
    model.shutdown()
    said = [json.loads(line) for line in exported.splitlines()]
    utterances = [row for row in said if row.get("kind") == "utterance"]
    heard = [row["text"] for row in utterances if row["text"] != "How nice."]
    assert sorted(heard) == sorted([*texts, KEPT, "Meanwhile, on the phone."])
    assert len(utterances) == 2 * len(heard)  # each answered once
    assert [row["id"] for row in utterances] == [f"u{n}" for n in range(1, len(utterances) + 1)]


def test_what_a_server_left_pending_is_done_by_one_that_is_free(new_database: Callable[[], str]) -> None:
    address = new_database()
    one, other = PostgresStore(address), PostgresStore(address)
    key = one.open_conversation("ann", "Sam").key
    one.append(key, "Ann", "Hello.", START, 3600, lambda: START)
    doors = [Turnstile("conversation 'ann'", True, store.turn_lock(key)) for store in (one, other)]
    came: list[str] = []

    def queue() -> None:
        with doors[1].entered():
            came.append("second")

    with doors[0].entered():
        with pytest.raises(ConversationBusyError, match="in use by another process"), doors[1].entered(waits=False):
            pass
        waiting = threading.Thread(target=queue)
        waiting.start()
        assert Directory(other).unfinished(set_aside=False) == ["ann"]
        came.append("first")
    waiting.join()
    assert came == ["first", "second"]
    with doors[0].entered():
        one.close()  # as a process that ends: its locks are free
        with doors[1].entered():
            pass
    other.close()


def test_a_store_that_closes_lets_go_of_a_turn_it_had_queued_for(new_database: Callable[[], str]) -> None:
    address = new_database()
    one, other = PostgresStore(address), PostgresStore(address)
    key = one.open_conversation("ann", "Sam").key
    locks = [store.turn_lock(key) for store in (one, other)]
    assert locks[1].acquire(waits=False)
    queued = threading.Thread(target=lambda: locks[0].acquire(waits=True))
    queued.start()
    with psycopg.connect(address, autocommit=True) as watching:
        while not watching.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone():
            pass
    locks[1].release()
    queued.join()
    one.close()
    assert locks[1].acquire(waits=True)
    locks[1].release()
    other.close()


def test_a_full_disk_of_the_database_is_named(new_database: Callable[[], str]) -> None:
    store = PostgresStore(new_database())
    with pytest.raises(StoreError, match="the server's disk is full; free some space and try again"):
        store.db.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$")
    store.close()


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
