# SPDX-License-Identifier: Apache-2.0
"""Short and long rounds of one test: `make test` runs the short ones, `make soak` the long ones.

The code of a round is the same; only the number differs. A test with a long round has the mark
`rounds`, by which `tests/soak/long_rounds.py` finds it. A test with the mark `soak` has no short
round.
"""

from __future__ import annotations

import os

SOAK = "STOKER_SOAK"
"""The variable of the environment that asks for long rounds."""


def rounds(short: int, soak: int) -> int:
    """The number of rounds to run now."""
    return soak if os.environ.get(SOAK) else short
