# SPDX-License-Identifier: Apache-2.0
"""One declaration of a job option reaches every form of it, and its limits hold at every door."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from generate import files, job_flags, job_messages, job_options
from stoker.mesh.server import admission
from stoker.mesh.wire.schema import JobRequest
from stoker.native.errors import BadRequest
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.job_options import LIMITS, JobOptions, OptionLimit
from stoker.scheduler.reasons import Reason
from stoker.scheduler.wire_commands import Submit
from stoker.tui.options.job_flags import FIELDS, FLAGS

DECLARATION = files.ROOT / "scheduler" / "job_options.toml"
NEW = """
[[option]]
name = "pause_s"
type = "int?"
least = 1
most = 60
says = "It is paused for so long before it starts."

[[option.flag]]
name = "--pause"
place = 900
param = "pause_s"
type = "WHOLE_S"
help = "Pause before the start: 5s."
table = "when"
doc = "pause before the start, {most} s at most"
"""


def declared(tmp_path: Path, more: str = "") -> job_options.Declared:
    path = tmp_path / "job_options.toml"
    path.write_text(DECLARATION.read_text() + more)
    return job_options.read(path, files.records())


def test_a_new_option_is_in_every_form_of_a_job(tmp_path: Path) -> None:
    """One declaration adds it to the log, the messages, the limits, the flags and the manual."""
    found = declared(tmp_path, NEW)
    log = job_options.module(found)
    assert log.index("mix_vendors: bool") < log.index("    pause_s: int | None = None")
    assert 'OptionLimit("pause_s", 1, 60),' in log
    messages = job_messages.module(found.options, files.MESSAGES)
    assert "    pause_s: Int | None = None\n" in messages
    assert "    pause_s: int | None = None\n" in messages
    assert "        pause_s=request.pause_s," in messages
    assert "        pause_s=spec.pause_s," in messages
    flags = job_flags.module(found.options)
    assert 'click.option("--pause", "pause_s", type=WHOLE_S, help="Pause before the' in flags
    page = job_flags.tables((files.ROOT / files.COMMANDS_PAGE).read_text(), found.options)
    assert "| `--pause TIME` | pause before the start, 60 s at most |" in page


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[[option]]\nname = "name"\ntype = "str"\nsays = "x"\n', "two options have one name"),
        ('[[option]]\nname = "x"\ntype = "int"\nsays = "x"\nmax = 3\n', "x: unknown keys max"),
        (NEW.replace("param", "parameter"), "pause_s --pause: unknown keys parameter"),
        (
            NEW.replace('"int?"', '"TraceMode"').replace('type = "WHOLE_S"', 'choices = ["off"]'),
            "--pause: its choices are not the values of TraceMode",
        ),
    ],
)
def test_a_declaration_with_a_mistake_is_refused(more: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=says):
        declared(tmp_path, more)


def test_every_option_of_the_log_is_declared_in_its_order(tmp_path: Path) -> None:
    names = [option.name for option in declared(tmp_path).options if option.in_log]
    assert tuple(names) == JobOptions.__struct_fields__


NEEDS: dict[str, dict[str, Any]] = {
    "min_run_s": {"preemptible": True},
    "device_memory_bytes": {"gpu_milli": 1000},
    "device_memory_least_bytes": {"gpu_milli": 1000},
    "min_link_gbps": {"gpu_milli": 2000, "topology": "required"},
}
"""Other fields that a request with this option must have."""


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.option)
def test_a_request_is_taken_up_to_both_limits_and_no_further(limit: OptionLimit) -> None:
    def admit(value: float) -> None:
        given: dict[str, Any] = {**NEEDS.get(limit.option, {}), limit.option: value}
        admission.admit(JobRequest(argv=("true",), **given))

    step = 1 if isinstance(limit.most, int) else 1e-4
    for value in (limit.least, limit.most):
        admit(value)
    for value in (limit.least - step, limit.most + step):
        with pytest.raises(BadRequest, match=f"{limit.option} is "):
            admit(value)


def command() -> click.Command:
    """A verb that has the flags and nothing else."""

    def given(**values: Any) -> dict[str, Any]:
        return values

    function: Any = given
    for flag in reversed(FLAGS):
        function = flag(function)
    made: click.Command = click.command()(function)
    return made


def parsed(*words: str) -> dict[str, Any]:
    """Return the arguments that the flags make of these words, or raise BadParameter."""
    values: dict[str, Any] = command().main(list(words), standalone_mode=False)
    return values


@pytest.mark.parametrize(
    ("flag", "option"), [("--priority", "priority"), ("--retries", "retries"), ("--pids", "pids")]
)
def test_the_command_line_has_the_limits_of_the_request(flag: str, option: str) -> None:
    limit = next(limit for limit in LIMITS if limit.option == option)
    for value in (limit.least, limit.most):
        assert parsed(flag, str(value))[option] == value
    for value in (limit.least - 1, limit.most + 1):
        with pytest.raises(click.BadParameter, match=f"{value:.0f} is not in the range"):
            parsed(flag, str(value))


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("priority", Reason.BAD_PRIORITY),
        ("retries", Reason.BAD_RETRIES),
        ("backoff_s", Reason.BAD_RETRIES),
    ],
)
def test_the_core_has_the_limits_of_the_request(option: str, reason: Reason) -> None:
    limit = next(limit for limit in LIMITS if limit.option == option)
    core = Core(Limits(jobs=8))

    def rejected(value: float) -> list[int]:
        made = Submit(1)._replace(**{option: int(value)})
        return [each.reason for each in core.propose([made], 1).rejected]

    assert rejected(limit.least) == rejected(limit.most) == []
    assert rejected(limit.most + 1) == [reason]
    if option == "priority":
        assert rejected(limit.least - 1) == [reason]


def test_every_flag_gives_a_field_of_the_request() -> None:
    """Flags that are put together by hand aside (`tui/options/job_options.py`)."""
    by_hand = {"env_all", "attract", "repel", "stdin_file"}
    given = {FIELDS.get(name, name) for name in set(parsed()) - by_hand}
    assert given <= set(JobRequest.__struct_fields__)


def test_the_manual_has_a_line_for_every_flag() -> None:
    page = (files.ROOT / files.COMMANDS_PAGE).read_text()
    for param in command().params:
        assert re.search(rf"^\| `{param.opts[0]}[ `]", page, re.MULTILINE), param.opts[0]
