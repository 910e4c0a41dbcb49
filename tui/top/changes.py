# SPDX-License-Identifier: Apache-2.0
"""The changes that the live view makes once they were confirmed: requests of the verbs so named."""

from __future__ import annotations

import os
import subprocess

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.mesh.wire.schema_alerts import AlertAckRequest
from stoker.tui.top.browser import ViewChange

REASON = "from stoker top"
"""The reason that stays with a job, a device or a node."""


async def carry_out(client: Client, change: ViewChange) -> str:
    """Send a change; return what became of it in one line."""
    if change.action == "cancel":
        done = await client.cancel(change.subject, REASON)
        changed = any(job.changed for job in done.jobs)
        what = "jobs" if "-" in change.subject else "job"
        return f"{what} {change.subject}: " + ("cancelled" if changed else "it was over before")
    if change.action == "acknowledge":
        return await _acknowledge(client, change.subject)
    noun, verb, request = _request(change)
    settled = await client.settle(noun, verb, request)
    return f"{change.action} {change.subject}: {'done' if settled.changed else 'it was so before'}"


async def _acknowledge(client: Client, subject: str) -> str:
    node, _, alert = subject.rpartition(":a")
    request = AlertAckRequest(node=node, alerts=(int(alert),), reason=REASON)
    settled = await client.settle("alert", "acknowledge", request)
    return f"alert {subject}: {'acknowledged' if settled.changed else 'it was acknowledged before'}"


def _request(change: ViewChange) -> tuple[str, str, schema.Message]:
    node, is_device, device = change.subject.partition(":")
    if change.action == "cordon":
        made = schema.DeviceCordonRequest(node=node, device=device, reason=REASON)
        return "device", "cordon", made
    if change.action == "uncordon" and is_device:
        return "device", "uncordon", schema.DeviceUncordonRequest(node=node, device=device)
    drain = change.action == "drain"
    reason = REASON if drain else ""
    return "node", "drain", schema.NodeDrainRequest(node=node, drain=drain, reason=reason)


def open_shell(state: str | None, job: str) -> None:
    """Run the user's shell in this terminal, and wait for its end."""
    environment = {**os.environ, **({"STOKER_STATE": state} if state else {})}
    if job:
        environment["STOKER_JOB"] = job
    shell = environment.get("SHELL") or "/bin/sh"
    print("stoker top: `exit` leads back", flush=True)
    subprocess.run([shell], env=environment, check=False)
