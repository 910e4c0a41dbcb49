# SPDX-License-Identifier: Apache-2.0
"""Addresses of the metrics page: what is one, what is kept, what is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.state import metrics_config
from stoker.agent.state.metrics_config import Listener, MetricsConfig, Serving
from stoker.agent.state.state_folder import StateFolder
from stoker.native.errors import BadRequest


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    (tmp_path / "agent").mkdir()
    return StateFolder(root=tmp_path, run=tmp_path)


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("off", None),
        ("9400", Listener("127.0.0.1", 9400)),
        ("0.0.0.0:0", Listener("0.0.0.0", 0)),
        ("[::1]:9400", Listener("::1", 9400)),
    ],
)
def test_an_address(text: str, listener: Listener | None) -> None:
    assert metrics_config.parse(text) == listener


@pytest.mark.parametrize("text", ["", "host:1", "127.0.0.1", "127.0.0.1:", "1.2.3.4:65536", ":²"])
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadRequest, match="metrics address"):
        metrics_config.check(MetricsConfig(listen=text))


def test_too_many_readers_are_refused() -> None:
    with pytest.raises(BadRequest, match=r"metrics\.readers"):
        metrics_config.check(MetricsConfig(readers=tuple(map(str, range(17)))))


def test_what_up_was_told_goes_before_the_file_until_it_is_forgotten(where: StateFolder) -> None:
    config = MetricsConfig(listen="off")
    assert metrics_config.of_node(config, where) is None
    metrics_config.keep("127.0.0.1:7", where)
    assert metrics_config.of_node(config, where) == Listener("127.0.0.1", 7)
    metrics_config.keep("", where)
    assert metrics_config.of_node(config, where) is None
    assert metrics_config.of_node(MetricsConfig(), where) == Listener("127.0.0.1", 9400)


def test_readers_are_users_that_the_machine_knows() -> None:
    config = MetricsConfig(readers=("root", "no-such-user-here"))
    assert metrics_config.reader_ids(config) == {0}


def test_others_learn_where_the_page_is(where: StateFolder) -> None:
    assert metrics_config.serving(where) is None
    metrics_config.tell(where, Serving(address="127.0.0.1:5"))
    assert metrics_config.serving(where) == Serving("127.0.0.1:5")
    assert (where.run / "metrics.json").stat().st_mode & 0o777 == 0o644
