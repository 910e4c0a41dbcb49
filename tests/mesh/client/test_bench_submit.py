# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the submit bench."""

import pytest

from stoker.mesh.client import bench_submit
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError


@pytest.mark.parametrize(
    ("percent", "value"), [(50, 5), (99, 10), (1, 1), (100, 10), (10, 1), (11, 2)]
)
def test_percentiles_are_values_that_were_seen(percent: int, value: int) -> None:
    assert bench_submit.percentile(list(range(1, 11)), percent) == value


def test_a_start_that_was_not_printed_is_an_error() -> None:
    logs = schema.LogsView(job=4, stream="out", data=b"oops\n", next_offset=5, eof=True)
    with pytest.raises(StokerError, match="no-op job 4 printed"):
        bench_submit._first_statement(logs)
