# SPDX-License-Identifier: Apache-2.0
"""The appends of the log's bench: what reaches the stream, and the arithmetic of a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.broker.broker_config import LOG_MAX_BYTES
from stoker.mesh.connection.process_connection import key_file
from stoker.mesh.identity import identity
from stoker.mesh.log import entry as entries
from stoker.mesh.log.jetstream_log import JetStreamLog, WrongTail
from stoker.native.errors import StokerError
from stoker.tui.bench import brokers, log_appends


async def test_packed_and_raw_appends_share_one_chain_of_numbers(tmp_path: Path) -> None:
    with brokers.running(tmp_path, 1) as group:
        link = await log_appends.connected(await log_appends.make_stream(group))
        try:
            log = JetStreamLog(link.requests, brokers.CLUSTER, LOG_MAX_BYTES)
            await log.open(may_make=False)
            signer = identity.load(key_file(group[0].state))
            packed = log_appends.PackedAppends(log, signer)
            raw = log_appends.RawAppends(link.connection, packed.entry_bytes)
            await raw.begin()
            assert await packed.append(0) == 1
            assert await raw.append(1) == 2
            assert await packed.append(2) == 3
            with pytest.raises(StokerError, match="raw append was refused: wrong last sequence"):
                await raw.append(1)
            with pytest.raises(WrongTail):
                await packed.append(1)
            found = dict([each async for batch in log.read_from(1) for each in batch])
        finally:
            await link.connection.close()
    first, second = (entries.unseal(seq, found[seq]) for seq in (1, 3))
    assert entries.signed_by(first, signer.verifier)
    assert len(first.entry.commands) == log_appends.COMMANDS * log_appends.COMMAND_BYTES
    assert second.entry.prev_hash == first.hash
    assert abs(len(found[2]) - len(found[1])) < 16


async def test_a_stream_has_a_copy_on_each_broker(tmp_path: Path) -> None:
    with brokers.running(tmp_path, 3) as group:
        leader = await log_appends.make_stream(group)
        assert leader in group
        copies = list(tmp_path.glob("broker-*/nats/jetstream/CTRL/streams/*/msgs"))
    assert len(copies) == 3


def test_a_row_compares_rates() -> None:
    found = log_appends.row([4_000_000] * 99 + [8_000_000], [2_000_000] * 100, 16_519, 1)
    assert (found.appends, found.replicas, found.entry_bytes) == (100, 1, 16_519)
    assert (found.p50_ms, found.p99_ms, found.raw_p50_ms) == (4.0, 4.0, 2.0)
    assert found.raw_per_s == pytest.approx(500.0)
    assert found.appends_per_s == pytest.approx(1000 / 4.04)
    assert found.commands_per_s == 64 * found.appends_per_s
    assert found.ratio == pytest.approx(2 / 4.04)
