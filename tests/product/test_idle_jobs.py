# SPDX-License-Identifier: Apache-2.0
"""Jobs that hold simulated cards (SIM) and do nothing: they are warned of, ended, and accounted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.probes.simdriver import libraries, profiles

pytestmark = pytest.mark.needs_root

CONFIG = """\
[alerts]
interval_s = 0.5

[[alert]]
name = "idle"
metric = "stoker.job.idle"
above = 0.9
clear = 0.5
text = "use its devices, or end it"

[[alert]]
name = "idle too long"
metric = "stoker.job.idle"
where = { "stoker.job.name" = "forgotten" }
above = 0.9
clear = 0.5
for_s = 2
action = "cancel"
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    folder = tmp_path_factory.mktemp("sim") / "node"
    profiles.node("4xL40S", folder, seed=11).set_open(True)

    def prepare(node: LiveNode) -> None:
        node.root.mkdir(mode=0o700)
        (node.root / "config.toml").write_text(CONFIG)

    variables = libraries.environment(folder, [1], {})
    with live_node(device_kind="gpu", prepare=prepare, **variables) as started:
        yield started


def firing(node: LiveNode) -> set[tuple[str, int]]:
    found: Any = node.json("alerts")["alerts"]
    return {(each["rule"], each["series"]["stoker.job.id"]) for each in found}


def test_a_job_that_holds_devices_for_nothing_is_warned_of_and_the_chosen_one_ended(
    node: LiveNode,
) -> None:
    kept = node.submit("/bin/sleep", "600", name="kept", gpu_milli=1000)
    forgotten = node.submit("/bin/sleep", "600", name="forgotten", gpu_milli=1000)
    wait_until(lambda: ("idle", kept) in firing(node), "a warning", 60)

    def row(job: int) -> Any:
        return json.loads(node.stoker("job", str(job), "-o", "json").stdout)

    wait_until(lambda: row(forgotten)["state"] == "cancelled", "it is ended", 60)
    assert "alert idle too long on node " in row(forgotten)["reason"]
    assert "stoker.job.idle is 1, above 0.9 for " in row(forgotten)["reason"]
    assert row(kept)["state"] == "running"
    audit = node.stoker("audit", "show", "--all").stdout.decode()
    assert "job.cancel" in audit, "the log says who ended it"
    node.stoker("cancel", str(kept))


def test_a_job_that_ended_has_the_energy_of_its_cards(node: LiveNode) -> None:
    """Two cards draw more than nothing, and never more than their limits of 350 W."""
    job = node.submit("/bin/sleep", "3", gpu_milli=2000)
    node.wait(job)
    found: Any = node.json("eff", str(job))["efficiency"]
    most_j = 2 * 350 * found["ran_ns"] / 1e9
    assert found["energy_absent"] == "" and 0 < found["energy_j"] < most_j, found
    assert ", energy " in " ".join(node.stoker("eff", str(job)).stdout.decode().split())
