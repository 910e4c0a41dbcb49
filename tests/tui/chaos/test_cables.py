# SPDX-License-Identifier: Apache-2.0
"""Datagrams between two real hosts: a bad cable loses or delays them, and then is as before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.native.errors import NotSupported
from stoker.tui.chaos import cables

GUARD_S = 60
SENT = 200
SCRIPT = """
import json, subprocess, sys
from pathlib import Path
from stoker.tui.chaos.cables import BadCable
from stoker.tui.chaos.frame_queue import CableQuality
from stoker.tui.demo import network_hosts

HEAR = '''
import socket, sys
heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
heard.bind(("", 7))
print("ready", flush=True)
count = 0
while count < int(sys.argv[1]) and heard.recv(100) != b"end":
    count += 1
print(count)
'''
SAY = '''
import socket, sys
said = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[2])):
    said.sendto(sys.argv[3].encode(), (sys.argv[1], 7))
'''

def there(host, script, *words):
    return ["nsenter", f"--net=/run/netns/{host.namespace}", sys.executable, "-c", script, *words]

def heard_by(other, count):
    hears = subprocess.Popen(there(other, HEAR, str(count)), stdout=subprocess.PIPE, text=True)
    assert hears.stdout.readline() == "ready\\n"
    return hears

def say(host, other, count, word="frame"):
    subprocess.run(there(host, SAY, other.address, str(count), word), check=True)

def devices():
    return sorted(each["ifname"] for each in json.loads(network_hosts.ip("-j", "link")))

sent, bad, quality = int(sys.argv[1]), sys.argv[2], CableQuality(*map(float, sys.argv[3:6]))
with network_hosts.made(("first", "second"), Path(sys.argv[6])) as (first, second):
    say(first, second, 1)  # each knows the other's hardware address from here on
    before, cable = devices(), BadCable(first, {bad: quality}, 5)
    cable.put_in()
    hears = heard_by(second, sent if not quality.loss else 2 * sent)
    say(first, second, sent)
    if not quality.loss:
        hears.wait()
    cable.mend()
    while hears.poll() is None:
        say(first, second, 1, "end")
    received = int(hears.stdout.read())
    print(json.dumps({"received": received, "did": cable.did, "same": devices() == before}))
"""


def run(tmp_path: Path, bad: str, *quality: float) -> dict[str, Any]:
    """Send SENT datagrams by a cable that is bad in one direction; return what was seen."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    words = [str(SENT), bad, *map(str, quality), str(tmp_path)]
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--", sys.executable, "-c", SCRIPT, *words],
        capture_output=True, text=True, timeout=GUARD_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["same"], "a device was left behind"
    return found


@pytest.mark.needs_root
def test_what_gets_lost_is_what_the_cable_counts(tmp_path: Path) -> None:
    found = run(tmp_path, "sent", 0.5, 0.0, 0.0)
    did, missing = found["did"]["sent"], SENT - found["received"]
    assert did["frames"] == did["passed"] + did["lost"]
    other = did["frames"] - SENT  # such as those by which hosts look for each other
    assert other >= 0
    assert 0 < missing <= did["lost"] <= missing + other


@pytest.mark.needs_root
def test_a_slow_cable_loses_nothing(tmp_path: Path) -> None:
    found = run(tmp_path, "sent", 0.0, 0.05, 0.02)
    assert found["received"] == SENT
    did = found["did"]["sent"]
    assert did["lost"] == did["full"] == 0 and did["passed"] >= SENT


@pytest.mark.needs_root
def test_the_other_direction_stays_good(tmp_path: Path) -> None:
    found = run(tmp_path, "heard", 1.0, 0.0, 0.0)
    assert found["received"] == SENT
    did = found["did"]["heard"]
    assert did["passed"] == 0 and did["frames"] == did["lost"]


def test_a_kernel_without_tap_devices_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cables, "TUN", str(tmp_path / "tun"))
    with pytest.raises(NotSupported) as refused:
        cables.check()
    assert str(tmp_path / "tun") in refused.value.message and "modprobe" in refused.value.hint
