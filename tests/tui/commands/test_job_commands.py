# SPDX-License-Identifier: Apache-2.0
"""The verbs of jobs, run as processes: their output and exit codes."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from fakes.pty_screen import PtyScreen

from stoker.mesh.wire import schema
from stoker.tui.calls import attachment, job_start, wait_notice

BYTES = bytes(range(256)) * 3 + b"\xff\xfe no newline at the end"


class Job:
    """A fake job: its output so far, the input that it got, its end."""

    def __init__(self, fakes: Any, node: Any, state: str = "succeeded", **view: Any) -> None:
        self.fakes, self.node, self.state, self.view = fakes, node, state, view
        self.streams = {"out": b"", "err": b""}
        self.over = True
        self.got = b""
        self.closed = False
        self.torn: set[tuple[str, int]] = set()
        self.waits: list[str] = []
        """The reasons why it waits, one for each question; after the last one it is over."""
        self.absent = ""
        """The reason why no more of its output can be read, once it is over."""
        self.actions = ["read its output: stoker logs 5"]
        node.answers |= {
            "job.submit": lambda asked: fakes.job_view(5, "pending"),
            "job.get": self.get,
            "job.explain": self.explain,
            "job.logs": self.logs,
            "job.stdin": self.stdin,
        }

    def get(self, asked: dict[str, Any]) -> dict[str, Any]:
        state = self.state if self.over else "running"
        view: dict[str, Any] = self.fakes.job_view(5, state)
        return view | (self.view if self.over else {})

    def explain(self, asked: dict[str, Any]) -> dict[str, Any]:
        if self.waits:
            state, summary = "pending", self.waits.pop(0)
        else:
            state, summary = self.state if self.over else "running", "tells nothing"
            self.over = True
        found = {"job": 5, "state": state, "summary": summary, "actions": self.actions}
        return {"schema": "stoker/v1", "reasons": [], **found}

    def logs(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        stream, offset = asked["stream"], asked["offset"]
        if offset and (stream, offset) not in self.torn:
            self.torn.add((stream, offset))  # every second question is answered by silence
            return None
        data = self.streams[stream][offset : offset + 100]
        end = offset + len(data)
        eof = self.over and end == len(self.streams[stream])
        return {
            "schema": "stoker/v1",
            "job": 5,
            "stream": stream,
            "data": base64.b64encode(data).decode(),
            "next_offset": end,
            "eof": eof,
            "attempt": 1,
            "absent": self.absent if eof else "",
        }

    def stdin(self, asked: dict[str, Any]) -> dict[str, Any]:
        data = base64.b64decode(asked.get("data", ""))
        offset = asked.get("offset", 0)
        taken = self.got[:offset] + data[:1000]
        self.got = taken if len(taken) > len(self.got) else self.got
        self.closed = self.closed or (asked.get("eof", False) and len(self.got) >= offset)
        if self.closed:
            self.over = True
        return {"schema": "stoker/v1", "job": 5, "next_offset": len(self.got)}


@pytest.fixture
def short_waits(tmp_path: Any) -> dict[str, str]:
    """A sitecustomize with short waits, so that a lost answer is noticed at once."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.abc, sys\n"
        "class Find(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name in ('stoker.mesh.client.job_output', 'stoker.tui.calls.streams'):\n"
        "            import stoker.mesh.client.client as c; c.REPLY_S = 0.1; c.HOLD_S = 0.1\n"
        "sys.meta_path.insert(0, Find())\n"
    )
    return {"PYTHONPATH": str(tmp_path)}


def stoker(node: Any, *words: str, stdin: bytes | None = None, **env: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "stoker", *words],
        env=node.environment | env,
        stdin=subprocess.DEVNULL if stdin is None else None,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_run_copies_every_byte_once_though_answers_get_lost(
    fakes: Any, node: Any, short_waits: dict[str, str]
) -> None:
    job = Job(fakes, node, "failed", exit_code=3)
    job.streams = {"out": BYTES, "err": BYTES[::-1]}
    done = stoker(node, "run", "--gpus", "5m", "--", "prog", "-x", **short_waits)
    assert done.stdout == BYTES
    again = b"its output may say why, again: stoker logs 5"
    assert done.stderr == BYTES[::-1] + b"stoker: job 5, failed; " + again + b"\n"
    assert done.returncode == 3
    sent = next(asked for verb, asked in node.seen if verb == "job.submit")
    assert sent["argv"] == ["prog", "-x"]
    assert sent["gpu_milli"] == 5
    assert sent["stdin"] is False


@pytest.mark.parametrize(
    ("state", "view", "code"),
    [
        ("failed", {"signal": 9}, 137),
        ("timeout", {"signal": 15}, 124),
        ("lost", {"reason": "node rebooted"}, 125),
        ("failed", {"reason": "cannot start: No such file or directory"}, 127),
        ("failed", {"reason": "cannot start: Permission denied"}, 126),
        ("cancelled", {"signal": 15}, 143),
    ],
)
def test_run_exits_as_the_job_ended(
    fakes: Any, node: Any, state: str, view: dict[str, Any], code: int
) -> None:
    Job(fakes, node, state, **view)
    done = stoker(node, "run", "true")
    assert done.returncode == code
    if "reason" in view:
        assert view["reason"] in done.stderr.decode()


def test_run_says_what_would_help_after_a_bad_end(fakes: Any, node: Any) -> None:
    job = Job(fakes, node, "failed", signal=9, reason="memory limit 20 MiB reached")
    job.actions = ["give it more memory than that: --mem", *job.actions]
    words = stoker(node, "run", "true").stderr.decode()
    assert words == (
        "stoker: job 5, failed: memory limit 20 MiB reached; give it more memory than that: --mem\n"
    )


@pytest.mark.parametrize(("state", "code"), [("lost", 125), ("succeeded", 0)])
def test_run_says_at_once_what_of_the_output_is_on_a_host_that_is_given_up(
    fakes: Any, node: Any, state: str, code: int
) -> None:
    job = Job(fakes, node, state, reason="node third was silent")
    job.streams["out"], job.actions = b"before\n", ["submit it again", *job.actions]
    job.torn, job.absent = {("out", 7)}, "node third is given up. It is there when it is back"
    done = stoker(node, "run", "true")
    assert (done.stdout, done.returncode) == (b"before\n", code)
    said = done.stderr.decode()
    unread = "the output of attempt 1 of job 5 cannot be read now: node third is given up."
    assert said.count(unread) == said.count("\n") == 1
    assert ("node third was silent; submit it again; " in said) == (state == "lost")
    logs = stoker(node, "logs", "5")
    assert (logs.stdout, logs.returncode) == (b"before\n", 1)
    assert unread in logs.stderr.decode()


def test_run_tells_why_a_job_waits_each_time_that_changes(
    fakes: Any, node: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    job = Job(fakes, node)
    job.over = False
    job.waits = ["waits: n1 has 0 free", "waits: n1 has 0 free", "waits: 1 ahead in the queue"]
    monkeypatch.delenv("STOKER_STATE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", node.environment["XDG_CONFIG_HOME"])
    monkeypatch.setattr(wait_notice, "NOTICE_S", 0.0)
    monkeypatch.setattr(wait_notice, "AGAIN_S", 0.0)
    request = schema.JobRequest(argv=("true",))
    assert asyncio.run(job_start.run(None, request, None)) == 0
    assert capfd.readouterr().err.splitlines() == [
        "stoker: job 5 waits: n1 has 0 free (more: stoker explain 5)",
        "stoker: job 5 waits: 1 ahead in the queue (more: stoker explain 5)",
        "stoker: job 5 waits no more",
    ]


def test_a_reason_moves_no_cursor_where_run_says_it(fakes: Any, node: Any) -> None:
    Job(fakes, node, "lost", reason="\x1b[2Jgone\x07")
    done = stoker(node, "run", "true")
    assert b"?[2Jgone?" in done.stderr
    assert b"\x1b" not in done.stderr


def test_run_passes_its_input(fakes: Any, node: Any) -> None:
    job = Job(fakes, node)
    job.over = False
    done = stoker(node, "run", "cat", stdin=BYTES * 5)
    assert done.returncode == 0, done.stderr
    assert job.got == BYTES * 5
    assert job.closed


def test_ctrl_c_detaches_and_says_how_to_return(fakes: Any, node: Any) -> None:
    Job(fakes, node).over = False
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker", "run", "sleep", "60"],
        env=node.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while not any(verb == "job.logs" for verb, _ in node.seen) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"stoker logs -f 5" in error and b"stoker cancel 5" in error
    assert not any(verb == "job.cancel" for verb, _ in node.seen)


def test_a_refusal_is_one_line_and_its_exit_code(fakes: Any, node: Any) -> None:
    Job(fakes, node)
    node.answers["job.submit"] = lambda asked: fakes.failure(
        "bad_request", "99 GPUs were asked for and no node has more than 1", ""
    )
    done = stoker(node, "run", "--gpus", "99", "true")
    assert done.returncode == 2
    assert done.stderr == b"stoker: 99 GPUs were asked for and no node has more than 1\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "--gpus", "1.5", "true"), b"whole devices"),
        (("run", "--mem", "x", "true"), b"not a size"),
        (("run", "--env", "NOT_SET_HERE_X", "true"), b"not set here"),
        (("run",), b"Missing argument"),
        (("run", "--bogus", "true"), b"No such option"),
        (("queue", "set", "q", "--placement", "user:f"), b"a queue has no scoring function"),
        (("job", "1x"), b"selects no job"),
        (("wait", "--timeout", "soon", "1"), b"'--timeout': a time 'soon' is not"),
    ],
)
def test_wrong_words_reach_no_node(fakes: Any, node: Any, words: Any, says: bytes) -> None:
    done = stoker(node, *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert node.seen == []


def test_no_node_is_one_line(tmp_path: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "jobs", "--state", str(tmp_path / "none")],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    place = str(tmp_path / "none")
    said = f"stoker: no stoker node found in {place}: start one with `stoker up` or pass --state\n"
    assert done.stderr.decode() == said


def test_submit_prints_the_number_or_the_object(fakes: Any, node: Any) -> None:
    Job(fakes, node)
    assert stoker(node, "submit", "true").stdout == b"5\n"
    shown = json.loads(stoker(node, "submit", "-o", "json", "true").stdout)
    assert shown["schema"] == "stoker/v1" and shown["job"] == 5


def test_job_json_has_the_kernels_on_top(fakes: Any, node: Any) -> None:
    kernel = {"name": "k", "count": 997, "total_ns": 1, "p50_ns": 1, "p99_ns": 1}
    decision = {"id": 1, "node": "vm", "reason": "first fit", "latency_ns": 5, "observations": []}
    decision["devices"] = [{"id": "pocl-0", "index": 0, "milli": 5}]
    Job(
        fakes,
        node,
        decision=decision,
        trace={"mode": "full", "kernels": [kernel], "loss": {"x": 0}},
    )
    node.answers["device.list"] = lambda asked: {
        "schema": "stoker/v1",
        "devices": [
            {"id": name, "node": "vm", "index": i, "vendor": "PoCL", "model": "cpu", "kind": "cpu"}
            | {"memory_bytes": None, "unavailable": "", "sim": False, "granted_milli": 5}
            | {"jobs": [5]}
            for i, name in enumerate(("pocl-0", "other"))
        ],
    }
    node.answers["node.list"] = lambda asked: {
        "schema": "stoker/v1",
        "nodes": [
            {"node": "vm", "state": "ready", "boot_id": "b", "cpu_milli": 1, "memory_bytes": 1}
            | {"devices": 2, "jobs": 1, "missing": ["no fentry"]}
        ],
    }
    done = stoker(node, "job", "last", "-o", "json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["kernels"] == [kernel]
    assert shown["trace"]["loss"] == {"x": 0}
    assert [device["id"] for device in shown["hardware"]] == ["pocl-0"]
    assert shown["missing"] == ["no fentry"]
    text = stoker(node, "job", "5").stdout.decode()
    assert "CPU device, no GPU here" in text and "997" in text


def test_jobs_are_filtered_by_the_node_and_shown(fakes: Any, node: Any) -> None:
    node.answers["job.list"] = lambda asked: {
        "schema": "stoker/v1",
        "jobs": [fakes.job_view(9, "running"), fakes.job_view(8, "running")],
        "next": None,
    }
    assert stoker(node, "jobs", "--state", "running", "-o", "name").stdout == b"9\n8\n"
    assert node.seen[-1][1]["states"] == ["running"]
    lines = stoker(node, "jobs", "-n", "1", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["job"] for line in lines] == [9]
    assert b"\x1b" not in stoker(node, "jobs").stdout


def test_an_array_is_one_row_to_a_person_and_its_jobs_to_a_program(fakes: Any, node: Any) -> None:
    array = {"first": 5, "size": 10, "index": 9}
    whole = fakes.job_view(5, "pending", waits="needs 1 free GPU", array=array)
    whole["array"] = array | {"states": {"running": 2, "pending": 8}, "waiting": 7}
    whole["state"] = "running"
    node.answers["job.list"] = lambda asked: {
        "schema": "stoker/v1",
        "jobs": [whole] if asked.get("arrays") else [fakes.job_view(14, array=array)],
        "next": None,
    }
    shown = stoker(node, "jobs").stdout.decode()
    assert re.search(r"^5-14 .* 2 running .* 8 pending; needs 1 free GPU$", shown, re.M), shown
    for words in (("-r",), ("--array",), ("-o", "json"), ("-o", "name")):
        stoker(node, "jobs", *words)
        assert "arrays" not in node.seen[-1][1], words
    assert re.search(rb"^ 14 ", stoker(node, "jobs", "-r").stdout, re.M)


def test_of_many_jobs_the_oldest_have_a_page_and_the_rest_are_counted(
    fakes: Any, node: Any
) -> None:
    Job(fakes, node)
    done = stoker(node, "explain", "1-2500")
    asked = [asked["job"] for verb, asked in node.seen if verb == "job.explain"]
    assert asked == list(range(1, 21))
    assert b"the first 20 jobs; 2,480 more are selected: -o jsonl" in done.stderr
    node.seen.clear()
    stoker(node, "explain", "1-21", "-o", "jsonl")
    assert sum(verb == "job.explain" for verb, _ in node.seen) == 21


def test_states_are_listed_by_words_or_codes(fakes: Any, node: Any) -> None:
    node.answers["job.list"] = lambda asked: {"schema": "stoker/v1", "jobs": [], "next": None}
    assert stoker(node, "jobs", "-t", "PD,R", "--status", "lost").stdout == b"no jobs\n"
    assert node.seen[-1][1]["states"] == ["pending", "running", "lost"]
    done = stoker(node, "jobs", "--status", "PX")
    assert done.returncode == 2 and b"'PX' is none of pending" in done.stderr


def test_a_wrong_option_in_a_script_is_named_with_its_line(node: Any, tmp_path: Any) -> None:
    script = tmp_path / "job.sh"
    for line, said in (
        ("#STOKER --name x --tiem 2h", "No such option '--tiem'"),
        ("#STOKER --mem 4", "--mem '4' has no unit"),
        ("#SBATCH --time=abc", "'abc'"),
    ):
        script.write_text(f"#!/bin/sh\n\n{line}\ntrue\n")
        done = stoker(node, "submit", str(script))
        told = " ".join(done.stderr.decode().split())
        assert done.returncode == 2 and said in told, told
        assert f"job.sh:3: {line.split()[0]} " in told, told


def test_wait_says_why_a_job_could_not_be_started(fakes: Any, node: Any) -> None:
    job = Job(fakes, node, "failed", reason="cannot start train.py: No such file or directory")
    node.answers["job.list"] = lambda asked: {
        "schema": "stoker/v1", "next": None, "jobs": [job.get({})],
    }  # fmt: skip
    assert b"job 5: failed: cannot start train.py: No such" in stoker(node, "wait", "5").stdout
    job.view = {"exit_code": 3, "reason": "exit code 3"}
    assert stoker(node, "wait", "5").stdout == b"job 5: failed, exit 3\n"


def test_a_scheduler_that_knows_no_rows_of_arrays_lists_their_jobs(fakes: Any, node: Any) -> None:
    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        if "arrays" in asked:
            error = {"code": "bad_request", "message": "unknown field `arrays`"}
            return {"error": error, "schema": "stoker/v1"}
        return {"schema": "stoker/v1", "jobs": [fakes.job_view(9, "running")], "next": None}

    node.answers["job.list"] = answer
    done = stoker(node, "jobs")
    assert done.returncode == 0 and re.search(rb"^  9 ", done.stdout, re.M), done


def test_a_stale_list_says_what_it_reflects(fakes: Any, node: Any) -> None:
    listed = {
        "schema": "stoker/v1",
        "jobs": [fakes.job_view(9, "running")],
        "next": None,
        "position": {"term": 3, "index": 41},
    }
    at = "41424a4b4e4d5655"
    node.answers["read.any.job.list"] = node.answers[f"read.{at}.job.list"] = lambda asked: listed
    done = stoker(node, "jobs", "--stale", "-o", "name")
    assert done.stdout == b"9\n" and b"entry 41, term 3; newer entries may exist" in done.stderr
    assert node.seen[-1] == ("read.any.job.list", node.seen[-1][1])
    assert node.seen[-1][1]["stale"] is True
    done = stoker(node, "jobs", "--at", at, "-o", "name")
    assert (done.stdout, done.stderr) == (b"9\n", b"") and "stale" not in node.seen[-1][1]
    done = stoker(node, "jobs", "--at", "s1")
    assert done.returncode and b"names no scheduler" in done.stderr


def test_a_terminal_that_knows_no_unicode_gets_the_table_all_the_same(
    fakes: Any, node: Any
) -> None:
    jobs = [fakes.job_view(9, "running", name="日本")]
    node.answers["job.list"] = lambda asked: {"schema": "stoker/v1", "jobs": jobs, "next": None}
    done = stoker(node, "jobs", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0 and b"??" in done.stdout, done.stderr


def test_wait_exits_as_the_job_or_gives_up(fakes: Any, node: Any) -> None:
    job = Job(fakes, node, "failed", exit_code=4)
    done = stoker(node, "wait", "5")
    assert (done.returncode, done.stdout) == (4, b"job 5: failed, exit 4\n")
    job.over = False
    done = stoker(node, "wait", "5", "--timeout", "200ms")
    assert done.returncode == 124
    assert b"not over within 0.2 s" in done.stderr


def test_cancel_says_what_became_of_each(fakes: Any, node: Any) -> None:
    jobs = [{"job": 5, "state": "stopping", "changed": True}]
    jobs += [{"job": 6, "state": "failed", "changed": False}]
    jobs += [{"job": 7, "state": "cancelled", "changed": True}]
    node.answers["job.cancel"] = lambda asked: {"schema": "stoker/v1", "jobs": jobs}
    done = stoker(node, "cancel", "5-6", "--reason", "too slow")
    assert done.stdout == (
        b"job 5 is being stopped (stopping)\njob 6 was over already (failed)\njob 7 is cancelled\n"
    )
    asked = {"select": "5-6", "reason": "too slow", "before": None}
    assert node.seen[-1][1] == {"schema": "stoker/v1", **asked}


def test_rm_says_what_was_removed_and_why_not(fakes: Any, node: Any) -> None:
    jobs = [{"job": 5, "changed": True}, {"job": 6, "changed": False}]
    node.answers["job.remove"] = lambda asked: {"schema": "stoker/v1", "jobs": jobs}
    done = stoker(node, "rm", "5-6")
    assert done.stdout == b"job 5 is removed\njob 6 was removed\n"
    failure = {"code": "refused", "message": "job 7 is running", "hint": "stoker cancel 7"}
    node.answers["job.remove"] = lambda asked: {"error": failure}
    done = stoker(node, "rm", "7")
    assert (done.returncode, b"stoker cancel 7" in done.stderr) == (2, True)


def test_explain_ranks_reasons_and_names_what_helps(fakes: Any, node: Any) -> None:
    node.answers["job.explain"] = lambda asked: {
        "schema": "stoker/v1",
        "job": 5,
        "state": "pending",
        "summary": "no device has 0.5 free",
        "reasons": [{"code": "busy", "text": "pocl-0 has 0.2 free", "node": "vm", "data": {}}],
        "actions": ["ask for 0.2: --gpus 0.2", "wait for job 3"],
        "decision": None,
    }
    shown = stoker(node, "explain", "5").stdout.decode().splitlines()
    assert shown == [
        "job 5, pending: no device has 0.5 free",
        "  1. node vm: pocl-0 has 0.2 free",
        "what would help",
        "  - ask for 0.2: --gpus 0.2",
        "  - wait for job 3",
    ]


def test_eff_tells_of_the_use_alone_and_a_program_gets_the_numbers(fakes: Any, node: Any) -> None:
    usage = {"cpu_ns": 3, "memory_peak_bytes": 1 << 20} | dict.fromkeys(
        ("output_bytes", "output_dropped_bytes"), 0
    )
    Job(fakes, node, usage=usage)
    shown = stoker(node, "eff", "5").stdout.decode().splitlines()
    assert shown == ["job 5, succeeded", "used: memory 1 MiB at its peak"]
    found = json.loads(stoker(node, "eff", "5", "-o", "json").stdout)
    assert found.keys() == {"schema", "job", "state", "efficiency"}
    assert found["efficiency"]["memory_peak_bytes"] == 1 << 20
    node.answers["job.explain"] = lambda asked: {
        "schema": "stoker/v1", "job": 5, "state": "pending", "summary": "", "reasons": [],
        "actions": [],
    }  # fmt: skip
    shown = stoker(node, "eff", "5").stdout.decode().splitlines()
    assert shown == ["job 5, pending", "nothing is known of its use: it has not started"]


def test_logs_take_what_there_is_and_follow_takes_the_rest(fakes: Any, node: Any) -> None:
    job = Job(fakes, node)
    job.over, job.streams["out"] = False, b"early"
    job.torn = {("out", 5)}
    assert stoker(node, "logs", "5").stdout == b"early"
    job.over, job.streams["out"], job.streams["err"] = True, b"early and late", b"noise"
    done = stoker(node, "logs", "-f", "5")
    assert (done.stdout, done.stderr) == (b"early and late", b"noise")
    assert stoker(node, "logs", "--stderr", "5").stdout == b""


@pytest.mark.parametrize("verb", [("logs", "5"), ("logs", "-f", "5"), ("logs", "--raw", "5")])
def test_output_controls_no_terminal_unless_it_is_asked_to(
    verb: tuple[str, ...], fakes: Any, node: Any
) -> None:
    hostile = b"\x1b]52;c;QQ==\x07\x1b[31mred"
    Job(fakes, node).streams["out"] = hostile
    assert stoker(node, "logs", "5").stdout == hostile, "a pipe gets every byte"
    with PtyScreen([sys.executable, "-m", "stoker", *verb], node.environment) as screen:
        assert screen.wait_end() == 0
        raw = bytes(screen.raw)
    assert raw == (hostile if "--raw" in verb else b"?]52;c;QQ==??[31mred")


def test_a_reader_that_leaves_detaches_the_run(fakes: Any, node: Any) -> None:
    job = Job(fakes, node)
    job.over, job.streams["out"] = False, BYTES
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker", "run", "yes"],
        env=node.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert (
        error == b"stoker: detached; job 5 goes on. Back: stoker logs -f 5; end: stoker cancel 5\n"
    )


def test_what_is_said_of_a_job_moves_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    attachment.warn("job 1, failed: \x1b[31mred\x1b[0m \x9b2J")
    assert capsys.readouterr().err == "stoker: job 1, failed: ?[31mred?[0m ?2J\n"
