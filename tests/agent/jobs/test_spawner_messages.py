# SPDX-License-Identifier: Apache-2.0
"""The wire form of launches and events, against the C side's own layouts and parser."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from spawned import NATIVE, SOURCES, VALIDATED, compile_c

from stoker.agent.jobs import spawner as client
from stoker.agent.jobs import spawner_messages as wire
from stoker.agent.jobs.spawner_messages import Launch, pack_launch
from stoker.native.errors import BadRequest
from stoker.scheduler.numa_plan import LIST_BYTES_MAX


@pytest.fixture(scope="module")
def validate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = [str(path) for path in VALIDATED]
    target = tmp_path_factory.mktemp("validate") / "validate"
    return compile_c(target, f"-I{NATIVE}", str(SOURCES / "validate.c"), *sources)


def parse(validate: Path, packed: bytes) -> str:
    done = subprocess.run([validate, "parse"], input=packed, capture_output=True, check=True)
    return done.stdout.decode(errors="surrogateescape")


FULL = Launch(
    job=7,
    attempt=3,
    task=63,
    placing=2**64 - 1,
    argv=("prog", "", "ü \udcff"),
    env={"A": "1=2", "EMPTY": ""},
    cwd="/tmp",
    uid=1,
    gid=2,
    folder="/jobs/7",
    groups=(5, 6),
    umask=0o27,
    stdin=True,
    cpu_milli=1500,
    memory_bytes=1 << 40,
    pids=9,
    devices=((195, 0), (226, 128)),
    user_processes=4000,
    time_limit_s=1.5,
    grace_s=0.25,
    output_bytes_max=12,
    trace_folder="/dev/shm/x",
    cpus="0-3,8",
    memory_nodes="0-1",
)


def test_sizes_are_those_of_c(validate: Path) -> None:
    text = subprocess.run([validate, "sizes"], capture_output=True, text=True, check=True).stdout
    sizes = {name: int(size) for name, size in (line.split() for line in text.splitlines())}
    assert sizes == {
        "frame": wire.FRAME.size,
        "launch": wire._LAUNCH.size,
        "event": wire._EVENT.size,
        "stop": wire._STOP.size,
        "stdin": wire._STDIN.size,
        "acknowledge": wire._ACKNOWLEDGE.size,
        "refusal": wire._REFUSAL.size,
        "done": wire._DONE.size,
        "frame_max": wire.FRAME_BYTES_MAX,
        "launch_max": wire.LAUNCH_BYTES_MAX,
        "arguments_max": wire.ARGUMENTS_MAX,
        "groups_max": wire.GROUPS_MAX,
        "devices_max": wire.DEVICES_MAX,
        "path_max": wire.PATH_BYTES_MAX,
        "list_max": LIST_BYTES_MAX,
        "reason_max": wire.REASON_BYTES_MAX,
        "stdin_max": client.STDIN_BYTES_MAX,
    }


def test_frame_kinds_and_causes_are_those_of_c() -> None:
    header = (NATIVE / "runner/wire/wire.h").read_text()
    causes = re.findall(r"SK_CAUSE_(\w+) = (\d+)", header)
    assert [name.lower() for name, _ in causes] == list(wire.CAUSES)
    assert [int(number) for _, number in causes] == list(range(1, len(wire.CAUSES) + 1))
    for name in ("HELLO", "START", "STOP", "STDIN", "ACKNOWLEDGE", "KNOWN", "FEATURES", "TAKEN"):
        assert f"SK_{name} = {getattr(wire, name)}," in header
    for name in ("DONE", "SLOT", "SLOTS_END", "EVENT"):
        assert f"SK_{name} = {getattr(wire, name)}," in header
    for name in ("STARTED", "CODE", "SIGNAL", "USAGE", "CLEARED", "NODE"):
        assert f"SK_EVENT_{name} = {getattr(wire, f'_{name}_BIT')}," in header


def test_a_default_limit_holds_only_where_none_was_requested(validate: Path) -> None:
    plain = msgspec.structs.replace(FULL, pids=None)
    for launch, said in (
        (plain, "flags 155 umask 27 cpu 1500 pids 0 "),
        (msgspec.structs.replace(plain, pids_default=70), "flags 187 umask 27 cpu 1500 pids 70 "),
        (msgspec.structs.replace(FULL, pids_default=70), "flags 159 umask 27 cpu 1500 pids 9 "),
        (
            msgspec.structs.replace(FULL, memory_bytes=None, memory_default=80),
            "flags 221 umask 27 cpu 1500 pids 9 memory 80 ",
        ),
        (msgspec.structs.replace(FULL, memory_default=80), "pids 9 memory 1099511627776 "),
        (msgspec.structs.replace(FULL, fenced=False), "flags 31 umask"),
        (msgspec.structs.replace(FULL, numa_required=True), "flags 671 umask"),
    ):
        assert said in parse(validate, pack_launch(launch))


def test_c_reads_every_field(validate: Path) -> None:
    text = subprocess.run(
        [validate, "parse"], input=pack_launch(FULL), capture_output=True, check=True
    ).stdout
    assert text.decode(errors="surrogateescape").splitlines() == [
        "7 3 63 placing 18446744073709551615 uid 1 gid 2 flags 159 umask 27 cpu 1500 pids 9 "
        "memory 1099511627776 time 1500000000 grace 250000000 output 12 user 4000",
        "group 5",
        "group 6",
        "device 195:0",
        "device 226:128",
        "cwd /tmp",
        "folder /jobs/7",
        "trace /dev/shm/x",
        "cpus 0-3,8",
        "memory nodes 0-1",
        "argv prog",
        "argv ",
        "argv ü \udcff",
        "env A=1=2",
        "env EMPTY=",
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"argv": ()}, "no program was given"),
        ({"cwd": "relative"}, "the working directory is no absolute path"),
        ({"folder": "x"}, "the job's folder or trace folder is no absolute path"),
        ({"folder": "/" + "x" * 255}, "at most 255 bytes"),
        ({"cpus": "0," * 512}, "more than 1023 bytes"),
        ({"umask": 0o1000}, "umask is above 0777"),
        ({"uid": 0xFFFFFFFF}, "uid and gid must not be -1"),
        ({"memory_bytes": 0}, "a limit of zero"),
        ({"pids": 0}, "a limit of zero"),
        ({"cpu_milli": 9}, "less than 10 milli of a CPU"),
        ({"groups": tuple(range(300))}, "too many supplementary groups"),
        ({"devices": ((1, 1),) * 300}, "too many devices"),
        ({"job": 0}, "job and attempt count from 1"),
    ],
)
def test_c_refuses_by_name(validate: Path, change: dict[str, object], why: str) -> None:
    fields = {name: getattr(FULL, name) for name in FULL.__struct_fields__}
    assert why in parse(validate, pack_launch(Launch(**{**fields, **change})))


def test_what_cannot_be_packed_is_refused_before_it_is_sent() -> None:
    fields = {name: getattr(FULL, name) for name in FULL.__struct_fields__}
    with pytest.raises(BadRequest, match="NUL byte"):
        pack_launch(Launch(**{**fields, "argv": ("a\0b",)}))
    with pytest.raises(BadRequest, match="at most 393216"):
        pack_launch(Launch(**{**fields, "argv": ("a" * 400_000,)}))
    with pytest.raises(BadRequest, match="more than 32768 arguments"):
        pack_launch(Launch(**{**fields, "argv": ("",) * 33_000}))


@pytest.mark.parametrize(
    "change",
    [{"uid": -1}, {"memory_bytes": 1 << 64}, {"grace_s": -1.0}, {"time_limit_s": float("nan")},
     {"cwd": "\ud800"}, {"devices": ((1, -1),)}, {"pids": 1 << 32}],
)  # fmt: skip
def test_values_out_of_range_are_bad_requests(change: dict[str, object]) -> None:
    fields = {name: getattr(FULL, name) for name in FULL.__struct_fields__}
    with pytest.raises(BadRequest):
        pack_launch(Launch(**{**fields, **change}))


def test_endless_durations_are_cut(validate: Path) -> None:
    fields = {name: getattr(FULL, name) for name in FULL.__struct_fields__}
    endless = Launch(**{**fields, "time_limit_s": float("inf"), "grace_s": 1e300})
    assert "time 1000000000000000000 grace 1000000000000000000 " in parse(
        validate, pack_launch(endless)
    )


def test_launches_are_split_into_frames_below_the_maximum() -> None:
    fields = {name: getattr(FULL, name) for name in FULL.__struct_fields__}
    big = [Launch(**{**fields, "job": job, "argv": ("x" * 300_000,)}) for job in range(1, 9)]
    batches = client._batches(big)
    assert [launch.job for batch in batches for launch, _ in batch] == list(range(1, 9))
    sizes = [sum(len(packed) for _, packed in batch) for batch in batches]
    assert max(sizes) + wire.FRAME.size <= wire.FRAME_BYTES_MAX
    assert len(batches) == 3
