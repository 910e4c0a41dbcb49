# SPDX-License-Identifier: Apache-2.0
"""The names of the settings of queues and jobs: placement, order, options, kinds of devices."""

from __future__ import annotations

from typing import Final

from stoker.scheduler.wire_names import VENDORS_MAX, Kind, Option, Order, Placement

__all__ = ["FIRST_ORDER", "VENDORS", "VENDORS_MAX", "Kind", "Option", "Order", "Placement"]

FIRST_ORDER: Final = Order.BACKFILL
"""The order of queue 0 in a new cluster and of queues made without one. It was measured against the
others in docs/measurements/job-traces.md: a job that can never start blocks no other, no job
starves, and nothing depends on estimates, which few jobs have."""

VENDORS: Final = {"nvidia": 1, "amd": 2, "intel": 3}
"""The vendors with a number of their own; the log stores it. Other names share the other numbers.
"""
