# SPDX-License-Identifier: Apache-2.0
"""All NATS subjects of stoker, built and parsed; no other file spells one.

Owns the rule that a name never becomes a wildcard or a second token: names pass through `token`,
which is injective into [a-z0-9_-].
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from stoker.native.errors import BadRequest

PREFIX = "stoker.v1"
NAME_BYTES_MAX = 64
"""The longest user or node name; Linux allows 32 for users and 64 for hosts."""

JOB_VERBS = (
    "submit",
    "get",
    "list",
    "cancel",
    "remove",
    "logs",
    "stdin",
    "explain",
    "trace",
    "tracing",
)
LIST_NOUNS = ("node", "device", "kernel", "queue", "telemetry", "alert")
CLUSTER_GET = ("cluster", "get")
TELEMETRY_READ = ("telemetry", "read")
AUDIT_READ = ("audit", "read")
ALERT_LIST = ("alert", "list")
ALERT_ACK = ("alert", "acknowledge")
LOOKS: tuple[tuple[str, str], ...] = (("device", "readings"), ("node", "topology"))
"""The (noun, verb) about a node that any user may send and the node answers."""
ADMIN_REQUESTS: tuple[tuple[str, str], ...] = (
    *(("queue", verb) for verb in ("set", "remove", "quota")),
    *(("node", verb) for verb in ("label", "reserve", "drain", "evict", "remove")),
    *(("device", verb) for verb in ("cordon", "uncordon")),
    *(("cluster", verb) for verb in ("limits", "remove", "admit", "upgrade")),
    ALERT_ACK,
    AUDIT_READ,
)
"""All (noun, verb) that only an administrator may send."""
USER_REQUESTS: tuple[tuple[str, str], ...] = (
    *(("job", verb) for verb in JOB_VERBS),
    *((noun, "list") for noun in LIST_NOUNS),
    *LOOKS,
    CLUSTER_GET,
    TELEMETRY_READ,
)
"""All (noun, verb) that any user may send."""
REQUESTS = (*USER_REQUESTS, *ADMIN_REQUESTS)
READS: tuple[tuple[str, str], ...] = (
    ("job", "get"),
    ("job", "list"),
    ("queue", "list"),
    CLUSTER_GET,
)
"""The (noun, verb) that every scheduler can answer, because the replicated state has all of it."""
LEADER_READS: tuple[tuple[str, str], ...] = (
    ("job", "explain"),
    *((noun, "list") for noun in ("node", "device", "kernel")),
)
"""The reads that the leader alone answers, with what it heard or remembers; others name it."""
CHOSEN_READS = (*READS, *LEADER_READS, AUDIT_READ)
"""All (noun, verb) that a user may send to a scheduler of their choice."""
ANY = "any"
"""Names no scheduler: the broker chooses one."""
QUERIES = ("logs", "stdin", "trace", "devices", "ping", "ranks", "alerts")
"""The kinds of queries to a node: on behalf of a user, `ping` to look after another node, and
`ranks`, which tells it the leader's verdict on ranks of its own."""

LOG_STREAM = "SCHED_LOG"
LOG = f"{PREFIX}.log.entry"
"""The only subject of the stream, so that the stream's sequence is the log's index."""

NAMES_KEPT = 4096
"""The names whose tokens, and the subjects of requests whose parts, are kept: each message and each
row of telemetry asks for one."""
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_-]*", re.ASCII)
_ENCODED = "x--"


class UserRequest(NamedTuple):
    """The address of a user's request in the control account; the broker wrote the name."""

    user: str
    noun: str
    verb: str
    chosen: bool = False
    """True if the user chose this scheduler, so that no other one answers."""


class NodeMessage(NamedTuple):
    """The address of a message of a node; the broker's allow-list ties the name to the key."""

    node: str
    what: str


@lru_cache(NAMES_KEPT)
def token(name: str) -> str:
    """Return a user or node name as one token: the name if plain, else `x--` and its hex bytes."""
    raw = name.encode()
    if not 0 < len(raw) <= NAME_BYTES_MAX:
        raise BadRequest(f"a name has 1 to {NAME_BYTES_MAX} bytes, not {len(raw)}: {name[:80]!r}")
    if _PLAIN.fullmatch(name) and not name.startswith(_ENCODED):
        return name
    return _ENCODED + raw.hex()


def name_of(text: str) -> str:
    """Return the name of a token; BadRequest unless `token` made it."""
    try:
        name = bytes.fromhex(text[3:]).decode() if text.startswith(_ENCODED) else text
        if token(name) == text:
            return name
    except ValueError:
        pass
    raise BadRequest(f"not a name token: {text[:80]!r}")


# --- users -> scheduler ---------------------------------------------------------------------------


def request(noun: str, verb: str) -> str:
    """Return a request's subject inside the user's account: `stoker.v1.job.submit`."""
    return f"{PREFIX}.{noun}.{verb}"


def user_request(user: str, noun: str, verb: str) -> str:
    """Return a request's subject in the control account, with the user's name."""
    return f"{PREFIX}.user.{token(user)}.{noun}.{verb}"


def requests_of_user(user: str) -> str:
    """Return the subject of all requests of one user, to subscribe to."""
    return f"{PREFIX}.user.{token(user)}.*.*"


@lru_cache(NAMES_KEPT)
def parse_user_request(subject: str) -> UserRequest:
    """Parse the subject that `user_request` or `user_read` makes."""
    chosen = is_read(subject)
    user, *_, noun, verb = _fields(subject, *(("read", 4) if chosen else ("user", 3)))
    if (noun, verb) not in (CHOSEN_READS if chosen else REQUESTS):
        raise BadRequest(f"no such request: {noun[:40]}.{verb[:40]}")
    return UserRequest(name_of(user), noun, verb, chosen)


EVERY_USER_REQUEST = f"{PREFIX}.user.*.*.*"


def at(number: int) -> str:
    """Return the token of a scheduler, by its number: as `stoker cluster` shows it."""
    return f"{number:016x}"


def check_at(text: str) -> str:
    """Return the token of a scheduler as a person writes it, or BadRequest."""
    if text == ANY or re.fullmatch("[0-9a-f]{16}", text, re.ASCII):
        return text
    raise BadRequest(
        f"{text[:80]!r} names no scheduler",
        hint=f"16 hexadecimal digits as `stoker cluster` shows them, or {ANY}",
    )


def read(at: str, noun: str, verb: str) -> str:
    """Return the subject, inside the user's account, of a read at a chosen scheduler."""
    return f"{PREFIX}.read.{at}.{noun}.{verb}"


def user_read(user: str, at: str, noun: str, verb: str) -> str:
    """Return the subject of such a read in the control account, with the user's name."""
    return f"{PREFIX}.read.{token(user)}.{at}.{noun}.{verb}"


def reads_of_user(user: str, at: str) -> str:
    """Return the subject of all reads of one user at a scheduler, to subscribe to."""
    return f"{PREFIX}.read.{token(user)}.{at}.*.*"


def is_read(subject: str) -> bool:
    """True if a subject was made by `user_read`."""
    return subject.startswith(f"{PREFIX}.read.")


EVERY_READ = f"{PREFIX}.read.*.*.*.*"
READERS = "readers"
"""The queue group of all schedulers, of which one gets a read at ANY."""
EVERY_AGENT_INBOX = "_INBOX.agent.*.>"


# --- scheduler -> nodes ---------------------------------------------------------------------------


def command(node: str) -> str:
    """Return the subject of signed NodeCommands for one node."""
    return f"{PREFIX}.cmd.{token(node)}"


def lease_answer(node: str) -> str:
    """Return the subject of signed LeaseAnswers for one node."""
    return f"{PREFIX}.lease.{token(node)}.answer"


def query(node: str, what: str) -> str:
    """Return the subject of a query to one node; `what` is one of QUERIES."""
    return f"{PREFIX}.ask.{token(node)}.{what}"


def parse_query(subject: str) -> NodeMessage:
    """Parse the subject that `query` makes."""
    parts = _fields(subject, "ask", 2)
    if parts[1] not in QUERIES:
        raise BadRequest(f"no such query: {parts[1][:40]}")
    return NodeMessage(name_of(parts[0]), parts[1])


# --- nodes -> scheduler ---------------------------------------------------------------------------


def hello(node: str) -> str:
    """Return the subject of a NodeReport, which is answered once it is committed."""
    return f"{PREFIX}.node.{token(node)}.hello"


def outcome(node: str) -> str:
    """Return the subject of a list of Outcome, which is answered once it is committed."""
    return f"{PREFIX}.node.{token(node)}.outcome"


def log_range(node: str) -> str:
    """Return the subject of a StateRequest; its reply is a signed DesiredState."""
    return f"{PREFIX}.node.{token(node)}.range"


def lease_request(node: str) -> str:
    """Return the subject of a LeaseRequest about once a second, answered on `lease_answer`."""
    return f"{PREFIX}.lease.{token(node)}.request"


def observation(node: str) -> str:
    """Return the subject of one Observation a second, which is not answered and never logged."""
    return f"{PREFIX}.obs.{token(node)}"


def records(user: str, node: str, job: int) -> str:
    """Return the subject of a job's records for one user; they are not answered, never logged."""
    return f"{PREFIX}.records.{token(user)}.{token(node)}.{job}"


def records_of_user(user: str) -> str:
    """Return the subject of all records for one user, which the user's account imports."""
    return f"{PREFIX}.records.{token(user)}.>"


def records_of_node(node: str) -> str:
    """Return the subject of all records that one node may publish."""
    return f"{PREFIX}.records.*.{token(node)}.*"


def kernels(user: str, node: str, job: int) -> str:
    """Return the subject of summaries of a job's kernels, at most one a second."""
    return f"{PREFIX}.kernels.{token(user)}.{token(node)}.{job}"


def alerts(node: str) -> str:
    """Return the subject of a node's alerts: each change of one."""
    return f"{PREFIX}.alerts.{token(node)}"


def kernels_of_node(node: str) -> str:
    """Return the subject of all summaries that one node may publish."""
    return f"{PREFIX}.kernels.*.{token(node)}.*"


def spooled_output(node: str, key: tuple[int, int, int, int], stream: str) -> str:
    """Return the subject of the spooled output of one stream of one attempt of one task; `key` has
    the numbers of a `TaskKey`."""
    return f"{PREFIX}.output.{token(node)}.{'.'.join(map(str, key))}.{stream}"


def spooled_by_node(node: str) -> str:
    """Return the subject of all output that one node may spool."""
    return f"{PREFIX}.output.{token(node)}.*.*.*.*.*"


EVERY_SPOOLED_OUTPUT = f"{PREFIX}.output.>"
EVERY_RECORDS = f"{PREFIX}.records.*.>"
RECORDS_USER_POSITION = 4
"""The position of the user's token in a records subject; only that user's account may import it."""


NODE_REQUESTS = ("hello", "outcome", "range")
EVERY_NODE_REQUEST = f"{PREFIX}.node.*.*"
EVERY_OBSERVATION = f"{PREFIX}.obs.*"
EVERY_ROTATION = f"{PREFIX}.rotate.*"
EVERY_LEASE_REQUEST = f"{PREFIX}.lease.*.request"
EVERY_LEASE_ANSWER = f"{PREFIX}.lease.*.answer"


def parse_node_request(subject: str) -> NodeMessage:
    """Parse a subject that `hello`, `outcome` or `log_range` makes."""
    parts = _fields(subject, "node", 2)
    if parts[1] not in NODE_REQUESTS:
        raise BadRequest(f"no such request of a node: {parts[1][:40]}")
    return NodeMessage(name_of(parts[0]), parts[1])


def rotation(node: str) -> str:
    """Return the subject of a node's request to the registrar for another key."""
    return f"{PREFIX}.rotate.{token(node)}"


def parse_rotation(subject: str) -> str:
    """Return the node of a rotation's subject."""
    return name_of(_fields(subject, "rotate", 1)[0])


def parse_lease_request(subject: str) -> str:
    """Return the node of a lease request's subject."""
    node, what = _fields(subject, "lease", 2)
    if what != "request":
        raise BadRequest(f"not a lease request: {subject[:120]!r}")
    return name_of(node)


def parse_observation(subject: str) -> str:
    """Return the node of an observation's subject."""
    return name_of(_fields(subject, "obs", 1)[0])


# --- scheduler -> whoever subscribes --------------------------------------------------------------


def decisions(user: str) -> str:
    """Return the subject of the decisions about one user's jobs, in batches."""
    return f"{PREFIX}.decisions.{token(user)}"


def outcomes(user: str) -> str:
    """Return the subject of the outcomes of one user's jobs, in batches."""
    return f"{PREFIX}.outcomes.{token(user)}"


def job_events(user: str) -> str:
    """Return the subject of the changes of one user's jobs, in batches."""
    return f"{PREFIX}.events.job.{token(user)}"


CLUSTER_EVENTS = f"{PREFIX}.events.cluster"
"""The changes of nodes, devices and leaders."""


# --- broker -> schedulers -------------------------------------------------------------------------


def refusals(server: str) -> str:
    """Return the subject on which the broker with this id tells of connections that it refused."""
    return f"{PREFIX}.refused.{server}"


EVERY_REFUSAL = refusals("*")


# --- scheduler -> schedulers ----------------------------------------------------------------------


def peer(number: int) -> str:
    """Return the subject of sealed peers' messages to one scheduler, by its number."""
    return f"{PREFIX}.peer.{number}"


EVERY_PEER = f"{PREFIX}.peer.*"


# --- hosts that join -> registrar -----------------------------------------------------------------

JOIN_NODE = f"{PREFIX}.join.node"
"""The subject of a signed JoinRequest of a host that is to become a node."""
SERVER_TABLES = f"{PREFIX}.join.tables"
"""The subject on which servers request of the first one what all of them must have alike."""


# --- inboxes --------------------------------------------------------------------------------------


def inbox(identity: str) -> str:
    """Return the inbox prefix of one identity (`scheduler`, `agent.<node>`), which alone may
    subscribe there."""
    return ".".join(["_INBOX", *(token(part) for part in identity.split(".", 1))])


def _fields(subject: str, head: str, count: int) -> list[str]:
    parts = subject.split(".")
    if parts[:3] != [*PREFIX.split("."), head] or len(parts) != 3 + count:
        raise BadRequest(f"not a {PREFIX}.{head} subject: {subject[:120]!r}")
    return parts[3:]
