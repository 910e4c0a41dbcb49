# SPDX-License-Identifier: Apache-2.0
"""Processes without a tracer: how long they count, and the claims that a trace then drops."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from stoker.agent.tracing import untraced_processes
from stoker.agent.tracing.starved_time import ThreadTime
from stoker.agent.tracing.untraced_processes import HiddenUse, UntracedProcesses, without
from stoker.probes.calls.library_copies import Copy, copies_of
from stoker.probes.kernels.job_trace import (
    Causes,
    CopyRow,
    DeviceRow,
    FoundSegment,
    KernelSummary,
    TimeWindow,
    TraceSummary,
)

S = 1_000_000_000


class Machine:
    """The processes by pid, each with its kind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kinds: dict[int, untraced_processes.Kind | None] = {}
        self.threads: dict[int, ThreadTime] = {}
        """The threads of every process."""
        self.calls = 0
        self.use = HiddenUse(0, Path("/segments"))
        monkeypatch.setattr(
            untraced_processes, "start_time", lambda pid: 1 if pid in self.kinds else None
        )
        monkeypatch.setattr(untraced_processes, "_kind", self._kind)
        monkeypatch.setattr(untraced_processes, "thread_times", lambda pid: self.threads)

    def _kind(self, pid: int, told: bytes) -> untraced_processes.Kind | None:
        self.calls += 1
        return self.kinds[pid]

    def look(self, at_s: float, **kinds: untraced_processes.Kind | None) -> None:
        self.kinds = {int(name[1:]): kind for name, kind in kinds.items()}
        self.use.look(self.kinds, int(at_s * S))

    def found(self, pid: int, made_s: float, *, start: int = 1, now_s: float = 99) -> None:
        self.use.found([FoundSegment(pid, start, int(made_s * S))], int(now_s * S))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_it_counts_from_before_it_was_seen_until_it_was_seen_gone(machine: Machine) -> None:
    machine.look(1)
    machine.look(2, p7="hidden")
    assert machine.use.until(3 * S) == UntracedProcesses(2 * S, 1), "it still lives"
    machine.look(4, p7="hidden")
    machine.look(5)
    assert machine.use.until(9 * S) == UntracedProcesses(4 * S, 1)


def test_processes_at_the_same_time_count_once(machine: Machine) -> None:
    machine.look(1, p7="hidden", p8="hidden", p9="none")
    machine.look(3, p7="hidden", p9="traced")
    machine.look(4, p9="traced")
    assert machine.use.until(4 * S) == UntracedProcesses(4 * S, 2)


def test_who_gets_its_tracer_later_was_about_to_begin(machine: Machine) -> None:
    machine.look(1, p7="hidden")
    machine.look(2, p7="traced")
    assert machine.use.until(2 * S) == UntracedProcesses()


def test_who_was_over_before_the_next_look_had_its_tracer_by_its_segment(machine: Machine) -> None:
    machine.look(1, p7="hidden")  # its driver is mapped, its tracer not yet
    assert machine.use.until(int(1.2 * S)) == UntracedProcesses(int(1.2 * S), 1)
    machine.found(7, 1.1)
    assert machine.use.until(int(1.2 * S)) == UntracedProcesses(), "while it still lives"
    machine.look(2)
    assert machine.use.until(2 * S) == UntracedProcesses()


def test_a_segment_that_is_found_while_it_is_looked_at_counts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kind(pid: int, told: bytes) -> untraced_processes.Kind:
        machine.found(pid, 1.001)
        return "hidden"

    monkeypatch.setattr(untraced_processes, "_kind", kind)
    machine.look(1, p7="hidden")
    machine.look(1.5)
    assert machine.use.until(2 * S) == UntracedProcesses()


@pytest.mark.parametrize(
    ("pid", "start", "made_s"),
    [(7, 1, 0.9), (7, 2, 1.1), (8, 1, 1.1), (7, 1, 3.5)],
    ids=["of a program before", "of its pid before", "of another", "much later"],
)
def test_no_other_segment_shows_a_tracer(
    machine: Machine, pid: int, start: int, made_s: float
) -> None:
    machine.look(1, p7="hidden")
    machine.found(pid, made_s, start=start)
    machine.look(2)
    assert machine.use.until(2 * S) == UntracedProcesses(2 * S, 1)


def test_a_segment_is_not_made_after_it_was_found(machine: Machine) -> None:
    machine.look(1, p7="hidden")
    machine.found(7, 2.5, now_s=1.1)
    machine.look(2, p7="hidden")
    assert machine.use.until(2 * S) == UntracedProcesses(2 * S, 1)


def test_who_executes_a_program_without_a_tracer_hides_from_then_on(machine: Machine) -> None:
    machine.look(1, p7="hidden")
    machine.found(7, 1.1)
    machine.look(2, p7="hidden")
    assert machine.use.until(2 * S) == UntracedProcesses(2 * S, 1)


def test_segments_are_read_however_late(machine: Machine) -> None:
    machine.look(1, p7="hidden")
    machine.found(7, 1.1)
    machine.look(8, p7="traced")
    assert machine.use.until(9 * S) == UntracedProcesses()


def test_who_gets_its_tracer_much_later_has_hidden(machine: Machine) -> None:
    """A process that executes a traced program in the end is such a one."""
    machine.look(1, p7="hidden")
    machine.look(4, p7="hidden")
    machine.look(8, p7="traced")
    assert machine.use.until(9 * S) == UntracedProcesses(9 * S, 1)


@pytest.mark.parametrize(("starved_s", "hides"), [(5.0, 0), (0.0, 1)])
def test_who_gets_no_cpu_to_load_its_tracer_has_not_hidden(
    machine: Machine, starved_s: float, hides: int
) -> None:
    machine.threads = {7: ThreadTime(True, 0, 0)}
    machine.look(1, p7="hidden")
    for half in range(1, 13):
        waited_ns = int(starved_s * S * half / 12)
        machine.threads = {7: ThreadTime(True, int(half / 2 * S) - waited_ns, waited_ns)}
        machine.look(1 + half / 2, p7="hidden")
    machine.found(7, 7.4)
    machine.look(8, p7="traced")
    assert machine.use.until(9 * S).processes == hides


def test_being_starved_is_forgiven_for_a_minute(machine: Machine) -> None:
    machine.threads = {7: ThreadTime(True, 0, 0)}
    for second in range(1, 70):
        machine.look(second, p7="hidden")
    machine.look(70, p7="traced")
    assert machine.use.until(70 * S) == UntracedProcesses(70 * S, 1)


def test_a_process_that_cannot_be_examined_is_tried_again(machine: Machine) -> None:
    machine.look(1, p7=None)
    machine.look(1.1, p7="hidden")
    assert machine.use.until(2 * S) == UntracedProcesses(2 * S, 1)


def test_a_new_program_is_examined_again_as_soon_as_it_may_have_loaded_a_driver(
    machine: Machine,
) -> None:
    machine.look(1, p7="none")
    assert machine.use.look_again(S) == S + untraced_processes.LOOK_FIRST_NS
    machine.kinds[7] = "hidden"
    assert machine.use.look_again(S + untraced_processes.LOOK_FIRST_NS) > S
    assert machine.use.until(2 * S) == UntracedProcesses(2 * S, 1)


def test_a_process_that_executes_another_program_is_new_again(machine: Machine) -> None:
    for second in range(1, 20):
        machine.look(second, p7="none", p8="none")
    machine.use.began(7)
    calls = machine.calls
    assert machine.use.look_again(19 * S) == 19 * S + untraced_processes.LOOK_FIRST_NS
    assert machine.calls == calls + 1, "its neighbour is not due"
    machine.kinds[7] = "hidden"
    machine.use.look_again(19 * S + untraced_processes.LOOK_FIRST_NS)
    assert machine.use.until(20 * S).processes == 1


def test_without_processes_nothing_is_due_soon(machine: Machine) -> None:
    machine.look(1)
    assert machine.use.look_again(S) == S + untraced_processes.LOOK_NS


def test_mappings_are_read_ever_more_rarely(machine: Machine) -> None:
    for tenth in range(600):
        machine.look(tenth / 10, p7="none")
    assert 15 <= machine.calls <= 25


def test_processes_are_bounded(machine: Machine) -> None:
    machine.look(
        1, **{f"p{pid}": "hidden" for pid in range(1, untraced_processes.PROCESSES_MAX + 9)}
    )
    assert machine.use.until(S).processes == untraced_processes.PROCESSES_MAX


VARIABLE = "STOKER_TRACE_DIR=/segments"
MAPS_FILES = """
import mmap, sys
maps = []
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        rights = mmap.PROT_READ | mmap.PROT_EXEC
        maps.append(mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, rights))
print(flush=True)
input()
"""


@contextmanager
def program(folder: Path, *variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that has mapped a driver and the tracer."""
    files = [folder / "libpocl.so", folder / "libstoker-opencl.so"]
    for file in files:
        file.write_bytes(bytes(4096))
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", MAPS_FILES, *files],
        env=dict(each.split("=") for each in variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
        process.kill()


def test_a_tracer_counts_with_the_variable_of_its_segments_folder(tmp_path: Path) -> None:
    with program(tmp_path, VARIABLE) as process:
        assert untraced_processes._kind(process.pid, VARIABLE.encode()) == "traced"
    for variables in ((), ("STOKER_TRACE_DIR=/elsewhere",)):
        with program(tmp_path, *variables) as process:
            assert untraced_processes._kind(process.pid, VARIABLE.encode()) == "hidden"


@pytest.mark.parametrize("reaped", [False, True])
def test_who_ends_while_it_is_examined_hid_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reaped: bool
) -> None:
    """Its mappings were read; then it ended, and the kernel shows no variable of it any more."""
    with program(tmp_path, VARIABLE) as process:

        def mapped_and_over(pid: int, prefixes: Iterable[str]) -> list[Copy]:
            found = copies_of(pid, prefixes)
            process.kill()
            os.waitid(os.P_PID, pid, os.WEXITED | (0 if reaped else os.WNOWAIT))
            return found

        monkeypatch.setattr(untraced_processes, "copies_of", mapped_and_over)
        assert untraced_processes._kind(process.pid, VARIABLE.encode()) is None


def test_this_process_has_neither_driver_nor_tracer() -> None:
    use = HiddenUse(0, Path("/segments"))
    use.look([1 << 22], S)  # beyond the largest process id
    assert use.until(S) == UntracedProcesses()


def summary() -> TraceSummary:
    causes = Causes(kernel_ns=3 * S, copy_ns=S, host_on_cpu_ns=2 * S, held_idle_ns=4 * S)
    return TraceSummary(
        "full",
        TimeWindow(0, 10 * S),
        (KernelSummary("k", 5, 3 * S, 1, 1),),
        (CopyRow("read", 5, S, 1, 1, 64),),
        (DeviceRow("a", 10 * S, causes), DeviceRow("b", 10 * S, Causes(not_observed_ns=10 * S))),
    )


@pytest.mark.parametrize(("hidden_s", "claimed_s"), [(1, 9), (5, 5), (60, 4)])
def test_what_was_seen_stands_and_the_rest_is_not_claimed(hidden_s: int, claimed_s: int) -> None:
    found = without(summary(), UntracedProcesses(hidden_s * S, 1))
    first, second = found.devices
    assert first.causes.not_observed_ns == (10 - claimed_s) * S
    assert (first.causes.kernel_ns, first.causes.copy_ns) == (3 * S, S)
    for device in found.devices:
        assert sum(msgspec.structs.astuple(device.causes)) == device.window_ns
    assert second.causes.not_observed_ns == 10 * S
    for row in (*found.kernels, *found.copies):
        assert row.seen == pytest.approx(max(0.0, 1 - hidden_s / 10))
        assert row.error_ns == hidden_s * S * 2
    assert "charged as held" in found.absent["tracer"]


def test_nothing_hidden_changes_nothing() -> None:
    assert without(summary(), UntracedProcesses()) == summary()
