# SPDX-License-Identifier: Apache-2.0
"""A recorder that starts again reads on from where the one before it was, as its ring says."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from fakes.sampled_cluster import SampledCluster

from stoker.mesh.client.client import Client
from stoker.mesh.client.kept_telemetry import LastRead
from stoker.mesh.recording import left_off
from stoker.mesh.recording.recorder import Recorder
from stoker.mesh.recording.recording_file import RecordedBy, RecordingFile
from stoker.mesh.recording.ring_files import RecordingLimits, RecordingRing, segments
from stoker.mesh.recording.sampler import ClusterSampler
from stoker.mesh.wire import schema_telemetry


class EventStream(SampledCluster):
    """A cluster whose stream of events has what a test puts there, whatever the time is."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[schema_telemetry.TelemetryMessage] = []

    def tell(self, what: str) -> None:
        data = {"t_ns": self.now_ns, "what": what, "job": 7}
        self.events.append(self._message(len(self.events) + 1, data))

    async def telemetry(
        self, request: schema_telemetry.TelemetryReadRequest
    ) -> schema_telemetry.TelemetryView:
        since_ns = self.now_ns - int(request.since_s * 1e9)
        found = [
            each
            for each in self.events
            if (each.t_ns >= since_ns if request.after is None else each.seq > request.after)
        ]
        messages = tuple(found) if request.kind == "events" else ()
        return schema_telemetry.TelemetryView(kind=request.kind, messages=messages)


def recorder(folder: Path, stream: EventStream) -> Recorder:
    """A recorder of the ring that reads on, as a node's does after a restart."""
    sampler = ClusterSampler(
        cast(Client, stream), positions=left_off.positions(folder), now_ns=lambda: stream.now_ns
    )
    about = RecordedBy("0.1.0", "root", 1.0, "ring")
    return Recorder(sampler, RecordingRing(folder, RecordingLimits()), about, lambda: stream.now_ns)


def told(folder: Path) -> list[str]:
    """The events that the whole ring tells."""
    files = [RecordingFile(path.read_bytes(), path.name) for path in segments(folder)]
    return [each.row["what"] for file in files for each in file.events]


async def test_what_was_told_between_the_last_sample_and_the_last_block_is_not_lost(
    tmp_path: Path,
) -> None:
    stream = EventStream()
    stream.tell("running")
    await recorder(tmp_path, stream).step()
    stream.tell("succeeded")  # under the time of the block that has been written
    assert left_off.positions(tmp_path) == {"events": LastRead(1, stream.now_ns)}
    stream.second = 3
    await recorder(tmp_path, stream).step()
    assert told(tmp_path) == ["running", "succeeded"], "each once"
    assert left_off.positions(tmp_path)["events"].seq == 2


async def test_what_a_dead_recorder_had_not_written_is_read_again(tmp_path: Path) -> None:
    stream = EventStream()
    dies = recorder(tmp_path, stream)
    stream.tell("submitted")
    await dies.step()
    stream.second = 1
    stream.tell("running")
    await dies.step()  # this sample waits for its block, and dies with the recorder
    assert told(tmp_path) == ["submitted"]
    await recorder(tmp_path, stream).step()
    assert told(tmp_path) == ["submitted", "running"]


async def test_a_later_segment_knows_the_position_although_nothing_was_told_in_it(
    tmp_path: Path,
) -> None:
    stream = EventStream()
    stream.tell("running")
    made = recorder(tmp_path, stream)
    await made.step()
    stream.second = 61
    await made.step()
    assert len(segments(tmp_path)) == 2
    assert left_off.positions(tmp_path)["events"].seq == 1


async def test_a_segment_that_cannot_be_read_leaves_the_one_before_it(tmp_path: Path) -> None:
    assert left_off.positions(tmp_path) == {}
    stream = EventStream()
    stream.tell("running")
    await recorder(tmp_path, stream).step()
    (whole,) = segments(tmp_path)
    (tmp_path / f"{int(whole.stem) + 1:020d}.rec").write_bytes(b"half a head")
    assert left_off.positions(tmp_path)["events"].seq == 1
