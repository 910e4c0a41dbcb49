# SPDX-License-Identifier: Apache-2.0
"""One line of the report of `stoker doctor`: what was checked, how it stands, and the remedy."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["PASS", "WARN", "FAIL"]


class Check(msgspec.Struct, frozen=True):
    """One line of the doctor's report."""

    id: str
    status: Status
    text: str
    hint: str = ""
