# SPDX-License-Identifier: Apache-2.0
"""Tables of simulators."""

from stoker.tui.sim.columns import table


def test_tables_are_aligned() -> None:
    columns = (("A", str), ("LONG", lambda n: str(n * 10)))
    assert table(columns, [1, 222]) == ["A    LONG", "1      10", "222  2220"]
