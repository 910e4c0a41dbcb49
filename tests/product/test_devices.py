# SPDX-License-Identifier: Apache-2.0
"""The verbs of devices on live nodes: one under each simulated profile (SIM), one with none.

A node here is what a person starts: `stoker sim driver --profile P -- stoker up --foreground`. All
are started at once. Their clocks are virtual: they run while what is made of two readings is
looked at, then stand still, so that every field can be compared with what the card holds.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from fakes.cards import card_truth
from product_node import STOKER, LiveNode, wait_until

from stoker.agent.devices.fields import SPECS
from stoker.main import cli
from stoker.mesh.wire import schema
from stoker.native import _sim
from stoker.native.errors import StokerError
from stoker.native.row_forms import short_id
from stoker.tui.calls import device_calls

PROFILES = ("8xH200", "8xA100-MIG", "4xL40S", "8xMI300X", "4xMax1550", "mixed")
NONE = "no simulation"
START_S = 60
LOADS = ("0:0.8,0.4,0.1", "1:0.4,0.2,0.1")
Row = dict[str, Any]


class Node:
    """One node with simulated cards, or with what this machine has."""

    def __init__(self, root: Path, profile: str) -> None:
        self.profile, self.root = profile, root
        self.live = LiveNode(root / "state", "cpu" if profile == NONE else "gpu")
        command = [str(STOKER), "up", "--foreground"]
        if profile != NONE:
            options = ["--profile", profile, "--virtual", "--settle", "5"]
            options += [word for load in LOADS for word in ("--load", load)]
            command = [str(STOKER), "sim", "driver", *options, "--", *command]
        environment = {**self.live.environment, "TMPDIR": str(root), "COLUMNS": "100"}
        with (root / "log").open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.sim: _sim.Node | None = None
        self.last = ""

    def rows(self) -> list[Row]:
        """The rows of `stoker devices -o json`."""
        return asyncio.run(device_calls.read_devices(str(self.live.root)))

    def ready(self) -> bool:
        """True if every device was read."""
        assert self.process.poll() is None, (self.root / "log").read_text()[-2000:]
        try:
            rows = self.rows()
        except (StokerError, OSError) as error:
            self.last = repr(error)
            return False
        self.last = ", ".join(f"{row['id']}: {row['state']} {row['why']}" for row in rows)
        return bool(rows) and all(row["state"] == "ok" for row in rows)

    def open_sim(self) -> None:
        (file,) = self.root.glob("stoker-sim-*/node")
        self.sim = _sim.Node.open(str(file))

    def run(self, *words: str) -> Result:
        """A verb in this process, which saves the start of another."""
        environment = {"STOKER_STATE": str(self.live.root), "NO_COLOR": "1", "COLUMNS": "140"}
        return CliRunner().invoke(cli, words, env=environment)

    def says(self, *words: str) -> str:
        done = self.run(*words)
        assert done.exit_code == 0, (words, done.output, done.exception)
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.says(*words, "-o", "json"))

    def refuses(self, *words: str) -> str:
        """The error that `main` prints, after the program's name, for a command that is refused."""
        done = self.run(*words)
        assert isinstance(done.exception, StokerError) and done.stdout == ""
        return str(done.exception)

    def truths(self) -> dict[str, tuple[Row, Row]]:
        """PCI address -> what the simulation holds of that card, and what its sensors say."""
        assert self.sim is not None
        found = {}
        for card in range(self.sim.describe()["cards"]):
            truth, sensor = self.sim.truth(card), self.sim.sensor(card)
            assert sensor is not None
            found[truth["model"]["bus_id"][-12:].lower()] = (truth, sensor)
        return found

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.live.stoker("down")


class Clock(threading.Thread):
    """Lets virtual time pass as the real one does, until it is stopped."""

    def __init__(self, nodes: list[_sim.Node]) -> None:
        super().__init__(daemon=True)
        self._nodes, self._over = nodes, threading.Event()

    def run(self) -> None:
        before = time.monotonic_ns()
        while not self._over.wait(0.05):
            now = time.monotonic_ns()
            for node in self._nodes:
                node.advance(now - before)
            before = now

    def stop(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def started(profile: str) -> Iterator[Node]:
    root = Path(tempfile.mkdtemp(prefix="stoker-sim-", dir="/tmp"))
    root.chmod(0o711)  # jobs of other users map the node as well
    node = Node(root, profile)
    try:
        yield node
    finally:
        node.close()
        left = [*node.live.traces_left(), *root.glob("stoker-sim-*")]
        shutil.rmtree(root)
        assert left == []


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, Node]]:
    """All of them; their clocks stand still since before every field was read for the last time."""
    with ExitStack() as stack:
        found = {name: stack.enter_context(started(name)) for name in (*PROFILES, NONE)}
        for each in found.values():
            await_cards(each)
        simulated = [found[name] for name in PROFILES]
        for each in simulated:
            each.open_sim()
        clock = Clock([each.sim for each in simulated if each.sim is not None])
        clock.start()
        try:
            for each in simulated:
                wait_until(lambda node=each: not differing(node), f"{each.profile}: two readings")
        finally:
            clock.stop()
        stopped_ns = time.time_ns()
        for each in simulated:
            wait_until(lambda node=each: read_since(node, stopped_ns), "all is read once more")
        yield found
        for each in found.values():
            each.process.send_signal(signal.SIGTERM)


def await_cards(node: Node) -> None:
    deadline = time.monotonic() + START_S
    while not node.ready():
        assert time.monotonic() < deadline, f"{node.profile} has not read its devices: {node.last}"
        time.sleep(0.2)


def differing(node: Node) -> list[str]:
    """Fields made of two readings that are not, or not yet, about what their card does."""
    found, truths = [], node.truths()
    for row in (row for row in node.rows() if whole(row)):
        truth = truths[row["fields"]["bus_id"]["value"]][0]
        for name, (wanted, room) in by_difference(truth).items():
            value = row["fields"][name].get("value")
            if value is None or abs(value - wanted) > room:
                found.append(f"{row['id']}: {name} is {row['fields'][name]}, not {wanted}")
    return found


def by_difference(truth: Row) -> dict[str, tuple[float, float]]:
    """Field -> about what it is, and how far it may be from that."""
    load, watts = truth["load"], truth["now"]["power_w"]
    power, busy = (watts, 5 + 0.2 * watts), (load["compute"], 0.1)
    memory = (load["memory"], 0.1)
    vendor, architecture = truth["model"]["vendor"], truth["model"]["architecture"]
    if vendor == card_truth.INTEL:
        more = {"power_w": power, "busy_ratio": busy, "memory_bandwidth_ratio": memory}
        return {"energy_power_w": power, **more}
    if vendor == card_truth.NVIDIA and architecture == "hopper":  # the others have no GPM
        return {"energy_power_w": power, "sm_ratio": busy, "memory_bandwidth_ratio": memory}
    return {"energy_power_w": power}


def whole(row: Row) -> bool:
    """True for a simulated card; a partition of one has no readings of its own."""
    return bool(row["sim"]) and not row["id"].startswith("MIG-")


def read_since(node: Node, t_ns: int) -> bool:
    """True if every field that is read repeatedly was read since then."""
    return all(
        field.get("t_ns", t_ns + 1) > t_ns or SPECS[name].rate == "once"
        for row in node.rows()
        if whole(row)
        for name, field in row["fields"].items()
        if name not in card_truth.BY_DIFFERENCE[card_truth.NVIDIA]
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_json_has_every_field_as_the_card_holds_it(nodes: dict[str, Node], profile: str) -> None:
    node = nodes[profile]
    shown = node.json("devices")["devices"]
    rows = {row["fields"]["bus_id"]["value"]: row for row in shown if whole(row)}
    truths = node.truths()
    assert rows.keys() == truths.keys()
    for address, (truth, sensor) in truths.items():
        row, model, wanted = rows[address], truth["model"], card_truth.expected(truth, sensor)
        fields = row["fields"]
        assert {name: fields[name].get("value", fields[name]) for name in wanted} == wanted
        assert card_truth.unexplained(model["vendor"], wanted, fields) == []
        assert card_truth.malformed(fields) == []
        named = (row["id"], row["model"], row["kind"], row["state"])
        assert named == (model["uuid"], model["name"], "gpu", "ok")
        assert row["memory_bytes"] == pytest.approx(model["memory_bytes"], abs=1 << 20)
        parts = fields["partitions"].get("value", [])
        assert [p["uuid"] for p in parts] == [p["uuid"] for p in truth["partitions"]]
        up = sum(port["up"] for port in fields["links"].get("value", []))
        assert up == model["links"]


@pytest.mark.parametrize("profile", PROFILES)
def test_whatever_shows_a_simulated_device_says_so(nodes: dict[str, Node], profile: str) -> None:
    node = nodes[profile]
    name = node.rows()[0]["node"]
    ids = [row["id"] for row in node.rows() if row["sim"]]
    shown = [short_id(id) for id in ids]
    assert len(set(shown)) == len(ids)
    for words in (("devices",), ("node", name), ("top", "--once")):
        lines = node.says(*words).splitlines()
        for id in shown:
            (line,) = (line for line in lines if id in line)
            assert " SIM " in line, line
    assert f"SIM: {len(ids)} of these devices are simulated" in node.says(
        "node", name, "--topology"
    )
    assert node.says("metrics", ids[0]).splitlines()[0].endswith("  SIM")


def test_without_a_simulation_the_device_of_this_machine_is_there(nodes: dict[str, Node]) -> None:
    node = nodes[NONE]
    (row,) = (row for row in node.rows() if row["id"] == "pocl-0")
    assert (row["kind"], row["sim"], row["state"]) == ("cpu", False, "ok")
    assert row["fields"]["memory_total_bytes"]["value"] == row["memory_bytes"] > 0
    assert card_truth.malformed(row["fields"]) == []
    assert "no sensor" in row["fields"]["power_w"]["absent"]
    table = node.says("devices")
    assert "pocl-0" in table and row["model"] in table and "SIM" not in table
    assert "no sensor" in node.says("metrics", "pocl-0")
    assert "SIM" not in node.says("node", row["node"]) + node.says("metrics", "pocl-0", "--all")


def test_other_forms_are_what_the_schema_says(nodes: dict[str, Node]) -> None:
    node = nodes["mixed"]
    name = node.rows()[0]["node"]
    for row in node.json("devices")["devices"]:
        parts = {key: row.pop(key) for key in ("state", "why", "fields")}
        assert msgspec.convert(row, schema.DeviceView, strict=True).sim == row["sim"]
        assert msgspec.convert(parts["fields"], dict[str, schema.FieldView], strict=True)
    one = msgspec.convert(node.json("metrics", f"{name}:0"), schema.ReadingsView, strict=True)
    assert one.history["power_w"] and one.sim
    lines = node.says("metrics", f"{name}:0", "-o", "jsonl").splitlines()
    assert [json.loads(line)["device"] for line in lines] == [one.device]
    shown = node.json("node", name)
    assert len(shown["devices"]) == 9
    matrix = node.json("node", "show", name, "--topology")
    assert msgspec.convert(matrix, schema.TopologyView, strict=True).devices == 9
    assert len(node.says("devices", "-o", "csv").splitlines()) == 10
    assert "MHz" in node.says("devices", "-o", "wide")


def test_a_job_on_a_simulated_card_is_said_to_be(nodes: dict[str, Node]) -> None:
    node = nodes["8xH200"]
    job = str(node.live.run("true", gpu_milli=1000, models=("H200",), trace="off").job)
    for form, start in (("table", "devices: "), ("wide", "decision")):
        lines = node.says("explain", job, "-o", form).splitlines()
        (line,) = (each for each in lines if each.startswith(start))
        assert line.endswith(" (SIM)"), line
    assert "SIM: a simulated device" in " ".join(node.says("job", job).split())
    assert re.search(r"  SIM \S+/GPU-\S+  ", node.says("jobs"))


def test_a_device_is_cordoned_by_its_place_and_given_back(nodes: dict[str, Node]) -> None:
    node = nodes["8xMI300X"]
    row = node.rows()[3]
    place, whole = f"{row['node']}:3", f"device {row['node']}:{row['id']} (SIM): "
    assert node.says("uncordon", place) == f"{whole}not cordoned already\n"
    assert node.says("cordon", place, "--reason", "a new fan") == f"{whole}cordoned\n"
    assert node.says("cordon", row["id"]) == f"{whole}cordoned already\n"
    assert node.rows()[3]["cordoned"] == "a new fan"
    for words in (("devices",), ("node", row["node"]), ("top", "--once")):
        (line,) = (line for line in node.says(*words).splitlines() if short_id(row["id"]) in line)
        assert line.endswith("cordoned: a new fan"), line
    assert "cordoned: a new fan\n" in node.says("metrics", place)
    assert node.says("uncordon", f"{row['node']}:{row['id'][:8]}") == f"{whole}not cordoned\n"
    assert node.rows()[3]["cordoned"] == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("metrics", "{node}:99"), "there is no device {node}:99"),
        (("metrics", "GPU-"), "is the beginning of several devices: {node}:0, {node}:1"),
        (("metrics", "elsewhere:0"), "there is no device elsewhere:0"),
        (("node", "elsewhere"), "there is no node elsewhere"),
        (("node", "elsewhere", "--topology"), "elsewhere"),
        (("cordon", "{node}:99"), "has no device '99'"),
        (("cordon", "elsewhere:0"), "no node 'elsewhere'"),
        (("cordon", "99"), "is no NODE:DEVICE"),
        (("cordon", "{node}:0", "--reason", "a\nb"), "printable"),
        (("uncordon", "{node}:99"), "has no device '99'"),
        (("uncordon", ""), "several devices"),
    ],
)
def test_what_is_not_there_is_one_line(
    nodes: dict[str, Node], words: tuple[str, ...], told: str
) -> None:
    node = nodes["8xH200"]
    name = node.rows()[0]["node"]
    said = node.refuses(*(word.format(node=name) for word in words))
    assert told.format(node=name) in said and "\n" not in said, said


def test_a_refusal_is_one_line_of_the_program(nodes: dict[str, Node]) -> None:
    done = nodes["8xH200"].live.stoker("cordon", "elsewhere:0", check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert re.fullmatch(rb"stoker: .*no node 'elsewhere'.*\n", done.stderr), done.stderr


def test_metrics_are_watched_in_place_until_interrupted(nodes: dict[str, Node]) -> None:
    node = nodes["mixed"]
    id = next(row["id"] for row in node.rows() if row["model"] == "NVIDIA H200")
    with terminal(node, "metrics", id, "-w", "--every", "0.1") as (child, master):
        before = termios.tcgetattr(master)
        seen = read_until(master, b"\x1b[J", 4)
        os.write(master, b"\x03")  # what a terminal sends for Ctrl-C
        seen += read_until(master, b"", 0)
        after = termios.tcgetattr(master)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    assert after == before
    found = re.findall(r"\x1b\[[?0-9]*[A-Za-z]", seen)
    assert {re.sub("[0-9]+", "N", each) for each in found} == {"\x1b[NF", "\x1b[K", "\x1b[J"}
    frame = re.sub(r"\x1b\[[0-9]*[A-Za-z]", "", seen.split("\x1b[J")[2]).splitlines()
    assert int(re.findall(r"\x1b\[(\d+)F", seen)[1]) == len(frame)
    assert frame[0].endswith(f"{id}  NVIDIA H200  SIM") and max(map(len, frame)) <= 100
    lines = {line[:19].rstrip(): line[19:] for line in frame[1:]}
    assert re.match(r" +0 % \|[ ▁-█]+\| 100 % +now 80 %$", lines["busy"]), lines
    assert re.match(r" +0.0 W \|[ ▁-█]+\| 700.0 W +now \d+.\d W", lines["power"]), lines
    assert lines[""].split() == ["|60", "s", "ago", "now|"]


@contextmanager
def terminal(node: Node, *words: str) -> Iterator[tuple[int, int]]:
    """A command on a terminal of its own: its pid, and the terminal's other side."""
    child, master = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environment = {**node.live.environment, "LANG": "C.UTF-8", "PYTHONUTF8": "1"}
        environment.pop("COLUMNS", None)
        os.execve(STOKER, [str(STOKER), *words], environment)
    try:
        yield child, master
    finally:
        os.close(master)  # SIGHUP for whatever still has this terminal


def read_until(master: int, mark: bytes, count: int) -> str:
    """The terminal's output up to the `count`-th mark; without a mark, to the end."""
    seen, end = b"", time.monotonic() + 60
    while not mark or seen.count(mark) < count:
        ready, _, _ = select.select([master], [], [], 20)
        assert ready and time.monotonic() < end, seen
        try:
            seen += os.read(master, 65536)
        except OSError:  # EIO: its last writer is gone
            break
    return seen.decode()


# --- what a request for GPUs is given -------------------------------------------------------------


def granted(node: Node, job: int) -> list[str]:
    """The ids of the devices that a job was placed on."""
    view = node.live.wait(job)
    assert view.state == "succeeded" and view.decision is not None, view
    return [device.id for device in view.decision.devices]


def vendors_of(node: Node) -> dict[str, list[str]]:
    """Vendor -> ids of its GPUs."""
    found: dict[str, list[str]] = {}
    for row in node.rows():
        if row["kind"] == "gpu":
            found.setdefault(row["vendor"], []).append(row["id"])
    return found


def has_temperatures(node: Node) -> bool:
    """True if the scheduler has the temperature of every GPU of the node."""
    devices = node.live.ask(lambda client: client.devices()).devices
    return all(each.temperature_c is not None for each in devices if each.kind == "gpu")


def test_ten_of_ten_jobs_that_ask_for_a_gpu_get_one(nodes: dict[str, Node]) -> None:
    node = nodes["8xH200"]
    cards = set(vendors_of(node)["nvidia"])
    assert len(cards) == 8 < len(node.rows())  # PoCL's CPU device is there as well
    array = {"array": tuple(range(10)), "gpu_milli": 1000}
    first = node.live.submit("true", **array)
    for job in range(first, first + 10):
        assert set(granted(node, job)) <= cards
    wait_until(lambda: has_temperatures(node), "the scheduler has seen all cards")
    for placement, why in (("thermal", "most thermal headroom"), ("power", "least added power")):
        decision = node.live.run("true", gpu_milli=1000, placement=placement).decision
        assert decision is not None and len(decision.observations) == 1, decision
        assert why in decision.reason, decision
    cpu = node.live.submit("true", gpu_milli=1000, device_kind="cpu")
    assert granted(node, cpu) == ["pocl-0"]
    assert '"device_kind": "cpu"' in node.says("job", str(cpu), "-o", "json")


def test_devices_of_several_vendors_are_never_in_one_job_unasked(nodes: dict[str, Node]) -> None:
    node = nodes["mixed"]
    vendors = vendors_of(node)
    assert len(vendors) > 1
    most = max(map(len, vendors.values()))
    for _ in range(4):
        chosen = granted(node, node.live.submit("true", gpu_milli=2000))
        assert any(set(chosen) <= set(ids) for ids in vendors.values()), chosen
    refused = node.refuses("run", "--gpus", str(most + 1), "--", "true")
    assert f"asks for {most + 1} devices, the largest node has {most}" in refused
    everything = sum(map(len, vendors.values()))
    job = node.live.submit("true", gpu_milli=everything * 1000, mix_vendors=True)
    assert len(granted(node, job)) == everything


def test_a_node_without_a_gpu_says_so_and_what_would_do(nodes: dict[str, Node]) -> None:
    node = nodes[NONE]
    refused = node.refuses("run", "--gpus", "1", "--", "true")
    assert "this node has no GPU. --device-kind cpu uses the CPU device pocl-0" in refused
    done = node.run("run", "--gpus", "1", "--device-kind", "cpu", "--", "true")
    assert done.exit_code == 0, done.output


def test_a_job_that_meets_a_foreign_process_on_its_card_is_tried_again(
    nodes: dict[str, Node],
) -> None:
    """The process comes right before the start, so that no report has named it yet (SIM)."""
    node = nodes["4xL40S"]
    assert node.sim is not None
    with subprocess.Popen(["sleep", "1000"]) as holder:
        try:
            for card in range(4):
                node.sim.add_process(card, holder.pid, 1 << 30, 0.5, "sleep")
            job = node.live.submit("echo", "ran", gpu_milli=1000)
            held = f"is occupied: held by pid {holder.pid} (sleep)"
            wait_until(lambda: held in told_of(node, job), "explain has the reason")
            for card in range(4):
                node.sim.end_process(card, holder.pid)
        finally:
            holder.kill()
    done = node.live.wait(job)
    assert done.state == "succeeded" and done.attempt > 1
    first = done.attempts[0]
    assert first.state == "cancelled" and first.reason.endswith(held)
    assert node.live.output(job) == b"ran\n"


def told_of(node: Node, job: int) -> str:
    """Return all that `stoker explain` prints of a job."""
    return " ".join(node.says("explain", str(job)).split())


def test_a_job_that_needs_a_lost_card_waits_for_it_and_says_so(nodes: dict[str, Node]) -> None:
    node = nodes["4xL40S"]
    assert node.sim is not None
    cards = vendors_of(node)["nvidia"]
    node.sim.inject("lost", 2, from_ns=node.sim.now_ns)
    wait_until(lambda: sum(bool(row["why"]) for row in node.rows()) == 1, "a card is lost", 60)
    job = node.live.submit("true", gpu_milli=4000)

    def explained() -> schema.ExplainView:
        return node.live.ask(lambda client: client.explain(job))

    # A card that a process of the test before this one held is free once the host says so.
    wait_until(lambda: "has 3 free" in explained().summary, "the other cards are free", 60)
    told = explained()
    assert told.state == "pending" and told.summary.startswith("waits: needs 4 free GPUs")
    lost = [reason.text for reason in told.reasons if reason.code == "devices_unavailable"]
    assert lost and any(card in lost[0] for card in cards), told.reasons
    # It cannot start as things are, and holds up nobody: the default order is backfill.
    assert len(granted(node, node.live.submit("true", gpu_milli=3000))) == 3
    node.says("cancel", str(job))
