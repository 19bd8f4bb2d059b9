"""What only PostgreSQL can do wrong: every failure is one clear line without a password, and nothing stored is lost."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from ld_agent.errors import StoreError
from ld_agent.storage.address import shown
from ld_agent.storage.exchange import copy_store, export_lines
from ld_agent.storage.opening import existing_store, open_store, schema_version
from ld_agent.storage.rows import moment
from ld_agent.storage.served import Keys
from ld_agent.storage.sqlite.store import SQLiteStore
from ld_agent.storage.store import Store

psycopg = pytest.importorskip("psycopg")
from ld_agent.storage.postgres.errors import failure  # noqa: E402 - skipped without its packages
from ld_agent.storage.postgres.migrations import MIGRATIONS, OWNED  # noqa: E402 - skipped without its packages
from ld_agent.storage.postgres.store import PostgresStore  # noqa: E402 - skipped without its packages

Fill = Callable[..., int]
AT = datetime(2024, 5, 1, tzinfo=UTC)
WORDS = '[["Ann"],[["walnut"]],[["met"]]]'
"""Of passages."""


@pytest.fixture
def address(new_database: Callable[[], str]) -> str:
    return new_database()


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    opened = open_store(address)
    yield opened
    opened.close()


def say(store: Store, key: int, text: str) -> str:
    return store.append(key, "Maya", text, AT, beta=3600, now=lambda: AT).id


def sql(address: str, *statements: str) -> None:
    with psycopg.connect(address, autocommit=True) as db:
        for statement in statements:
            db.execute(statement)


def disconnect(address: str) -> None:
    """End every other connection to the database, as a restart of the server does, and wait until they are gone."""
    sql(
        address,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid != pg_backend_pid()",
    )


def with_user(address: str, user: str) -> str:
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}"))


# ---- addresses


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("postgresql://ann:secret@db:5432/x?sslmode=require", "postgresql://ann:…@db:5432/x?sslmode=require"),
        ("postgresql://db/x?password=secret&user=ann", "postgresql://db/x?password=…&user=ann"),
        ("postgres://ann@db/x", "postgres://ann@db/x"),
        ("postgres://ann:se/cr@et?@db/x", "postgres://ann:…@db/x"),
        ("me.db", "me.db"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, expected: str) -> None:
    assert shown(address) == expected


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://nobody:secret@127.0.0.1:1/x", r"127\.0\.0\.1:1/x: the server cannot be reached"),
        ("postgresql://ann:se/cret@127.0.0.1/x", "the address cannot be read; percent-encode"),
        ("postgresql://ann:se cret%@db", "the address cannot be read; percent-encode"),
    ],
)
def test_an_address_that_leads_nowhere_is_one_line_without_the_password(address: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as raised:
        open_store(address)
    for cause in (raised.value, raised.value.__cause__):
        assert "cret" not in str(cause)
    assert "\n" not in str(raised.value)


def test_a_database_is_refused_that_is_missing_or_has_no_store_or_a_newer_one(address: str) -> None:
    with pytest.raises(StoreError, match="no database of this name"):
        open_store(urlunsplit(urlsplit(address)._replace(path="/nowhere")))
    sql(address, "DROP SCHEMA ld_agent CASCADE")
    with pytest.raises(StoreError, match="no memory in postgresql://"):
        existing_store(address)
    assert schema_version(address) is None
    open_store(address).close()
    existing_store(address).close()
    sql(address, "UPDATE ld_agent.meta SET value = '1' WHERE key = 'schema'")
    assert [schema_version(address) for _ in range(2)] == [f"version 1 of {len(MIGRATIONS)}"] * 2, "not migrated"
    sql(address, "UPDATE ld_agent.meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(StoreError, match=r"newer ld_agent \(schema 99"):
        open_store(address)


def test_processes_that_open_an_empty_database_create_one_schema(address: str) -> None:
    sql(address, "DROP SCHEMA ld_agent CASCADE")
    with ThreadPoolExecutor(4) as threads:
        for opened in threads.map(open_store, [address] * 4):
            opened.close()


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ('FATAL:  password authentication failed for user "ann"', "the password is wrong or missing"),
        ("fe_sendauth: no password supplied", "the password is wrong or missing"),
        ('FATAL:  database "x" does not exist', "the server has no database of this name"),
        ("server closed the connection unexpectedly\n\tThis probably means", "the server cannot be reached"),
    ],
)
def test_what_a_server_says_is_explained_in_one_line(said: str, remedy: str) -> None:
    line = str(failure("db", psycopg.OperationalError(said)))
    assert line.startswith(f"db: {remedy}")
    assert "\n" not in line


# ---- a server that goes away


def test_a_connection_lost_between_transactions_is_replaced(address: str, store: Store) -> None:
    key = store.open_conversation("maya", "Sam").key
    for text in ("one", "two"):
        disconnect(address)
        say(store, key, text)
        disconnect(address)
        assert [u.text for u in store.utterances(key)][-1] == text


def test_a_connection_lost_in_a_transaction_loses_that_transaction_alone(address: str, store: Store) -> None:
    key = store.open_conversation("maya", "Sam").key
    say(store, key, "kept")

    def interrupted() -> None:
        with store.writing(key):
            say(store, key, "lost")
            disconnect(address)
            say(store, key, "never")

    with pytest.raises(StoreError, match="cannot be reached"):
        interrupted()
    assert [u.text for u in store.utterances(key)] == ["kept"]
    assert say(store, key, "again") == "u2"


def test_a_connection_lost_before_a_single_statement_is_replaced(address: str, store: Store) -> None:
    keys = Keys(store)
    prefix = keys.create("home", ["chat"], None, AT)[:12]
    disconnect(address)
    assert keys.revoke(prefix, AT).revoked == AT


class CutOff:
    """A line to the server that is cut right after the server has answered to a COMMIT, before the client hears of it."""

    def __init__(self, address: str) -> None:
        given = psycopg.conninfo.conninfo_to_dict(address)
        host, port = given.get("host") or "127.0.0.1", int(given.get("port") or 5432)
        self._socket = f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        own = {"host": "127.0.0.1", "port": str(self._listening.getsockname()[1]), "sslmode": "disable"}
        query = "&".join(f"{k}={v}" for k, v in own.items())
        self.address = urlunsplit(urlsplit(address)._replace(query=query, netloc=f"{given['user']}@"))
        self.armed = False
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client = self._listening.accept()[0]
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX if isinstance(self._socket, str) else socket.AF_INET)
            server.connect(self._socket)
            cut = threading.Event()
            threading.Thread(target=self._pass, args=(client, server, cut, b"COMMIT"), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, cut, b""), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, cut: threading.Event, word: bytes) -> None:
        try:
            while data := source.recv(65536):
                if word and word in data and self.armed:
                    self.armed = False
                    cut.set()
                elif not word and cut.is_set():
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.close()


def test_an_unanswered_commit_is_not_taken_for_lost(address: str) -> None:
    line = CutOff(address)
    store = PostgresStore(line.address)
    key = store.open_conversation("maya", "Sam").key
    line.armed = True
    assert say(store, key, "once") == "u1"
    assert not line.armed
    assert say(store, key, "twice") == "u2"
    assert [u.text for u in store.utterances(key)] == ["once", "twice"]
    store.close()
    line.close()


def test_an_unreachable_server_differs_from_an_exhausted_pool(address: str, postgres_server: str) -> None:
    store = PostgresStore(address, wait_seconds=5)
    store.conversations()
    name = urlsplit(address).path[1:]
    sql(postgres_server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    sql(postgres_server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    with pytest.raises(StoreError, match="cannot be reached"):
        store.conversations()
    sql(postgres_server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    assert store.conversations() == []
    store.close()


def test_an_exhausted_pool_and_a_locked_conversation_are_one_line_each(address: str) -> None:
    small, other = PostgresStore(address, wait_seconds=0.2, connections=1), PostgresStore(address, wait_seconds=0.2)
    key = small.open_conversation("maya", "Sam").key
    with small.writing(key), ThreadPoolExecutor() as threads:
        for use, message in (
            (small.conversations, "no connection became free"),
            (lambda: say(other, key, "wait"), "kept the store locked"),
        ):
            with pytest.raises(StoreError, match=message):
                threads.submit(use).result()
    assert say(other, key, "now") == "u1"
    small.close()
    other.close()


# ---- deletion, copies


def test_no_row_of_a_deleted_conversation_is_left(address: str, fill: Fill) -> None:
    store = open_store(address)
    fill(store, "ben")
    kept = list(export_lines(store, "ben"))
    key = fill(store, "secret", "Quetzalcoatlus")
    shelf = store.shelf(key, "events")
    [row] = shelf.rows_after(0)
    shelf.set_passages({row.key: ('[[],[],[["quetzalcoatlus"]]]', b"x")})
    shelf.keep_snapshot(row.key, b"Quetzalcoatlus")
    store.delete_conversation(key)
    store.close()
    with psycopg.connect(address) as db:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'ld_agent'"
        for (table,) in db.execute(query).fetchall():
            rows = db.execute(f"SELECT {table}::text FROM ld_agent.{table}").fetchall()
            assert not any("uetzalcoatlus" in row[0] for row in rows), table
        assert db.execute("SELECT count(*) FROM ld_agent.passage").fetchone() == (0,)
    again = open_store(address)
    assert list(export_lines(again, "ben")) == kept
    again.close()


def test_a_copy_between_engines_resumes_and_exports_the_same(address: str, tmp_path: Path, fill: Fill) -> None:
    file, database = SQLiteStore(tmp_path / "a.db"), open_store(address)
    for name, word in (("ann", "walnut"), ("zoe\0 \x1a0", "pistachio")):
        fill(file, name, word)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_store(file, database, interrupt)
    assert [c.id for c in database.conversations()] == ["ann"]
    assert copy_store(file, database) == 1
    back = SQLiteStore(tmp_path / "b.db")
    assert copy_store(database, back) == 2
    assert list(export_lines(back)) == list(export_lines(database)) == list(export_lines(file))
    back.rename_agent(back.open_conversation("ann", "Sam").key, "Kim")
    with pytest.raises(StoreError, match="differs from the one in"):
        copy_store(database, back)
    for store in (file, database, back):
        store.close()


# ---- tenants


def test_a_tenant_sees_and_adds_only_its_own_rows(address: str, fill: Fill) -> None:
    store = open_store(address)
    keys = {tenant: fill(store, f"{tenant}/ann", tenant) for tenant in ("home", "shop")}
    for key in keys.values():
        shelf = store.shelf(key, "events")
        [row] = shelf.rows_after(0)
        shelf.set_passages({row.key: ("[]", b"x")})
    store.close()
    with psycopg.connect(address, autocommit=True) as db:
        every = {name for (name,) in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'ld_agent'")}
        forced = "SELECT relname FROM pg_class WHERE relnamespace = 'ld_agent'::regnamespace AND relforcerowsecurity"
        assert {name for (name,) in db.execute(forced)} == every
        db.execute("SET ROLE ld_agent_rows")
        db.execute("SET search_path = ld_agent, public")
        for table in ("conversation", *OWNED):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table  # nobody is named
        db.execute("SELECT set_config('ld_agent.tenant', 'home', false)")
        for table in ("conversation", "utterance", "record", "trait", "session", "passage"):
            assert db.execute(f"SELECT DISTINCT tenant FROM {table}").fetchall() == [("home",)], table
        assert db.execute("SELECT count(*) FROM record_0").fetchone() == (0,)  # nor past the policy of the whole
        assert db.execute("UPDATE conversation SET agent = 'x' WHERE id = 'shop/ann'").rowcount == 0
        assert db.execute("DELETE FROM utterance WHERE conversation = %s", (keys["shop"],)).rowcount == 0
        speaker = "INSERT INTO speaker (conversation, name, first, tenant) VALUES (%s, 'Eve', 1, %s)"
        db.execute(speaker, (keys["home"], "home"))
        for tenant, problem in (("shop", "row-level security"), ("home", "foreign key")):
            with pytest.raises(psycopg.Error, match=problem):
                db.execute(speaker, (keys["shop"], tenant))
        with pytest.raises(psycopg.Error, match="row-level security"):
            db.execute("INSERT INTO conversation (id, agent) VALUES ('shop/eve', 'Sam')")


def test_no_statement_of_the_confined_role_reaches_rows_of_another_tenant(address: str, fill: Fill) -> None:
    """Every table that has a tenant, each of its partitions, and every kind of statement, with no policy to help them."""
    store = open_store(address)
    fill(store, "home/ann", "home")
    fill(store, "shop/ann", "shop")
    store.close()
    every = "SELECT relname FROM pg_class WHERE relnamespace = 'ld_agent'::regnamespace AND relkind IN ('r', 'p')"
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("SET search_path = ld_agent, public")
        tables = sorted({name for (name,) in db.execute(every)} - {"meta"})
        assert set(tables) >= {"conversation", "api_key", *OWNED}
        columns = {}
        for table in tables:
            named = (
                "SELECT column_name FROM information_schema.columns WHERE table_schema = 'ld_agent' AND table_name = %s"
            )
            columns[table] = {name for (name,) in db.execute(named, (table,))}
            assert "tenant" in columns[table], table
        before = {table: db.execute(f"SELECT {table}::text FROM {table} ORDER BY 1").fetchall() for table in tables}
        db.execute("SET ROLE ld_agent_rows")
        for tenant in ("", "home", "Shop", "shop ", "%", "shop/", "*"):
            db.execute("SELECT set_config('ld_agent.tenant', %s, false)", (tenant,))
            for table in tables:
                theirs = f"FROM {table} WHERE tenant = 'shop'"
                reads = (f"SELECT {table}::text {theirs}", f"SELECT count(*) {theirs} HAVING count(*) > 0")
                for read in (*reads, f"WITH x AS (SELECT * {theirs}) SELECT 1 FROM x", f"TABLE {table}"):
                    with suppress(psycopg.errors.InsufficientPrivilege):  # a partition is read through its whole
                        assert not [row for row in db.execute(read) if "shop" in str(row) and tenant != "shop"], read
                for write in (
                    f"UPDATE {table} SET tenant = 'home' WHERE tenant = 'shop'",
                    f"DELETE {theirs}",
                    f"UPDATE {table} SET tenant = 'shop' WHERE tenant = 'home'",
                    f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * {theirs}",
                    f"MERGE INTO {table} AS t USING (SELECT 1) AS s ON t.tenant = 'shop' WHEN MATCHED THEN DELETE",
                ):
                    with suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.GeneratedAlways):
                        assert db.execute(write).rowcount == 0, (tenant, write)
                for never in (
                    f"TRUNCATE {table}",
                    f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE",
                    f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
                    f"CREATE POLICY p ON {table} USING (true)",
                    f"DROP TABLE {table}",
                    f"COPY {table} TO PROGRAM 'cat'",
                ):
                    with pytest.raises(psycopg.Error):
                        db.execute(never)
        db.execute("RESET ROLE")
        after = {table: db.execute(f"SELECT {table}::text FROM {table} ORDER BY 1").fetchall() for table in tables}
    assert after == before


def test_a_store_of_schema_1_keeps_everything(postgres_server: str, fill: Fill, tmp_path: Path) -> None:
    name = "schema_1_test"
    sql(postgres_server, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    old = urlunsplit(urlsplit(postgres_server)._replace(path=f"/{name}"))
    try:
        sql(
            old,
            "CREATE EXTENSION vector",
            "CREATE SCHEMA ld_agent",
            "SET search_path = ld_agent, public",
            *(step.replace("vector bytea", "vector vector") for step in MIGRATIONS[0]),
            "INSERT INTO meta VALUES ('schema', '1')",
            "INSERT INTO conversation (id, agent, utterances, records) VALUES ('home/ann', 'Sam', 1, 1), ('ben', 'Sam', 0, 0)",
            "INSERT INTO session (conversation, number) VALUES (1, 1)",
            "INSERT INTO utterance (conversation, id, session, speaker, text, at) VALUES (1, 'u1', 1, 'Ann', 'Hi.', 5)",
            "INSERT INTO record (conversation, id, view, session, text, at, topics, sources, vector) "
            "VALUES (1, 'm1', 'events', 1, 'They met.', 5, '[]', '[\"u1\"]', '[1,0]')",
            "INSERT INTO trait (conversation, id, speaker, text, at, source, last_at, superseded_by) VALUES "
            "(1, 't1', 'Ann', 'I row.', 5, 'u1', 5, 't2'), (1, 't2', 'Ann', 'I never row.', 7, 'u1', 7, NULL)",
            f"INSERT INTO passage VALUES (1, '{WORDS}', 'v')",
        )
        store = open_store(old)
        assert [c.id for c in store.conversations()] == ["ben", "home/ann"]
        assert [u.text for u in store.utterances(1)] == ["Hi."]
        shelf = store.shelf(1, "events")
        assert [(r.id, r.text) for r in store.records(1)] == [("m1", "They met.")]
        assert store.without_vector() == [
            ("record", 1, "They met."),
            ("trait", 1, "I row."),
            ("trait", 2, "I never row."),
        ]
        assert (shelf.passage_words([1]), shelf.passage_vectors([1])) == ({1: WORDS}, {1: b"v"})
        ends = [(t.holds_until, t.ended_by) for t, _ in store.personas(1).traits()]
        assert ends == [(moment(7), "u1"), (None, "")]
        assert say(store, 1, "Again.") == "u2"
        store.close()
        with psycopg.connect(old) as db:
            assert db.execute("SELECT DISTINCT tenant FROM ld_agent.utterance").fetchall() == [("home",)]
            tenants = db.execute("SELECT id, tenant FROM ld_agent.conversation ORDER BY id").fetchall()
            assert tenants == [("ben", "/"), ("home/ann", "home")]
    finally:
        sql(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")


def test_policies_also_apply_to_an_owner_without_superuser_rights(address: str, fill: Fill) -> None:
    role = "owner_" + urlsplit(address).path[-8:]
    sql(
        address,
        "DROP SCHEMA ld_agent CASCADE",
        f"CREATE ROLE {role} LOGIN",
        f'GRANT CREATE ON DATABASE "{urlsplit(address).path[1:]}" TO {role}',
    )
    try:
        store = open_store(with_user(address, role))
        key = fill(store, "home/ann")
        assert len(store.utterances(key)) == 4
        store.delete_conversation(key)
        fill(store, "home/ann")
        store.close()
        with psycopg.connect(with_user(address, role), autocommit=True) as db:
            db.execute("SELECT set_config('ld_agent.tenant', 'shop', false)")
            assert db.execute("SELECT count(*) FROM ld_agent.utterance").fetchone() == (0,)
    finally:
        sql(address, f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")
