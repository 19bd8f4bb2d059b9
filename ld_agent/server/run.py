"""Runs the application with uvicorn: binds first, loads then, and stops gently on SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator, Mapping

import uvicorn

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.errors import ConfigError, InputError
from ld_agent.server import logs
from ld_agent.server.app import create_app
from ld_agent.server.connections import patient
from ld_agent.storage.served import Keys

STOP_SECONDS = 30
"""How long replies under way may take after the server was told to stop; what is said is stored in any case."""


class _Server(uvicorn.Server):
    """uvicorn without its handling of signals, which would end the process by the signal after a gentle stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(configs: Mapping[str, Config], host: str, port: int, as_json: bool) -> None:
    """Serve agents over one store until told to stop.

    Args:
        configs: by the names under which clients ask for the agents; the first one's settings are the server's.

    Raises:
        ConfigError: the configs name several stores.
        StoreError: their encoders differ.
        InputError: the address is in use, or open to others although there are no keys.
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
        if not _is_loopback(host) and not Keys(store.db).in_use():
            raise ConfigError(
                f"--host {host} lets other machines in, but there are no keys; make one first: "
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

    def stop() -> None:
        server.force_exit = server.should_exit  # a second signal does not wait for replies
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    logs.log.info("serving %s on http://%s:%d", ", ".join(agents), *listening.getsockname()[:2])
    await server.serve([listening])
    if failures:
        raise failures[0]


def http_server(agents: Mapping[str, Agent], failed: Callable[[BaseException], None] | None = None) -> uvicorn.Server:
    """The application of some agents in front of sockets, to be run with `uvicorn.Server.serve`; see `create_app`."""
    app = create_app(agents, failed)
    return _Server(
        uvicorn.Config(
            app, http=patient(app.state.service.config.server.patience), log_config=None, access_log=False,
            timeout_graceful_shutdown=STOP_SECONDS, server_header=False,
        )
    )  # fmt: skip


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except OSError as exc:
        raise InputError(
            f"cannot listen on {host}, port {port} ({exc.strerror}); give another --host or --port"
        ) from exc
    return listening


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"
