# SPDX-License-Identifier: Apache-2.0
"""The status of one replica in a line, for its daemon and the status file.

Without I/O. Owns the first word, which monitors read: `ok`, `waiting` or `blocked`.
"""

from __future__ import annotations

from stoker.mesh.log.log_outage import LogOutage
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.wire.scheduler_figures import OUT_OF_ROSTER


def status_line(leadership: Leadership, outage: LogOutage, *, is_member: bool) -> str:
    """Return the status of a replica; `is_member` is true if it is in the roster."""
    if leadership.halted:
        return f"blocked: halted: {leadership.why}"
    if leadership.beyond:
        return f"blocked: {leadership.beyond}"
    if not is_member:
        return f"waiting: {OUT_OF_ROSTER}"
    if outage.is_down:
        return f"blocked: {leadership.why}"
    if refused := outage.full or outage.disk:
        return f"blocked: submits are refused: {refused}"
    follows = leadership.role == "following" and leadership.leader
    return "ok" if leadership.leads or follows else f"waiting: {leadership.role}"
