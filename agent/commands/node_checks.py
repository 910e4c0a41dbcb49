# SPDX-License-Identifier: Apache-2.0
"""The checks of the node in one state folder: its settings, its processes and what they say.

For `stoker doctor`. A check changes nothing in the folder, and talks to no other host.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.agent.commands.doctor_check import Check
from stoker.agent.state import gossip_files, metrics_config, state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import (
    broker_port,
    leftover_cgroups,
    lock,
    log_rotation,
    own_users,
    pids,
    start_failure,
    start_options,
    state_check,
    told_status,
)
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.gossip.membership import FAILED
from stoker.native.errors import StokerError

if TYPE_CHECKING:
    from stoker.mesh.wire.schema_telemetry import TelemetryList

NAMED_MAX = 4
"""The most members of the mesh that one line names."""
REFUSED_KEY = "Authorization Violation"
"""The broker's word to a key that it does not take."""


def config(where: StateFolder) -> Iterator[Check]:
    """Check config.toml; what it says of the broker's program holds for the checks after this."""
    from stoker.agent.config import kept

    file = kept.path(where)
    if not where.root.exists() or not file.exists():
        yield Check("config.file", "PASS", "no config.toml: every setting has its default")
        return
    start_options.hand_on(kept.up_config(where))
    yield Check("config.file", "PASS", f"{file}: no fault")


def state(where: StateFolder) -> Iterator[Check]:
    """Check that the folder is whole and private."""
    if not where.root.exists() or not state_folder.exists(where):
        yield Check("state.folder", "PASS", f"{where.root} is not set up yet: `stoker up` does")
        return
    cluster = state_folder.load(where)
    state_check.check_owners(where)
    if cluster.is_first or not cluster.waits:
        users = None if cluster.joined else own_users.load(where)
        state_check.check(where, users, cluster.admin)
    yield Check(
        "state.folder", "PASS", f"{where.root}, format {state_folder.FORMAT}, {cluster.cluster}"
    )


def running(where: StateFolder) -> Iterator[Check]:
    """Check whether a node runs here, and all of its processes."""
    found, held = pids.find(where), lock.holder(where) if where.root.exists() else None
    trees = leftover_cgroups.trees(where.instance)
    if held is not None:
        yield Check("node.running", "PASS", f"supervisor pid {held}; {', '.join(sorted(found))}")
    elif found or trees:
        what = [*sorted(found), *(str(tree) for tree in trees)]
        yield Check(
            "node.running",
            "WARN",
            f"no supervisor, but {', '.join(what)}",
            "`stoker up` adopts it, `stoker down` ends it",
        )
    else:
        yield Check("node.running", "PASS", "nothing runs")


def port(where: StateFolder) -> Iterator[Check]:
    """Check that nothing else has the broker's port."""
    if lock.holder(where) is not None or not state_folder.exists(where):
        return
    cluster = state_folder.load(where)
    port = cluster.port
    if cluster.joined:
        yield Check("broker.port", "PASS", f"this node uses the broker at {cluster.url}")
        return
    if port and not broker_port.is_free(port, cluster.address or LOOPBACK):
        yield Check(
            "broker.port",
            "WARN",
            f"port {port} is in use by {broker_port.holder(port)}",
            "the next `stoker up` takes another one",
        )
        return
    yield Check("broker.port", "PASS", f"port {port} is free")


def gossip(where: StateFolder) -> Iterator[Check]:
    """Check the gossip mesh; without it a cluster of two nodes gives no node up."""
    if not state_folder.exists(where):
        return
    cluster = state_folder.load(where)
    if unwanted := gossip_files.unwanted(where, cluster):
        yield Check("gossip.mesh", "PASS", f"no member of a gossip mesh: {unwanted}")
    elif lack := gossip_files.lack(where):
        hint = "Install Debian's package serf" if gossip_files.program() is None else ""
        yield Check("gossip.mesh", "WARN", f"no member of the gossip mesh: {lack}", hint)
    elif lock.holder(where) is None:
        yield Check("gossip.mesh", "PASS", f"{gossip_files.program()} starts with the node")
    else:
        yield _members(where)


def _members(where: StateFolder) -> Check:
    from stoker.agent.link import member_list

    try:
        rows = asyncio.run(member_list.listed(where))
    except StokerError as error:
        hint = f"Its log is {where.log / f'{gossip_files.SERF}.log'}"
        return Check("gossip.mesh", "WARN", error.message, hint)
    failed = [row.name for row in rows if row.state == FAILED]
    text = f"{len(rows)} members of the gossip mesh, {len(failed)} of them failed"
    if failed:
        names = ", ".join(failed[:NAMED_MAX])
        return Check("gossip.mesh", "WARN", f"{text}: {names}", "`stoker cluster members`")
    return Check("gossip.mesh", "PASS", text)


def scheduler(where: StateFolder) -> Iterator[Check]:
    """Check this host's scheduler by what it says of itself; a host that joined has none."""
    from stoker.agent.export import scheduler_metrics
    from stoker.mesh.wire.scheduler_figures import OUT_OF_ROSTER

    if lock.holder(where) is None or not state_folder.exists(where):
        return
    cluster = state_folder.load(where)
    if cluster.joined or cluster.waits:
        return
    if "scheduler" not in pids.find(where):
        yield _away(where)
        return
    found = scheduler_metrics.read(where.root / "scheduler", time.time_ns())
    if found is None:
        return
    if found.status == "ok":
        role = "leads" if found.leads else "follows"
        yield Check("scheduler.state", "PASS", f"{role} in term {found.term}, entry {found.index}")
        return
    hint = "The scheduler's log file tells more"
    if found.status.endswith(OUT_OF_ROSTER):
        hint = "It counts for no majority; a server that counts lets it in: stoker cluster admit"
    yield Check("scheduler.state", "WARN", found.status, hint)


def _away(where: StateFolder) -> Check:
    """Return why the scheduler does not run at this moment, by the end of its log file."""
    log = where.log / "scheduler.log"
    last = start_failure.last_error(log_rotation.tail(log)) or "its log file is empty"
    hint = f"It is started again by itself; if it ends again, do what {log} says"
    return Check("scheduler.state", "WARN", f"it does not run: {last}", hint)


def agent(where: StateFolder) -> Iterator[Check]:
    """Check that this node's agent hears its scheduler, by what it told the supervisor last."""
    if lock.holder(where) is None or "agent" not in pids.find(where):
        return
    told = told_status.newest(where, "agent")
    if told == "ok":
        yield Check("agent.state", "PASS", "a scheduler answers this node")
    elif told and any(REFUSED_KEY in line for line in log_rotation.tail(where.log / "agent.log")):
        text = f"{told}: the cluster does not take this node's key"
        hint = "`stoker cluster keys` where the cluster was made tells if it was revoked; then"
        yield Check("agent.state", "WARN", text, f"{hint} this host joins again, in a new folder")
    elif told:
        hint = f"Jobs of this host freeze when its lease ends; {where.log / 'agent.log'} tells more"
        yield Check("agent.state", "WARN", told, hint)


def telemetry(where: StateFolder) -> Iterator[Check]:
    """Check the streams that keep telemetry; nothing to check while the node does not run."""
    if lock.holder(where) is None:
        return
    if state_folder.has_joined(where) and not any(where.keys.glob("user-*")):
        text = "no user has a key on this host, so a server's doctor tells"
        yield Check("telemetry.streams", "PASS", text)
        return
    streams = asyncio.run(_telemetry_streams(where))
    for each in streams.streams:
        id = f"telemetry.{each.kind}"
        if each.why:
            yield Check(id, "WARN", f"not kept, only live: {each.why}")
            continue
        size, room = (each.bytes or 0) / (1 << 20), each.max_bytes >> 20
        back = (time.time_ns() - each.oldest_t_ns) / 1e9 if each.oldest_t_ns is not None else 0
        text = f"{each.messages} messages, {size:.1f} of {room} MiB, back to {back:.0f} s"
        yield Check(id, "PASS", f"{text}; {each.discarded} discarded to make room")
    if streams.dropped:
        text = f"{streams.dropped} decisions, outcomes or events were never published"
        yield Check("telemetry.dropped", "WARN", text, "The scheduler's log file tells why")


def metrics(where: StateFolder) -> Iterator[Check]:
    """Check the metrics page by what the running agent says of it."""
    told = metrics_config.serving(where)
    if lock.holder(where) is None or told is None:
        return
    if told.address:
        yield Check("metrics.page", "PASS", f"http://{told.address}/metrics")
    elif told.why == metrics_config.OFF:
        yield Check("metrics.page", "PASS", "off")
    else:
        hint = "Give another address: [metrics] in config.toml, or `stoker up --metrics`"
        yield Check("metrics.page", "WARN", told.why, hint)


async def _telemetry_streams(where: StateFolder) -> TelemetryList:
    from stoker.mesh.client.client import Client

    async with Client.open(str(where.root), patience_s=2.0) as client:
        return await client.telemetry_streams()
