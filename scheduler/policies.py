# SPDX-License-Identifier: Apache-2.0
"""The names of what a queue or a job may choose: placement, order, options, kinds of devices."""

from __future__ import annotations

from typing import Final

from stoker.scheduler.wire_names import VENDORS_MAX, Kind, Option, Order, Placement

__all__ = ["FIRST_ORDER", "VENDORS", "VENDORS_MAX", "Kind", "Option", "Order", "Placement"]

FIRST_ORDER: Final = Order.BACKFILL
"""The order of queue 0 in a new cluster and of queues made without one. It was measured against the
others in docs/measurements/job-traces.md: one job that can never start stops nobody else, nobody
starves, and nothing depends on estimates, which few give."""

VENDORS: Final = {"nvidia": 1, "amd": 2, "intel": 3}
"""A vendor's number is stored in the log; a name that is not here has one of the others."""
