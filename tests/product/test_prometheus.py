# SPDX-License-Identifier: Apache-2.0
"""The metrics page of a live node with simulated cards (SIM): as text, by promtool, in Prometheus.

The load of the cards is constant: what the page, `stoker devices` and Prometheus say one after the
other may differ by what a sensor does meanwhile, and no more. Prometheus and promtool are the
distribution's: `make prometheus-check` unpacks them.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.ports import free_port
from product_node import STOKER, LiveNode, wait_until
from prometheus_client import parser

from stoker.agent.export.dcgm_metrics import ROWS, DcgmField
from stoker.agent.state import metrics_config
from stoker.agent.supervise import pids
from stoker.native.errors import StokerError

pytestmark = pytest.mark.needs_root

CARDS = 8
BUILT = Path(__file__).resolve().parents[2] / "build/prometheus/usr/bin"
QUERIES = (
    'DCGM_FI_DEV_GPU_TEMP{instance=~"$instance", gpu=~"$gpu"}',
    'avg(DCGM_FI_DEV_GPU_TEMP{instance=~"$instance", gpu=~"$gpu"})',
    'DCGM_FI_DEV_POWER_USAGE{instance=~"$instance", gpu=~"$gpu"}',
    'sum(DCGM_FI_DEV_POWER_USAGE{instance=~"$instance", gpu=~"$gpu"})',
    'DCGM_FI_DEV_SM_CLOCK{instance=~"$instance", gpu=~"$gpu"} * 1000000',
    'DCGM_FI_DEV_GPU_UTIL{instance=~"$instance", gpu=~"$gpu"}',
    'DCGM_FI_DEV_FB_USED{instance=~"$instance", gpu=~"$gpu"}',
    'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{instance=~"$instance", gpu=~"$gpu"}',
)
"""All queries of dashboard 12239 (NVIDIA/dcgm-exporter, grafana/dcgm-exporter-dashboard.json)."""
DASHBOARD = BUILT.parents[3] / "examples/grafana/stoker.json"
EVIL = 'a"b\\nc{d} 1 #\\'
"""A name that would break a line of the page, if it could."""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    """A node whose default queue runs a job on the first card and two on the second."""
    with tempfile.TemporaryDirectory(prefix="stoker-test-", dir="/tmp") as folder:
        root = Path(folder)
        root.chmod(0o711)
        live = LiveNode(root / "state", "gpu")
        sim = ("--profile", "8xH200", "--load", "0:0.8,0.4,0.1", "--load", "3:0.5,0.2,0.1")
        up = (STOKER, "up", "--foreground", "--metrics", "0")
        with (root / "log").open("wb") as log:
            environment = {**live.environment, "TMPDIR": folder}
            argv = [STOKER, "sim", "driver", *sim, "--", *up]
            process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log)
        try:
            wait_until(lambda: all_read(live), "all cards are read", 60)
            yield live
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            live.stoker("down")


def all_read(node: LiveNode) -> bool:
    """True if each card has values that are made of two readings."""
    try:
        found = nvidia(node)
    except (StokerError, OSError, KeyError, json.JSONDecodeError):
        return False
    return len(found) == CARDS and all("value" in each["tensor_ratio"] for each in found.values())


def devices(node: LiveNode) -> list[dict[str, Any]]:
    found = node.stoker("devices", "-o", "json", check=False)
    rows: list[dict[str, Any]] = json.loads(found.stdout)["devices"] if found.stdout else []
    return rows


def nvidia(node: LiveNode) -> dict[str, dict[str, Any]]:
    """Map each card to its fields."""
    return {row["id"]: row["fields"] for row in devices(node) if row["vendor"] == "nvidia"}


def near(value: float) -> Any:
    """Return what a value may be a moment later, on a card with a constant load."""
    return pytest.approx(value, rel=0.1, abs=3)


def told_as(field: dict[str, Any], row: DcgmField) -> float:
    """Return a value in the page's unit, rounded as the page rounds it.

    Two equal readings would differ in their last bit if only one of them were rounded.
    """
    return round(float(field["value"]) / row.unit, 6)


def address(node: LiveNode) -> str:
    told = metrics_config.serving(node.state)
    assert told is not None and told.address, told
    return told.address


def fetch(node: LiveNode, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://{address(node)}{path}", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def samples(text: str, name: str) -> list[Any]:
    found = parser.text_string_to_metric_families(text)
    return [sample for each in found for sample in each.samples if sample.name == name]


@pytest.fixture(scope="module")
def jobs(node: LiveNode) -> Iterator[tuple[int, int, int]]:
    """One job that has a card alone, and two that share another one."""
    alone = node.submit("sleep", "600", gpu_milli=1000, name=EVIL)
    shared = [node.submit("sleep", "600", gpu_milli=400) for _ in range(2)]
    for job in (alone, *shared):
        node.wait(job, "running")
    yield alone, shared[0], shared[1]
    for job in (alone, *shared):
        node.stoker("cancel", str(job))


def test_the_page_says_what_stoker_devices_says(node: LiveNode) -> None:
    before, text, after = nvidia(node), fetch(node), nvidia(node)
    told = 0
    for row in ROWS:
        name = f"{row.name}_total" if row.counter else row.name  # as the client calls a counter
        found = {sample.labels["UUID"]: sample.value for sample in samples(text, name)}
        assert found.keys() == {id for id in before if "value" in before[id][row.field]}, row
        for id, value in found.items():
            first, last = (told_as(each[id][row.field], row) for each in (before, after))
            assert (first <= value <= last) if row.counter else (value == near(first)), (row, id)
        told += len(found)
    assert told > 15 * CARDS
    for each in samples(text, "DCGM_FI_DEV_GPU_TEMP"):
        assert each.labels["sim"] == "SIM" and each.labels["modelName"].endswith(" SIM")


def test_a_job_is_on_the_card_that_it_holds(node: LiveNode, jobs: tuple[int, int, int]) -> None:
    alone, *shared = map(str, jobs)

    def held() -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for sample in samples(fetch(node), "stoker_device_allocation_ratio"):
            found.setdefault(sample.labels["stoker_job_id"], []).append(sample)
        return found

    wait_until(lambda: held().keys() == {alone, *shared}, "all holders are told")
    text = fetch(node)
    (own,) = held()[alone]
    assert own.value == 1 and own.labels["stoker_job_queue"] == "default"
    assert own.labels["stoker_job_name"] == EVIL
    assert [held()[job][0].value for job in shared] == [0.4, 0.4]
    by_card = {s.labels["UUID"]: s.labels for s in samples(text, "DCGM_FI_DEV_POWER_USAGE")}
    assert by_card[own.labels["hw_id"]]["hpc_job"] == alone
    assert by_card[own.labels["hw_id"]]["queue"] == "default"
    assert "hpc_job" not in by_card[held()[shared[0]][0].labels["hw_id"]]


def test_another_user_of_the_machine_sees_no_names_of_jobs(
    node: LiveNode, jobs: tuple[int, int, int]
) -> None:
    """A real process of another user asks over a real socket."""
    daemon = pwd.getpwnam("daemon")
    program = (
        f"import urllib.request as u; print(u.urlopen('http://{address(node)}/metrics').read())"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", program], user=daemon.pw_uid, group=daemon.pw_gid,
        extra_groups=[], capture_output=True, check=True, timeout=60, cwd="/",
    )  # fmt: skip
    assert b"DCGM_FI_DEV_GPU_TEMP" in done.stdout
    for word in (b"hpc_job", b"stoker_job_", b"sleep"):
        assert word not in done.stdout
    assert "hpc_job" in fetch(node)


def test_liveness_and_readiness_are_those_of_the_node(node: LiveNode) -> None:
    assert fetch(node, "/livez") == "ok\n"
    assert fetch(node, "/readyz").splitlines() == [
        "ok spawner", "ok broker", "ok scheduler", "ok lease", "ok launch",
    ]  # fmt: skip
    assert samples(fetch(node), "stoker_agent_check")[0].value == 1
    assert samples(fetch(node), "stoker_log_index")
    (check,) = [line for line in said(node, "doctor") if " metrics.page " in line]
    assert check.startswith("PASS") and address(node) in check


def said(node: LiveNode, *words: str) -> list[str]:
    return node.stoker(*words, check=False).stdout.decode().splitlines()


def test_a_node_without_its_scheduler_is_not_ready(node: LiveNode) -> None:
    """A stopped scheduler renews no lease; when it goes on, the node is ready again."""
    pid = pids.find(node.state)["scheduler"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: status(node, "/readyz")[0] == 503, "it is not ready", 30)
        assert "fail lease: " in status(node, "/readyz")[1]
        assert status(node, "/livez")[0] == 200
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: status(node, "/readyz")[0] == 200, "it is ready again", 60)


def status(node: LiveNode, path: str) -> tuple[int, str]:
    try:
        return 200, fetch(node, path)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_up_refuses_a_taken_port_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        node = LiveNode(tmp_path / "state")
        done = node.stoker("up", "--metrics", str(port), check=False)
        assert done.returncode == 2
        (line, *_) = done.stderr.decode().splitlines()
        assert f"port {port} is in use by pid {os.getpid()}" in line and "--metrics" in line
    assert not metrics_config.file(node.state).exists() and node.traces_left() == []


# --- with the distribution's programs ---------------------------------------------------------


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(BUILT))
    if found is None:
        pytest.skip(f"{name} is not here: `make prometheus-check` unpacks the distribution's")
    return found


def test_promtool_finds_nothing_in_our_series(node: LiveNode, jobs: tuple[int, int, int]) -> None:
    """Its complaints of DCGM's are about their names and labels, which are not ours to choose."""
    check = [program("promtool"), "check", "metrics"]
    text = fetch(node)
    ours = "".join(line for line in text.splitlines(keepends=True) if "DCGM_FI_" not in line)
    done = subprocess.run(check, input=ours.encode(), capture_output=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"")
    done = subprocess.run(check, input=text.encode(), capture_output=True, check=False)
    problems = {tuple(line.split(" ", 1)) for line in done.stderr.decode().splitlines()}
    counters = {row.name for row in ROWS if row.counter}
    expected = {(row.name, CAMEL) for row in ROWS if row.name in text}
    expected |= {(name, TOTAL) for name in counters if name in text}
    expected.add(("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", TYPE))
    assert problems == expected


CAMEL = "label names should be written in 'snake_case' not 'camelCase'"
TOTAL = 'counter metrics should have "_total" suffix'
TYPE = "metric name should not include type 'counter'"


@pytest.fixture(scope="module")
def prometheus(node: LiveNode) -> Iterator[str]:
    """A Prometheus that scrapes the node once a second; its address."""
    server = program("prometheus")
    with tempfile.TemporaryDirectory(prefix="stoker-prometheus-", dir="/tmp") as folder:
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [
                {"job_name": "stoker", "static_configs": [{"targets": [address(node)]}]}
            ],
        }
        (Path(folder) / "config.yml").write_text(json.dumps(config))
        where = f"127.0.0.1:{free_port()}"
        argv = [
            server, f"--config.file={folder}/config.yml", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={where}",
        ]  # fmt: skip
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            wait_until(lambda: scraped(where), f"it scrapes; see {folder}/log", 60)
            yield where
        finally:
            process.terminate()
            process.wait(60)


def scraped(where: str) -> bool:
    try:
        found = query(where, "up")
    except OSError:
        return False
    return [row["value"][1] for row in found] == ["1"]


def query(where: str, text: str) -> list[dict[str, Any]]:
    words = urllib.parse.urlencode({"query": text})
    with urllib.request.urlopen(f"http://{where}/api/v1/query?{words}", timeout=30) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


def label_values(where: str, name: str) -> list[str]:
    """Return what a variable of the dashboard offers: label_values(DCGM_FI_DEV_GPU_TEMP, name)."""
    words = urllib.parse.urlencode({"match[]": "DCGM_FI_DEV_GPU_TEMP"})
    at = f"http://{where}/api/v1/label/{name}/values?{words}"
    with urllib.request.urlopen(at, timeout=30) as answer:
        found: list[str] = json.load(answer)["data"]
        return found


def test_prometheus_answers_every_query_of_dashboard_12239(node: LiveNode, prometheus: str) -> None:
    instances, gpus = label_values(prometheus, "instance"), label_values(prometheus, "gpu")
    assert instances == [address(node)] and gpus == [str(number) for number in range(CARDS)]
    text = fetch(node)
    for each in QUERIES:
        filled = each.replace("$instance", "|".join(instances)).replace("$gpu", "|".join(gpus))
        found = [float(row["value"][1]) for row in query(prometheus, filled)]
        name = each[each.index("DCGM") :].partition("{")[0]
        page = [sample.value for sample in samples(text, name)]
        match each[:3]:
            case "avg":
                assert found == [near(sum(page) / CARDS)], each
            case "sum":
                assert found == [near(sum(page))], each
            case _:
                factor = 1e6 if each.endswith("1000000") else 1
                assert len(found) == CARDS, each
                for answer, value in zip(sorted(found), sorted(page), strict=True):
                    assert answer / factor == near(value), each


def test_prometheus_answers_every_query_of_our_dashboard(
    prometheus: str, jobs: tuple[int, int, int]
) -> None:
    """Those of jobs that are traced have no answer here: nothing is launched."""
    dashboard = json.loads(DASHBOARD.read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    wait_until(lambda: bool(query(prometheus, "stoker_device_allocation_ratio")), "a job", 30)
    silent = set()
    for panel in panels:
        for each in panel["targets"]:
            answer = query(prometheus, each["expr"].replace("$instance", ".*"))
            if not answer:
                silent.add(panel["title"])
    always = {"Waiting jobs", "Share of time at work", "Power", "Power by user", "Held and idle"}
    assert len(panels) > 20 and not silent & always
    assert len(silent) <= 12, silent


def test_prometheus_takes_every_series_and_joins_jobs_to_cards(
    node: LiveNode, prometheus: str, jobs: tuple[int, int, int]
) -> None:
    power = (
        "sum by (stoker_job_id) (stoker_device_allocation_ratio"
        " * on (hw_id) group_left () hw_power_watts)"
    )

    def drawn() -> dict[str, float]:
        found = query(prometheus, power)
        return {row["metric"]["stoker_job_id"]: float(row["value"][1]) for row in found}

    wait_until(lambda: drawn().keys() == set(map(str, jobs)), "each job has a share of power", 30)
    assert all(watts > 0 for watts in drawn().values())
    lines = [line for line in fetch(node).splitlines() if not line.startswith("#")]
    (taken,) = query(prometheus, "scrape_samples_scraped")
    assert abs(float(taken["value"][1]) - len(lines)) <= len(lines) // 20
