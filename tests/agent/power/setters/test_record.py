# SPDX-License-Identifier: Apache-2.0
"""The record of what was found, and the program that restores from it, on simulated drivers."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from stoker.agent.power.setters import record
from stoker.agent.power.setters.record import RecordedSetting
from stoker.agent.state import host_facts
from stoker.agent.state.lease import Lease
from stoker.native import _sim
from stoker.native.errors import Corrupt, Refused
from stoker.native.paths import program
from stoker.probes.simdriver import libraries, profiles

UNSUPPORTED = 0x78000003
"""ZE_RESULT_ERROR_UNSUPPORTED_FEATURE."""
FOUND = [
    RecordedSetting("nvidia", "GPU-1", "limit_mw", 350_000),
    RecordedSetting("nvidia", "GPU-1", "clocks", 0),
]


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    where = record.path(tmp_path)
    assert record.load(where) is None
    record.store(where, "boot", FOUND)
    assert record.load(where) == ("boot", FOUND)
    assert [path.name for path in tmp_path.iterdir()] == [record.NAME]


@pytest.mark.parametrize("cut", [0, 10, 40, 60, -2])
def test_a_damaged_record_is_not_guessed_at(tmp_path: Path, cut: int) -> None:
    where = record.path(tmp_path)
    record.store(where, "boot", FOUND)
    where.write_text(where.read_text()[:cut])
    with pytest.raises(Corrupt, match="what cards were set to is not known"):
        record.load(where)
    assert restore(where).returncode == 3
    assert where.exists()


def test_without_room_for_the_record_nothing_may_be_set(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no limit of a card is changed"):
        record.store(tmp_path / "missing" / "record", "boot", FOUND)
    with pytest.raises(Refused, match="more than 512"):
        record.store(record.path(tmp_path), "boot", FOUND * 257)


def restore(
    where: Path, *options: str, node: Path | None = None, **more: str
) -> subprocess.CompletedProcess:  # type: ignore[type-arg]
    environment = libraries.environment(node, [1, 2, 3]) if node else dict(os.environ)
    return subprocess.run(
        [program("stoker-restore"), "--record", where, *options],
        env=environment | more,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def cards(node: _sim.Node, vendor: int, count: int) -> dict[int, dict[str, str]]:
    models = {i: node.truth(i)["model"] for i in range(count)}
    return {i: model for i, model in models.items() if model["vendor"] == vendor}


def limit(node: _sim.Node, index: int) -> int:
    found: int = node.truth(index)["now"]["limit_mw"]
    return found


@pytest.fixture
def mixed(tmp_path: Path) -> tuple[Path, _sim.Node]:
    node = profiles.node("mixed", tmp_path / "node", seed=1)
    node.set_open(True)
    return tmp_path / "node", node


def test_limits_clocks_and_files_are_given_back(
    tmp_path: Path, mixed: tuple[Path, _sim.Node]
) -> None:
    path, node = mixed
    count = len(profiles.load("mixed", 1))
    nvidia, amd, intel = (cards(node, vendor, count) for vendor in (1, 2, 3))
    before = {i: limit(node, i) for i in (*nvidia, *amd, *intel)}
    found = [RecordedSetting("nvidia", c["uuid"], "limit_mw", before[i]) for i, c in nvidia.items()]
    found += [RecordedSetting("nvidia", c["uuid"], "clocks", 0) for c in nvidia.values()]
    found += [
        RecordedSetting("amd", c["bus_id"][-12:], "cap_uw", before[i] * 1000)
        for i, c in amd.items()
    ]
    for i, card in intel.items():
        found.append(RecordedSetting("intel", card["bus_id"][-12:], "limit_mw", before[i]))
        found.append(
            RecordedSetting("intel", card["bus_id"][-12:], "clock_max_mhz", card["clock_max_mhz"])
        )
    file = tmp_path / "power1_cap"
    file.write_text("1\n")
    found.append(RecordedSetting("file", str(file), "value", 220_000_000))
    where = record.path(tmp_path)
    record.store(where, host_facts.boot_id(), found)
    for i in before:
        node.set_limit(i, node.truth(i)["model"]["limit_min_mw"])
    for i in (*nvidia, *intel):
        node.lock_clocks(i, 600, 900)
    done = restore(where, node=path)
    assert done.returncode == 0, done.stderr
    assert {i: limit(node, i) for i in before} == before
    assert all(node.truth(i)["now"]["locked_max_mhz"] == 0 for i in (*nvidia, *intel))
    assert file.read_text() == "220000000\n"
    assert not where.exists()


def test_a_range_of_clocks_is_given_back_with_both_its_ends(
    tmp_path: Path, mixed: tuple[Path, _sim.Node]
) -> None:
    path, node = mixed
    index, card = next(iter(cards(node, 3, len(profiles.load("mixed", 1))).items()))
    address = card["bus_id"][-12:]
    ends = {"clock_max_mhz": 1200, "clock_min_mhz": 1000}
    where = record.path(tmp_path)
    found = [RecordedSetting("intel", address, name, mhz) for name, mhz in ends.items()]
    record.store(where, host_facts.boot_id(), found)
    node.lock_clocks(index, 900, 950)
    done = restore(where, node=path)
    assert done.returncode == 0, done.stderr
    now = node.truth(index)["now"]
    assert (now["locked_min_mhz"], now["locked_max_mhz"]) == (1000, 1200)


def test_a_card_whose_clocks_cannot_be_locked_has_none_to_give_back(
    tmp_path: Path, mixed: tuple[Path, _sim.Node]
) -> None:
    path, node = mixed
    index, card = next(iter(cards(node, 1, len(profiles.load("mixed", 1))).items()))
    node.inject("error", index, value=3, call="nvmlDeviceResetGpuLockedClocks")
    where = record.path(tmp_path)
    record.store(
        where, host_facts.boot_id(), [RecordedSetting("nvidia", card["uuid"], "clocks", 0)]
    )
    done = restore(where, node=path)
    assert done.returncode == 0, done.stderr
    assert not where.exists()


@pytest.mark.parametrize(
    ("vendor", "entry", "call"),
    [(2, ("amd", "cap_uw", 1000), "amdsmi_get_power_cap_info"),
     (3, ("intel", "limit_mw", 1), "zesPowerGetLimitsExt")],
)  # fmt: skip
def test_what_was_not_read_back_is_not_taken_as_restored(
    tmp_path: Path,
    mixed: tuple[Path, _sim.Node],
    vendor: int,
    entry: tuple[str, str, int],
    call: str,
) -> None:
    path, node = mixed
    index, card = next(iter(cards(node, vendor, len(profiles.load("mixed", 1))).items()))
    kind, what, factor = entry
    found = RecordedSetting(kind, card["bus_id"][-12:], what, limit(node, index) * factor)
    where = record.path(tmp_path)
    record.store(where, host_facts.boot_id(), [found])
    node.inject("error", index, value=2, call=call)
    done = restore(where, node=path)
    assert done.returncode == 1 and call in done.stderr
    assert where.exists()


def test_an_intel_limit_is_given_back_by_older_calls_where_the_driver_has_only_those(
    tmp_path: Path, mixed: tuple[Path, _sim.Node]
) -> None:
    path, node = mixed
    index, card = next(iter(cards(node, 3, len(profiles.load("mixed", 1))).items()))
    before = limit(node, index)
    where = record.path(tmp_path)
    found = [RecordedSetting("intel", card["bus_id"][-12:], "limit_mw", before)]
    record.store(where, host_facts.boot_id(), found)
    node.set_limit(index, card["limit_min_mw"])  # type: ignore[arg-type]
    node.inject("error", index, value=UNSUPPORTED, call="zesPowerSetLimitsExt")
    done = restore(where, node=path)
    assert done.returncode == 0, done.stderr
    assert limit(node, index) == before


def test_an_amdgpu_limit_is_given_back_whatever_number_its_hwmon_has_by_now(
    tmp_path: Path,
) -> None:
    device = tmp_path / "devices" / "0000:03:00.0"
    other = tmp_path / "devices" / "0000:04:00.0" / "hwmon" / "hwmon4" / "power1_cap"
    cap = device / "hwmon" / "hwmon7" / "power1_cap"
    for file in (cap, other):
        file.parent.mkdir(parents=True)
        file.write_text("150000000\n")
    where = record.path(tmp_path)
    found = [RecordedSetting("hwmon", str(device), "cap_uw", 220_000_000)]
    record.store(where, host_facts.boot_id(), found)
    assert restore(where).returncode == 0
    assert (cap.read_text(), other.read_text()) == ("220000000\n", "150000000\n")
    record.store(where, host_facts.boot_id(), found)
    cap.unlink()
    done = restore(where)
    assert done.returncode == 1 and "it has no power1_cap" in done.stderr


def test_a_card_that_fails_where_no_process_can_be_made_leaves_none_unrestored(
    tmp_path: Path,
) -> None:
    stub = tmp_path / "fork.c"
    stub.write_text("#include <errno.h>\nint fork(void) { errno = EAGAIN; return -1; }\n")
    argv = ["cc", "-shared", "-fPIC", str(stub), "-o", str(tmp_path / "fork.so")]
    subprocess.run(argv, check=True)
    caps = [tmp_path / "gone" / "cap", tmp_path / "cap"]
    where = record.path(tmp_path)
    found = [RecordedSetting("file", str(cap), "value", 220) for cap in caps]
    record.store(where, host_facts.boot_id(), found)
    caps[1].write_text("1\n")
    done = restore(where, LD_PRELOAD=str(tmp_path / "fork.so"))
    assert done.returncode == 1 and str(caps[0]) in done.stderr
    assert caps[1].read_text() == "220\n" and where.exists()


def test_what_cannot_be_restored_stays_on_record_and_is_named(
    tmp_path: Path, mixed: tuple[Path, _sim.Node]
) -> None:
    path, node = mixed
    one, two = list(cards(node, 1, len(profiles.load("mixed", 1))).items())[:2]
    found = [
        RecordedSetting("nvidia", c["uuid"], "limit_mw", limit(node, i)) for i, c in (one, two)
    ]
    where = record.path(tmp_path)
    record.store(where, host_facts.boot_id(), found)
    lowest = {i: c["limit_min_mw"] for i, c in (one, two)}
    for i, watts in lowest.items():
        node.set_limit(i, int(watts))
    node.inject("lost", one[0])
    done = restore(where, node=path)
    assert done.returncode == 1
    failed = [json.loads(line) for line in done.stderr.splitlines() if "not restored" in line]
    assert len(failed) == 1 and one[1]["uuid"] in failed[0]["detail"]
    assert limit(node, two[0]) == found[1].value
    assert where.exists()
    assert record.unrestored(done.stderr.strip()) == {one[1]["uuid"]}
    node.heal()
    assert restore(where, node=path).returncode == 0
    assert limit(node, one[0]) == found[0].value


def test_a_card_whose_driver_hangs_keeps_no_other_one_waiting(
    tmp_path: Path, mixed: tuple[Path, _sim.Node]
) -> None:
    path, node = mixed
    one, two = list(cards(node, 1, len(profiles.load("mixed", 1))).items())[:2]
    found = [
        RecordedSetting("nvidia", c["uuid"], "limit_mw", limit(node, i)) for i, c in (one, two)
    ]
    where = record.path(tmp_path)
    record.store(where, host_facts.boot_id(), found)
    for i, c in (one, two):
        node.set_limit(i, int(c["limit_min_mw"]))
    node.inject("hang", one[0])
    argv = [program("stoker-restore"), "--record", where]
    environment = libraries.environment(path, [1])
    running = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(400):
            if limit(node, two[0]) == found[1].value:
                break
            time.sleep(0.01)
        assert running.poll() is None
        assert limit(node, two[0]) == found[1].value
        _, said = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 1 and where.exists()
    assert record.unrestored(said.strip()) == {one[1]["uuid"]}
    assert "its driver does not answer" in said


@pytest.mark.parametrize(
    "said",
    ["", "exit code 3", '{"level":"error","event":"the record is damaged","detail":"x"}'],
)
def test_what_names_no_card_is_of_none(said: str) -> None:
    assert record.unrestored(said) == frozenset()


def test_an_agent_in_charge_is_left_alone(tmp_path: Path, mixed: tuple[Path, _sim.Node]) -> None:
    where = record.path(tmp_path)
    record.store(
        where, host_facts.boot_id(), [RecordedSetting("nvidia", "GPU-none", "limit_mw", 1)]
    )
    with Lease.open(tmp_path / "lease") as lease:
        lease.renew_power(time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 60_000_000_000)
        assert restore(where, "--lease", str(tmp_path / "lease")).returncode == 0
        assert where.exists()
        lease.renew_power(1)
        done = restore(where, "--lease", str(tmp_path / "lease"), node=mixed[0])
        assert done.returncode == 1


def test_after_a_reboot_there_is_nothing_to_undo(tmp_path: Path) -> None:
    where = record.path(tmp_path)
    record.store(where, "another-boot", FOUND)
    assert restore(where).returncode == 0
    assert not where.exists()
