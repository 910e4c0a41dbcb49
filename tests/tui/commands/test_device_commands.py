# SPDX-License-Identifier: Apache-2.0
"""`devices`, `metrics` and `node NAME` on the command line."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stoker.main import cli

T_NS = 1_700_000_000_000_000_000


def device(index: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"GPU-{index}aaa",
        "node": "n",
        "index": index,
        "vendor": "nvidia",
        "model": "NVIDIA H200",
        "kind": "gpu",
        "memory_bytes": 150 << 30,
        "unavailable": "",
        "sim": True,
        "granted_milli": 0,
        "jobs": [],
        "busy_ratio": 0.5,
        "power_w": 300.0,
        "temperature_c": 60.0,
        "absent": {},
    } | more


def readings(asked: dict[str, Any]) -> dict[str, Any]:
    if asked["device"] == "GPU-1aaa":
        return {"error": {"code": "not_found", "message": "node n is silent", "hint": ""}}
    fields = {
        "power_w": {"value": 301.5, "unit": "W", "t_ns": T_NS, "error": 15.0},
        "clock_hz": {"value": 1_980_000_000, "unit": "Hz"},
        "fan_ratio": {"absent": "Not Supported"},
    }
    history = {name: [[T_NS, 301.5]] for name in asked["history"] if name == "power_w"}
    return {
        "node": "n",
        "device": asked["device"],
        "t_ns": T_NS,
        "state": "ok",
        "sim": True,
        "fields": fields,
        "history": history,
    }


@pytest.fixture
def run(node: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line, against a node with two cards, one of them unreadable."""
    for name, value in {**node.environment, "COLUMNS": "140"}.items():
        monkeypatch.setenv(name, value)
    node.answers |= {
        "device.list": lambda asked: {"devices": [device(0), device(1)]},
        "device.readings": readings,
        "node.list": lambda asked: {"nodes": [NODE]},
        "node.topology": lambda asked: TOPOLOGY,
    }

    def call(*argv: str) -> Result:
        return CliRunner().invoke(cli, argv)

    return call


NODE = {
    "node": "n",
    "state": "ready",
    "boot_id": "b",
    "cpu_milli": 2000,
    "memory_bytes": 1 << 30,
    "devices": 2,
    "jobs": 0,
    "missing": ["no fentry"],
}
TOPOLOGY = {
    "node": "n",
    "names": ["GPU-0aaa", "GPU-1aaa"],
    "matrix": [["X", "NV18"], ["NV18", "X"]],
    "numa": [0, 0],
    "cpus": ["0-31", "0-31"],
    "devices": 2,
    "sim": ["GPU-0aaa"],
}


def test_the_table_needs_no_readings_and_says_sim(run: Any, node: Any) -> None:
    done = run("devices")
    assert done.exit_code == 0, done.output
    assert "SIM" in done.output and "300 W" in done.output
    assert "device.readings" not in [verb for verb, _ in node.seen]
    assert run("devices", "-o", "name").output == "GPU-0aaa\nGPU-1aaa\n"


def test_json_has_every_field_with_its_unit_or_its_reason(run: Any) -> None:
    one, other = json.loads(run("devices", "-o", "json").output)["devices"]
    assert one["fields"]["power_w"] == {
        "value": 301.5, "unit": "W", "t_ns": T_NS, "error": 15.0,
    }  # fmt: skip
    assert one["fields"]["fan_ratio"] == {"absent": "Not Supported"}
    assert (one["state"], one["sim"]) == ("ok", True)
    assert other["state"] == "unknown" and "silent" in other["why"]
    lines = run("devices", "-o", "jsonl").output.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["GPU-0aaa", "GPU-1aaa"]


def test_csv_has_values_as_columns_and_wide_has_more_of_them(run: Any) -> None:
    rows = list(csv.DictReader(io.StringIO(run("devices", "-o", "csv").output)))
    assert (rows[0]["fields.power_w"], rows[0]["fields.fan_ratio"]) == ("301.5", "")
    assert rows[1]["fields.power_w"] == ""
    assert "1980 MHz" in run("devices", "-o", "wide").output


@pytest.mark.parametrize("name", ["GPU-0", "n:0", "n:GPU-0aaa", "GPU-0aaa"])
def test_a_device_is_named_by_its_id_or_its_place(run: Any, name: str) -> None:
    done = run("metrics", name)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("n/GPU-0aaa  NVIDIA H200  SIM\n")
    assert "now 301.5 W +-15.0 W" in done.output
    assert "- (it is not read from this device)" in done.output


def test_metrics_in_other_forms(run: Any) -> None:
    made = json.loads(run("metrics", "n:0", "-o", "json").output)
    assert made["history"] == {"power_w": [[T_NS, 301.5]]}
    assert "fan_ratio" in run("metrics", "n:0", "--all").output


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("metrics", "GPU-"), "beginning of several devices: n:0, n:1"),
        (("metrics", "x"), "no device x"),
        (("metrics", "m:0"), "no device m:0"),
        (("node", "m"), "no node m"),
    ],
)
def test_what_is_not_there_is_named(run: Any, argv: tuple[str, ...], says: str) -> None:
    done = run(*argv)
    assert done.exit_code != 0
    assert says in str(done.exception) + done.output


def test_a_node_is_shown_by_its_name_alone(run: Any) -> None:
    shown = run("node", "n")
    assert shown.exit_code == 0, shown.output
    assert "ready" in shown.output and "missing: no fentry" in shown.output
    assert "GPU-1aaa" in shown.output
    made = json.loads(run("node", "show", "n", "-o", "json").output)
    assert [row["id"] for row in made["devices"]] == ["GPU-0aaa", "GPU-1aaa"]


def test_the_topology_of_a_node(run: Any) -> None:
    shown = run("node", "n", "--topology").output
    assert "NV18" in shown and "SIM: 1" in shown
    assert json.loads(run("node", "n", "--topology", "-o", "json").output)["devices"] == 2
