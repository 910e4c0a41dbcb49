# SPDX-License-Identifier: Apache-2.0
"""An only server's log is copied once, put back until it was found whole, and then given up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stoker.mesh.log import kept_log

LOG = "jetstream/jetstream/CTRL/streams/SCHED_LOG"


@pytest.fixture
def nats(tmp_path: Path) -> Path:
    """The folder of a broker that was alone, with a log of one entry."""
    write(tmp_path, "entry")
    return tmp_path


def write(nats: Path, text: str) -> None:
    (nats / LOG / "msgs").mkdir(parents=True, exist_ok=True)
    (nats / LOG / "msgs/1.blk").write_text(text)


def read(nats: Path) -> str:
    return (nats / LOG / "msgs/1.blk").read_text()


def test_what_a_broker_makes_of_the_log_is_undone_at_each_start(nats: Path) -> None:
    kept_log.settle(nats)
    for made in ("", "another"):
        write(nats, made)
        kept_log.settle(nats)
        assert read(nats) == "entry" and kept_log.is_kept(nats)
    shutil.rmtree(nats / LOG)
    kept_log.settle(nats)
    assert read(nats) == "entry"


def test_behind_the_copy_nothing_is_put_back(nats: Path) -> None:
    kept_log.settle(nats)
    kept_log.drop(nats)
    (nats / "jetstream/jetstream/SYS/_js_/_meta_").mkdir(parents=True)
    write(nats, "entry and more")
    kept_log.settle(nats)
    assert read(nats) == "entry and more" and not kept_log.is_kept(nats)
    assert sorted(each.name for each in nats.iterdir()) == ["jetstream"]


def test_a_copy_that_was_interrupted_is_made_again(nats: Path) -> None:
    (nats / ".alone").mkdir()
    assert not kept_log.is_kept(nats)
    kept_log.settle(nats)
    assert (nats / "alone/msgs/1.blk").read_text() == "entry"


def test_a_broker_without_a_log_has_nothing_to_keep(tmp_path: Path) -> None:
    kept_log.settle(tmp_path)
    assert not kept_log.is_kept(tmp_path)


def test_who_renames_the_copy_first_decides(nats: Path) -> None:
    kept_log.settle(nats)
    assert kept_log.take_back(nats) and not kept_log.drop(nats)
    assert kept_log.take_back(nats), "an interrupted one is repeated"
    assert kept_log.is_open(nats) and not kept_log.is_kept(nats)
    (nats / "jetstream/jetstream/SYS/_js_/_meta_").mkdir(parents=True)
    write(nats, "")
    kept_log.settle_alone(nats)
    assert read(nats) == "entry" and not kept_log.is_open(nats)
    kept_log.settle(nats)
    assert kept_log.is_kept(nats), "a broker that has forgotten the others may come to them again"
    assert kept_log.drop(nats) and not kept_log.take_back(nats)


def test_a_broker_that_stays_alone_keeps_what_it_has(nats: Path) -> None:
    kept_log.settle_alone(nats)
    assert read(nats) == "entry" and sorted(each.name for each in nats.iterdir()) == ["jetstream"]
