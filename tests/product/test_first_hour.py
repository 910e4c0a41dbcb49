# SPDX-License-Identifier: Apache-2.0
"""The first hour of somebody new: the walk of docs/user/quickstart.md, and what they are told.

The walk is taken at a terminal of 80 columns: by root, and by a plain user on a node of root's with
mixed cards (SIM). Its output is compared word by word with that of the page.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import page_walk
import plain_user
import pytest
from page_walk import Walker
from product_node import STOKER, LiveNode, live_node, wait_until

from stoker.agent.state.state_folder import write_json
from stoker.mesh.connection.context import SavedContext, find
from stoker.probes.simdriver import libraries, profiles

pytestmark = pytest.mark.needs_root

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/user/quickstart.md"
CARDS = 8
"""The cards of the profile `mixed`."""
OTHER = pwd.getpwnam("daemon")
"""The Unix user of alice."""
VERBS = f"{STOKER.parent}:{os.environ['PATH']}"


SHOWN = "job 3, pending: needs 1 free\n  GPU for 1.5 s of 12 %, node v…\n"


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("job 3, pending: needs 1 free GPU for\n 20 ms of 1 %, node vm ha…", True),
        ("job 3, pending: needs 2 free GPU for 1.5 s of 12 %, node v…", False),
        ("job 4, pending: needs 1 free GPU for 1.5 s of 12 %, node v…", False),
        ("job 3, pending: needs 1 free GPU for 1.5 s of 12 %,", False),
        ("job 3, pending: needs 1 free GPU for 1.5 s of 12 %, node v…\nmore", False),
    ],
)
def test_only_what_changes_may_differ_from_the_page(said: str, same: bool) -> None:
    step = page_walk.Step("stoker explain 3", SHOWN)
    assert Walker({}, Path("/")).is_as_shown(step, said) is same


def hosts_name(node: LiveNode) -> str:
    return str(node.json("nodes")["nodes"][0]["node"])  # type: ignore[index]


# --- the walk -------------------------------------------------------------------------------------


@contextmanager
def busy(programs: int) -> Iterator[None]:
    """Have so many programs compute meanwhile; each ends by itself after ten minutes."""
    loop = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass"
    running = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(programs)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


@pytest.mark.soak
def test_the_walk_on_a_machine_with_a_load_of_ten(public_folder: Path) -> None:
    with busy(10):
        test_the_walk_as_root_from_up_to_down(public_folder)
        assert os.getloadavg()[0] > 5, "the machine was not as busy as it should be"


def test_the_walk_as_root_from_up_to_down(public_folder: Path) -> None:
    with live_node(up=False) as node:
        walker = Walker(node.environment | {"PATH": VERBS}, public_folder)
        up, *rest = page_walk.steps(PAGE)
        said = walker.run(up.command)
        walker.names = {"/var/lib/stoker": str(node.root), "vm": hosts_name(node)}
        assert walker.is_as_shown(up, said), said
        walker.walk(rest)
        assert rest[-1].command == "stoker down" and node.traces_left() == []


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """A node of root's with simulated cards of three vendors (SIM)."""
    cards = tmp_path_factory.mktemp("cards") / "node"
    profiles.node("mixed", cards, seed=4).set_open(True)
    with live_node(device_kind="gpu", **libraries.environment(cards, [1, 2, 3], {})) as node:
        wait_until(lambda: len(gpus(node)) == CARDS, "all cards are there", 60)
        yield node


def gpus(node: LiveNode) -> list[str]:
    return [d.id for d in node.ask(lambda client: client.devices()).devices if d.kind == "gpu"]


@pytest.fixture(scope="module")
def alice(mixed: LiveNode, public_folder: Path) -> Walker:
    """A plain user with a key of root's node."""
    home = public_folder / "alice"
    seed, context = home / "alice.nk", home / ".config/stoker/context.json"
    context.parent.mkdir(parents=True)
    mixed.stoker("user", "add", "alice", "--unix-user", OTHER.pw_name, "--key-out", str(seed))
    url = find(str(mixed.root)).url
    write_json(context, SavedContext(url, str(seed), "alice", str(mixed.root)), mode=0o600)
    for path in (home, *home.rglob("*")):
        os.chown(path, OTHER.pw_uid, OTHER.pw_gid)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "SUDO_", "STOKER_"))}
    names = {
        "nobody (uid 65534)": f"{OTHER.pw_name} (uid {OTHER.pw_uid})",
        "uid 65534": f"uid {OTHER.pw_uid}",
        "root": "alice",
        "vm": hosts_name(mixed),
        "Jobs  REPLAY": "Jobs  SIM  REPLAY",
        "on request: by…": "on request",  # an administrator's cancel is signed
    }
    become = plain_user.become(OTHER.pw_uid, public_folder / "python", str(home))
    own = {"HOME": str(home), "USER": "alice", "NO_COLOR": "1", "PATH": VERBS}
    return Walker(kept | own, Path("/"), names, become)


def test_the_walk_as_a_plain_user_on_roots_node_with_mixed_cards(alice: Walker) -> None:
    steps = page_walk.steps(PAGE)
    alice.walk([step for step in steps if step.command not in ("stoker up", "stoker down")])


def test_the_commands_that_put_stoker_on_the_path(tmp_path: Path) -> None:
    """Each is run as the page has it; where it writes, an empty folder is in its place."""
    text = PAGE.read_text().partition("\n## Install\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    setup, shell, link = (re.sub(r"\s+#.*|^sudo ", "", line) for line in block.splitlines())
    assert setup == "make setup" and "\nsetup:" in (ROOT / "Makefile").read_text()
    for way, path in ((shell, "/usr/bin:/bin"), (link, "/usr/local/bin:/usr/bin:/bin")):
        script = f"mount -t tmpfs none /usr/local/bin && {way} && stoker --version"
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script], cwd=ROOT, env={"PATH": path, "HOME": "/"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert re.fullmatch(r"stoker \d+\.\S+\n", done.stdout), (way, done.stderr)


# --- what is said ---------------------------------------------------------------------------------


def test_a_free_card_behind_a_job_that_waits_goes_at_once_or_says_what_holds_it(
    mixed: LiveNode,
) -> None:
    """The order of the queue is a cause, and so is named with the command that changes it."""
    holder = mixed.submit("sleep", "600", gpu_milli=1000, models=("MI300X",))
    mixed.wait(holder, "running")
    big = mixed.submit("true", gpu_milli=2000, models=("MI300X",))
    passes = mixed.submit("true", gpu_milli=1000, models=("L40S",))
    assert mixed.wait(passes).state == "succeeded"
    mixed.stoker("queue", "set", "default", "--order", "fifo")
    held = mixed.submit("true", gpu_milli=1000, models=("L40S",))
    said = mixed.explained(held)
    assert "what it needs is free, but the order of queue default (fifo) holds it behind" in said
    assert f"behind job {big}, which needs 2 free GPUs, node" in said
    assert "an administrator can let others pass: stoker queue set default --order backfill" in said
    mixed.stoker("queue", "set", "default", "--order", "backfill")
    assert mixed.wait(held).state == "succeeded"
    mixed.stoker("cancel", f"{holder},{big}")


def test_a_script_says_what_it_needs(mixed: LiveNode, public_folder: Path) -> None:
    """A script of Slurm's, with a line of ours, is submitted as it is; the rest is refused."""
    script = public_folder / "train.sh"
    lines = ("#!/bin/sh", "#SBATCH --job-name=train -t 5", "#SBATCH --gres=gpu:L40S:2",
             "#STOKER --priority 7", 'echo "$1 trained"')  # fmt: skip
    script.write_text("\n".join(lines))
    script.chmod(0o755)
    job = int(mixed.stoker("submit", "--name", "mine", str(script), "model").stdout)
    ended = mixed.wait(job)
    assert (ended.state, ended.name) == ("succeeded", "mine"), ended.reason
    assert mixed.output(job) == b"model trained\n"
    assert (ended.spec.gpu_milli, ended.spec.models) == (2000, ("L40S",))
    assert (ended.spec.time_limit_s, ended.spec.priority) == (300, 7)
    script.write_text("\n".join((*lines[:2], "#SBATCH --output=log", "true")))
    refused = mixed.stoker("submit", str(script), check=False)
    assert refused.returncode == 2
    assert f"{script}:3: #SBATCH --output is not taken. stoker keeps" in refused.stderr.decode()


def test_what_a_user_may_not_do_is_refused_in_words(alice: Walker, mixed: LiveNode) -> None:
    """No subject of the bus is named, and nothing that they cannot do is advised."""
    root_s = mixed.submit("sleep", "600")
    name = alice.names["vm"]
    for command in (
        f"stoker cordon {name}:0", f"stoker node drain {name}", f"stoker job {root_s}",
        f"stoker cancel {root_s}", "stoker queue set default --order any",
        "stoker power budget 100", "stoker user list", "stoker down",
    ):  # fmt: skip
        said = alice.run(command)
        assert alice.code in (1, 2) and said.startswith("stoker: "), (command, said)
        assert "stoker.v1" not in said and "Traceback" not in said, (command, said)
    power = alice.run("stoker power")
    assert "control observe" in power and alice.code == 0
    assert "nothing is read for it meanwhile: `stoker devices` shows" in power
    said = alice.run("stoker top alerts --once")
    assert "alerts: only an administrator reads the alerts of a cluster" in said, said
    mixed.stoker("cancel", str(root_s))


def test_a_distance_to_an_unknown_numa_node_is_not_claimed(mixed: LiveNode) -> None:
    rows = mixed.stoker("node", hosts_name(mixed), "--topology").stdout.decode().splitlines()
    cells = [row.split() for row in rows[1 : CARDS + 2]]
    unknown = [i for i, row in enumerate(cells) if row[-2:] == ["-", "-"]]
    known = [i for i in range(CARDS) if i not in unknown]
    assert unknown and known
    assert {cells[i][1 + j] for i in unknown for j in known} == {"?"}
    assert all(len(row) <= page_walk.COLUMNS for row in rows if " = " not in row)
    assert any("? not known" in row for row in rows)
