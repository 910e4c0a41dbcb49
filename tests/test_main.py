# SPDX-License-Identifier: Apache-2.0
"""The root of the command line: quick, complete, and honest about errors."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stoker import __version__, main
from stoker.native import row_forms
from stoker.native.errors import Corrupt, Refused

HEAVY = {"asyncio", "msgspec", "nats", "numpy", "rich", "structlog", "textual", "nkeys", "nacl"}


def stoker(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stoker", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def imported_by(*words: str, **environment: str) -> set[str]:
    """Names of the packages that one command loads."""
    return {name.split(".")[0] for name in modules_of(*words, **environment)}


def modules_of(*words: str, **environment: str) -> set[str]:
    """Names of the modules that one command loads."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "stoker", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.parametrize("verb", main.VERBS)
def test_every_verb_is_a_command_with_help(verb: str) -> None:
    module, _ = main.VERBS[verb]
    command = getattr(importlib.import_module(module), verb.replace("-", "_") + "_command")
    assert isinstance(command, click.Command)
    assert command.name == verb
    done = CliRunner().invoke(main.cli, [verb, "--help"])
    assert done.exit_code == 0
    assert done.output.startswith(f"Usage: cli {verb}") or done.output.startswith("Usage:")


def test_help_names_every_verb_and_loads_none() -> None:
    done = stoker("--help")
    assert done.returncode == 0
    assert all(f"  {verb} " in done.stdout for verb in main.VERBS)
    assert "click" in imported_by("--help")
    assert not HEAVY & imported_by("--help")


@pytest.mark.parametrize("words", [("--version",), ("completion", "--help"), ("up", "--help")])
def test_what_answers_at_once_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    assert not HEAVY & imported_by(*words)


@pytest.mark.parametrize("words", [("jobs",), ("job",), ("submit", "true"), ("queue", "list")])
def test_a_command_loads_no_client_but_its_own_and_nothing_of_other_verbs(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """A command is over sooner than a general NATS client is imported; `stoker bench cli` has the
    figures."""
    loaded = modules_of(*words, "--state" if words[0] != "submit" else "-h", str(tmp_path))
    assert "stoker.mesh.client.client" in loaded or words[0] == "submit"
    unused = {"nats", "numpy", "structlog", "tomllib", "csv", "email", "shutil", "cryptography",
              "importlib.metadata", "secrets", "random",
              "stoker.tui.render.report", "stoker.tui.render.explain",
              "stoker.mesh.log", "stoker.mesh.replica", "stoker.probes"}  # fmt: skip
    if words[0] != "submit":
        unused |= {"stoker.tui.options.job_flags", "stoker.tui.calls.rank_output"}
    assert not unused & loaded


def test_version() -> None:
    done = stoker("--version")
    assert (done.returncode, done.stdout) == (0, f"stoker {__version__}\n")


@pytest.mark.parametrize(
    ("word", "said"),
    [("xyzzy", ""), ("jbos", " Did you mean jobs"), ("submti", " Did you mean submit?")],
)
def test_an_unknown_verb_is_a_usage_error(word: str, said: str) -> None:
    done = stoker(word)
    assert done.returncode == 2
    assert f"No such command {word!r}.{said}" in done.stderr
    assert bool(said) == ("Did you mean" in done.stderr)


@pytest.mark.parametrize(
    ("error", "code"),
    [(Refused("full", hint="Wait"), 2), (Corrupt("garbled"), 3), (Refused("job \x1b[2J"), 2)],
)
def test_an_operating_error_is_one_line_and_its_code(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(**_: object) -> None:
        raise error

    monkeypatch.setattr(main.cli, "main", fails)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == code
    assert capsys.readouterr().err == f"stoker: {error}\n".replace("\x1b", "?")


def test_a_defect_shows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(main.cli, "main", fails)
    with pytest.raises(ZeroDivisionError):
        main.main()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = stoker("completion", shell)
    assert done.returncode == 0
    assert "_STOKER_COMPLETE" in done.stdout


def test_completing_a_verb_loads_none() -> None:
    environment = {
        "_STOKER_COMPLETE": "bash_complete",
        "COMP_WORDS": "stoker ex",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [Path(sys.executable).with_name("stoker")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "plain,explain\n"


def commands_of(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield (verb, its command) of each verb below a group."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                yield from commands_of(command, f"{path}{name} ")
            yield f"{path}{name}", command


def test_a_verb_that_prints_json_takes_the_form_that_all_take() -> None:
    found = {
        name: {each for p in command.params for each in p.opts}
        for name, command in commands_of(main.cli)
    }
    assert len([verb for verb, opts in found.items() if "--json" in opts]) > 12
    assert [v for v, opts in found.items() if "--json" in opts and "-o" not in opts] == []


MEASURED = ("bench ", "sim ", "demo", "chaos")
"""The beginnings of verbs that measure or simulate, and print a page or one JSON object."""


NOT_READING = (
    "up", "down", "install-service", "completion", "run", "logs", "cordon", "uncordon", "drain",
    "undrain", "top", "user add", "user remove", "config init", "context save", "context use",
    "audit export", "queue quota", "queue rm", "queue set", "alerts ack", "node drain",
    "node evict", "node label", "node remove", "node reserve", "node taint", "node undrain",
    "power budget", "power cap", "power ceiling", "power control", "power draws", "power floor",
    "power tenant", "cluster admit", "cluster backup", "cluster export", "cluster init",
    "cluster join", "cluster limits", "cluster remove", "cluster replace", "cluster restore",
    "cluster revoke", "cluster rotate", "cluster token", "cluster upgrade", "sim driver",
)  # fmt: skip
"""The verbs that change something, or pass on what is no row: output, a page, a script."""
GROUPS = ("user", "config", "audit", "queue", "node", "probe", "bench", "sim")
"""The verbs that need another one behind them."""


def test_only_verbs_that_read_nothing_have_no_output_form() -> None:
    without = {
        name
        for name, command in commands_of(main.cli)
        if "-o" not in {each for p in command.params for each in p.opts}
    }
    assert without == {*NOT_READING, *GROUPS}


def test_every_verb_that_reads_has_the_same_output_forms_and_dash_o_names_no_file() -> None:
    with_form: dict[str, object] = {}
    for name, command in commands_of(main.cli):
        for option in command.params:
            if "-o" in option.opts and not name.startswith((*MEASURED, "probe run")):
                with_form[name] = getattr(option.type, "choices", None)
    assert {"jobs", "trace", "record", "replay", "alerts history", "doctor"} <= set(with_form)
    assert {name: forms for name, forms in with_form.items() if forms != row_forms.FORMS} == {}
