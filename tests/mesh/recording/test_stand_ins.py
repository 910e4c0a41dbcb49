# SPDX-License-Identifier: Apache-2.0
"""A redacted recording: no secret is in its bytes, a name has one stand-in, numbers stay."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from fakes.sampled_cluster import recorded
from fakes.top_cluster import GPU, NOW, SECOND

from stoker.mesh.recording import blocks, stand_ins
from stoker.mesh.recording.blocks import HEADER, Recorded
from stoker.mesh.recording.recording_file import RecordingFile
from stoker.mesh.wire import schema

JOB: dict[str, Any] = {
    "job": 5, "user": "eve.lovelace", "name": "merger-model", "state": "running",
    "reason": "eve.lovelace ran /home/eve/secret-project/train.py on dgx-17.corp.example",
    "spec": {
        "argv": ["python3", "train_merger.py", "--token=hunter2hunter2", "-c"],
        "cwd": "/home/eve/secret-project", "env": {"AWS_KEY": "AKIA-0000"}, "queue": "default",
    },
    "uid": 1234,
}  # fmt: skip
NODE: dict[str, Any] = {"node": "dgx-17.corp.example", "labels": ["rack=building-9"]}
TOLD = [
    NOW, "events",
    {"what": "running", "job": 5, "user": "eve.lovelace",
     "reason": "train_merger.py is at 10.1.2.3, dgx-17.corp.example:GPU-4f1c0a9e-aaaa"}, "",
]  # fmt: skip
PROCESSES = {"fields": {"processes": {"value": [{"pid": 7, "name": "secret-engine"}]}}}
SECRETS = (
    "eve.", "lovelace", "merger", "hunter2", "train", "secret", "dgx", "corp", "AKIA", "python3",
    "building", "10.1.2.3", "4f1c0a9e", "1234", "/home",
)  # fmt: skip


def one_recording() -> bytes:
    rows = (
        ("jobs", "5", JOB), ("nodes", "dgx-17.corp.example", NODE), ("events", "1", TOLD),
        ("readings", "dgx-17.corp.example:GPU-4f1c0a9e-aaaa", PROCESSES),
        ("gap", "1", {"from_ns": 1, "to_ns": 2, "why": "dgx-17.corp.example does not answer"}),
    )  # fmt: skip
    moments = [Recorded(NOW, part, {key: msgspec.json.encode(row)}) for part, key, row in rows]
    return HEADER + blocks.encode(moments, key=True)


def plain(data: bytes) -> str:
    """All text of a recording as it is unpacked."""
    file = RecordingFile(data, "f.rec")
    found = [
        f"{each.part} {key} {row.decode() if row else ''}"
        for block in file.blocks
        for each in file.moments(block)
        for key, row in each.rows.items()
    ]
    return "\n".join(found)


def test_no_secret_is_in_any_byte_of_it() -> None:
    before, after = plain(one_recording()), plain(stand_ins.redacted(one_recording(), "f.rec"))
    for secret in SECRETS:
        assert secret in before and secret not in after, secret
    for stays in ('"what":"running"', '"queue":"default"', '"state":"running"', '"job":5'):
        assert stays in after


def test_one_name_has_one_stand_in_wherever_it_stands() -> None:
    file = RecordingFile(stand_ins.redacted(one_recording(), "f.rec"), "f.rec")
    rows = file.state(file.last_ns)
    job = msgspec.json.decode(rows["jobs"]["5"])
    (node,) = rows["nodes"]
    assert re.fullmatch(r"node-\d+", node) and job["reason"].endswith(node)
    assert job["user"] in job["reason"] and job["user"] == file.events[0].row["user"]
    assert job["spec"]["argv"][0].startswith("command-") and job["spec"]["env"] is None
    assert file.gaps[0].why == f"{node} does not answer"
    assert file.events[0].row["reason"].endswith(f"{node}:card-1")


async def test_a_redacted_recording_replays_with_the_same_numbers() -> None:
    data = await recorded(70)
    whole = RecordingFile(data, "f.rec")
    shared = RecordingFile(stand_ins.redacted(data, "f.rec"), "f.rec")
    assert shared.about.redacted and not whole.about.redacted
    assert (shared.first_ns, shared.last_ns) == (whole.first_ns, whole.last_ns)
    assert (len(shared.devices), len(shared.jobs)) == (len(whole.devices), len(whole.jobs))
    assert len(shared.events) == len(whole.events)
    numbers = re.compile(rb'"(?:power_w|temperature_c|total_ns|busy_ratio|count)":([^,}]*)')
    for at in (0, 33, 69):
        before, after = (each.state(NOW + at * SECOND) for each in (whole, shared))
        assert before.keys() == after.keys()
        for part in before:
            assert numbers.findall(b"".join(before[part].values())) == numbers.findall(
                b"".join(after[part].values())
            )
        for row in after["devices"].values():
            msgspec.json.decode(row, type=schema.DeviceView)
        for row in after["jobs"].values():
            msgspec.json.decode(row, type=schema.JobView)
    text = plain(stand_ins.redacted(data, "f.rec"))
    for secret in ("ada", "/opt/tool/train", GPU, '"n1"', "n1:", "mirror"):
        assert secret in plain(data) or secret == "mirror"
        assert secret not in text, secret
