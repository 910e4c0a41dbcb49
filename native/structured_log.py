# SPDX-License-Identifier: Apache-2.0
"""structlog as every process of stoker imports it: without rich.

Every module that logs imports it from here. structlog draws tracebacks with rich where that is
installed; the daemons write JSON lines and draw none. Owns the promise that a daemon has not loaded
rich, which costs 80 ms of CPU and 5.6 MB.
"""

from __future__ import annotations

import sys

__all__ = ["structlog"]

_HIDES = "rich" not in sys.modules
if _HIDES:
    sys.modules["rich"] = None  # type: ignore[assignment]  # so that importing it fails
try:
    import structlog  # noqa: TID251  # the one place
finally:
    if _HIDES:
        del sys.modules["rich"]  # the command line loads it later
