"""Runs the application with uvicorn: binds the port before loading, and shuts down gracefully on SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from math import ceil

import uvicorn

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.errors import ConfigError, InputError
from ld_agent.server import logs
from ld_agent.server.app import create_app
from ld_agent.server.connections import patient
from ld_agent.server.identity import is_loopback
from ld_agent.storage.served import Keys

GRACE = 30.0
"""Seconds that replies and learning under way may take once the server was told to stop."""
CLEARING = 10.0
"""Seconds after the server's grace period to close the connections and the store."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handling, which would re-raise the signal after a graceful shutdown."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(configs: Mapping[str, Config], host: str, port: int, as_json: bool) -> None:
    """Serve agents over one store until stopped.

    Args:
        configs: by the model names used by clients; the server uses the settings of the first.

    Raises:
        ConfigError: the configs name several stores, or the address is reachable from other machines without keys.
        StoreError: their encoders differ.
        InputError: the address is in use.
        ModelError: a model cannot be loaded.
    """
    logs.configure(as_json)
    stores = list(dict.fromkeys(config.store.path for config in configs.values()))
    if len(stores) > 1 or (":memory:" in stores and len(configs) > 1):
        raise ConfigError(
            f"agents of one server share their memory, but these have {', '.join(stores)}; give one with --store"
        )
    agents: dict[str, Agent] = {}
    try:
        for name, config in configs.items():
            agents[name] = Agent(config, background=True)
        store = next(iter(agents.values())).resources.store
        if not is_loopback(host) and not Keys(store).in_use():
            raise ConfigError(
                f"--host {host} lets other machines in, but there are no keys; create one first: "
                f"ld-agent keys create NAME --store {store.path}"
            )
        listening = _bound(host, port)
    except BaseException:
        for agent in agents.values():
            agent.close(end_sessions=False)
        raise
    with listening:
        asyncio.run(_serve(agents, listening))


async def _serve(agents: Mapping[str, Agent], listening: socket.socket) -> None:
    failures: list[BaseException] = []

    def failed(exc: BaseException) -> None:
        failures.append(exc)
        server.should_exit = True

    server = http_server(agents, failed)
    stopping = Stopping(server, GRACE)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.request)
    logs.log.info("loading %s for http://%s:%d", ", ".join(agents), *listening.getsockname()[:2])
    await server.serve([listening])
    if failures:
        raise failures[0]


class Stopping:
    """Ends the process in time after a stop signal, even if a model hangs.

    Everything said is stored and pending work is done at the next start, so nothing is lost.

    Args:
        grace: seconds after which replies end where they are; what still runs `CLEARING` seconds later is left alone.
        leave: ends the process at once.
    """

    def __init__(self, server: uvicorn.Server, grace: float, leave: Callable[[], object] = lambda: os._exit(0)) -> None:
        end_replies = server.config.app.state.service.end_replies  # type: ignore[union-attr]
        deadlines = ((grace, end_replies), (grace + CLEARING, self._give_up))
        self._server, self._leave = server, leave
        self._timers = [threading.Timer(seconds, act) for seconds, act in deadlines]

    def request(self) -> None:
        """Stop; when requested again, do not wait for anything."""
        if self._server.should_exit:
            self._give_up()
            return
        self._server.should_exit = True
        for timer in self._timers:
            timer.daemon = True
            timer.start()

    def cancel(self) -> None:
        """Cancel the deadlines: the server has ended, but its process continues."""
        for timer in self._timers:
            timer.cancel()

    def _give_up(self) -> None:
        logs.log.warning(
            "a model did not answer in time; what was said is stored, and the rest is done at the next start"
        )
        self._leave()


def http_server(agents: Mapping[str, Agent], failed: Callable[[BaseException], None] | None = None) -> uvicorn.Server:
    """A server for an application of agents, to be run with `uvicorn.Server.serve`; see `create_app`."""
    app = create_app(agents, failed)
    config = uvicorn.Config(
        app,
        http=patient(app.state.service.config.server.patience),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=ceil(GRACE + CLEARING / 2),
        server_header=False,
    )
    return _Server(config)


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)  # with TCP by name: otherwise Nagle's algorithm stays on
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except OSError as exc:
        text = f"cannot listen on {host}, port {port} ({exc.strerror}); give another --host or --port"
        raise InputError(text) from exc
    return listening
