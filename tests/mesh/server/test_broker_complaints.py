# SPDX-License-Identifier: Apache-2.0
"""The connection that fills a broker's log is found in the end of it, and nothing else is."""

from __future__ import annotations

from pathlib import Path

from stoker.mesh.server.broker_complaints import GROWTH_BYTES, BrokerComplaints

BEGIN = '[53] 2026/11/28 16:10:36.532236 [ERR] 10.213.91.2:33242 - cid:{} - "v1:python:thief" - '
REFUSED = BEGIN + 'Subscription Violation - Subject "stoker.v1.>", SID 9\n'
PUBLISHED = BEGIN + 'Publish Violation - Subject "stoker.v1.cmd.b"\n'
KEYLESS = BEGIN + 'authentication error - Nkey "UB"\n'


def write(path: Path, line: str, size: int = GROWTH_BYTES) -> None:
    with path.open("a") as file:
        file.write(line * (size // len(line) + 1))


def test_who_makes_the_log_grow_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nats-server.log"
    write(path, REFUSED.format(1))
    complaints = BrokerComplaints(path)
    assert complaints.noisiest() is None, "what was before does not count"
    for number, line in ((25, REFUSED), (26, PUBLISHED)):
        write(path, line.format(number))
        assert complaints.noisiest() == number and complaints.grown >= GROWTH_BYTES
    assert complaints.noisiest() is None


def test_few_lines_and_other_lines_are_no_reason(tmp_path: Path) -> None:
    path = tmp_path / "nats-server.log"
    complaints = BrokerComplaints(path)
    assert complaints.noisiest() is None, "a broker without a log"
    write(path, REFUSED.format(25), 1000)
    assert complaints.noisiest() is None
    write(path, KEYLESS.format(25))
    assert complaints.noisiest() is None
    write(path, REFUSED.format(25) + REFUSED.format(26))
    assert complaints.noisiest() is None, "no connection has most of them"


def test_a_log_that_was_begun_anew_is_read_from_there(tmp_path: Path) -> None:
    path = tmp_path / "nats-server.log"
    write(path, KEYLESS.format(1))
    complaints = BrokerComplaints(path)
    path.write_text("")
    assert complaints.noisiest() is None and complaints.grown == 0
    write(path, REFUSED.format(25))
    assert complaints.noisiest() == 25
