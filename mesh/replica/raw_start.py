# SPDX-License-Identifier: Apache-2.0
"""The command that starts a task, as the replicated state makes it of the log.

Guarantees that its receiver decodes it as a StartJob, although nothing here decodes the spec.
"""

from __future__ import annotations

import msgspec

from stoker.scheduler.nouns import Decision, Gang, Owner, TaskRecord


class StartRaw(TaskRecord, tag="start", frozen=True):
    """A StartJob whose spec has the bytes of the log and is not decoded."""

    decision: Decision
    owner: Owner
    spec: msgspec.Raw
    gang: Gang | None = None
