# SPDX-License-Identifier: Apache-2.0
"""One line of the probes' report, and its status. A plain value; ids never change their meaning."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["PASS", "WARN", "FAIL"]


class ProbeCheck(msgspec.Struct, frozen=True):
    """One line of the report. `id` never changes its meaning; `hint` is the remedy."""

    id: str
    status: Status
    text: str
    hint: str = ""
