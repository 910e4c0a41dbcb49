# SPDX-License-Identifier: Apache-2.0
"""The judgement of which server may be taken down, by what schedulers and brokers say."""

from __future__ import annotations

import msgspec
import pytest
from fakes import views

from stoker.mesh.wire import schema
from stoker.tui.calls import cluster_status
from stoker.tui.calls.cluster_status import (
    BEHIND_MAX,
    ClusterStatus,
    JobsLeft,
    SchedulerAnswers,
)
from stoker.tui.render import server_status

NAMES = ("a", "b", "c")


def roster(leader: int, names: tuple[str, ...] = NAMES) -> tuple[schema.SchedulerView, ...]:
    return tuple(
        schema.SchedulerView(number=n, public_key="k", leads=n == leader, server=name)
        for n, name in enumerate(names, 1)
    )


def view(leader: int, index: int, log: schema.LogView | None, term: int = 3) -> schema.ClusterView:
    return schema.ClusterView(
        cluster="c", genesis="", seq=index + 5, term=term, schedulers=roster(leader), limits={},
        users=1, formats={}, position=schema.LogPosition(term=term, index=index), log=log,
    )  # fmt: skip


def kept(*copies: tuple[str, bool, int], leader: str = "a") -> schema.LogView:
    rows = tuple(schema.LogCopy(server=n, current=ok, behind=lag) for n, ok, lag in copies)
    return schema.LogView(leader=leader, copies=rows)


WHOLE = kept(("a", True, 0), ("b", True, 0), ("c", True, 1))


def answers(*views: schema.ClusterView | str, nodes: bool = True) -> SchedulerAnswers:
    listed = tuple(views_of_nodes()) if nodes else None
    return SchedulerAnswers(roster(1), dict(enumerate(views, 1)), listed)


def views_of_nodes() -> list[schema.NodeView]:
    row = views.node()
    return [msgspec.structs.replace(row, node=name, jobs=n) for n, name in enumerate(NAMES)]


def judged(*views: schema.ClusterView | str, nodes: bool = True) -> ClusterStatus:
    return cluster_status.judge(answers(*views, nodes=nodes))


def verdicts(found: ClusterStatus) -> dict[str, tuple[bool, str]]:
    return {row.server: (row.may_go, row.because) for row in found.servers}


def test_each_may_go_while_all_are_in_step() -> None:
    found = judged(view(1, 40, WHOLE), view(1, 39, WHOLE), view(1, 40, WHOLE))
    assert (found.leader, found.log_leader, found.index) == ("a", "a", 40)
    said = verdicts(found)
    assert said["a"][0] and "another one leads then" in said["a"][1]
    assert "elects another leader" in said["a"][1]
    assert said["b"] == (True, "it has 1 job: drain its node first")
    assert [row.log for row in found.servers] == ["leads", "current", "current"]


def test_of_two_neither_may_go_and_no_trouble_is_named() -> None:
    both = SchedulerAnswers(roster(1)[:2], {1: view(1, 40, WHOLE), 2: view(1, 40, WHOLE)}, None)
    for row in cluster_status.judge(both).servers:
        assert (row.may_go, row.because) == (False, "1 of 2 would stay, 2 must")


def test_none_may_go_beside_one_that_is_away() -> None:
    found = judged(view(1, 40, WHOLE), "nobody answers", view(1, 40, WHOLE))
    said = verdicts(found)
    assert not said["b"][0] and said["b"][1].startswith("nobody answers; ")
    assert "`stoker doctor`" in said["b"][1]
    for name in ("a", "c"):
        assert said[name] == (False, "b does not answer: 1 of 3 would stay, 2 must")


@pytest.mark.parametrize("row", [("b", False, 0), ("b", True, BEHIND_MAX + 1)])
def test_a_copy_of_the_log_that_is_not_there_counts_as_away(row: tuple[str, bool, int]) -> None:
    log = kept(("a", True, 0), row, ("c", True, 0))
    said = verdicts(judged(view(1, 40, log), view(1, 40, log), view(1, 40, log)))
    assert said["b"][0], "the others are enough"
    assert not said["a"][0] and "the log's copy on b is" in said["a"][1]


def test_a_copy_at_a_server_that_does_not_count_yet_counts_for_the_log() -> None:
    rows = [("a", True, 0), ("b", True, 0), ("c", True, 0)]
    lost = kept(*rows, ("d", False, 0))
    for why in (why for _, why in verdicts(judged(*[view(1, 40, lost)] * 3)).values()):
        assert why == "2 of the log's 4 copies would stay, 3 must"
    there = kept(*rows, ("d", True, 0))
    assert all(may for may, _ in verdicts(judged(*[view(1, 40, there)] * 3)).values())


def test_a_scheduler_that_is_far_behind_counts_as_away() -> None:
    late = view(1, 40, WHOLE)
    found = judged(view(1, 40 + BEHIND_MAX + 1, WHOLE), late, view(1, 110, WHOLE))
    assert "b lacks" in verdicts(found)["c"][1]


def test_without_a_leader_or_brokers_that_tell_everybody_stays() -> None:
    nobody = judged(view(0, 40, WHOLE), view(0, 40, WHOLE), view(0, 40, WHOLE), nodes=False)
    assert nobody.leader == "" and nobody.nodes is None
    assert all(why == "no scheduler leads at this moment" for _, why in verdicts(nobody).values())
    dumb = judged(*(view(1, 40, None) for _ in NAMES))
    assert not any(may for may, _ in verdicts(dumb).values())


def test_one_that_led_in_an_older_term_does_not_lead() -> None:
    found = judged(view(1, 40, WHOLE, term=3), view(2, 41, WHOLE, term=4), view(2, 41, WHOLE, 4))
    assert found.leader == "b"


def test_the_screen_says_who_may_go_and_why_not() -> None:
    found = judged(view(1, 40, WHOLE), "nobody answers", view(1, 40, WHOLE))
    told = msgspec.to_builtins(found)
    lines = list(server_status.lines(told))
    narrow = "\n".join(server_status.lines(told, 70)).splitlines()
    assert max(map(len, narrow)) <= 70 < max(map(len, lines))
    assert "SCHEDULER" in "\n".join(lines) and "SCHEDULER" not in "\n".join(narrow)
    assert len(lines) < 17
    assert "log      entry 40, term 3; a leads, entries go through a" in lines
    assert any(line.startswith("b is away: nobody answers; ") for line in lines)
    assert "a must stay: b does not answer: 1 of 3 would stay, 2 must" in lines
    whole = judged(view(1, 40, WHOLE), view(1, 39, WHOLE), view(1, 40, WHOLE))
    lines = list(server_status.lines(msgspec.to_builtins(whole)))
    assert lines[-1].startswith("One at a time")


def screen_of(*views: schema.ClusterView | str) -> list[str]:
    return list(server_status.lines(msgspec.to_builtins(judged(*views, nodes=False))))


def test_a_survivor_names_the_servers_to_start_and_the_way_out_without_them() -> None:
    alone = view(0, 40, None)
    lines = screen_of("nobody answers", alone, "nobody answers")
    assert lines[-2:] == [
        "Nothing is decided until 2 of 3 answer: start a, c.",
        "If they are lost for good, call on a host that is left: stoker cluster backup --survivor",
    ]
    enough = screen_of("nobody answers", alone, alone)
    assert not any("survivor" in line for line in enough), "two of three decide"


def test_the_screen_says_why_a_node_takes_no_jobs() -> None:
    found = msgspec.structs.replace(
        judged(*[view(1, 40, WHOLE)] * 3),
        drained={"b": "1.0 MiB are free at /var/lib/stoker", "c": "a new disk"},
        left={"b": JobsLeft(0, None), "c": JobsLeft(3, 2)},
    )
    lines = list(server_status.lines(msgspec.to_builtins(found)))
    assert lines[4:6] == [
        "         b takes no new jobs: 1.0 MiB are free at /var/lib/stoker; no job is left",
        "         c takes no new jobs: a new disk; 3 jobs left, 2 of them moving elsewhere",
    ]


def of_build(oldest: int, newest: int, level: int = 1) -> schema.ClusterView:
    found = view(1, 40, WHOLE)
    build = {"oldest": oldest, "newest": newest, "level": level, "version": "7.0"}
    return msgspec.structs.replace(found, **build)


@pytest.mark.parametrize(
    ("views", "line"),
    [
        ((of_build(1, 2, 2),) * 3, "level    2, the newest that these servers support"),
        ((of_build(1, 2),) * 3, "level    1; all servers support 2: stoker cluster upgrade"),
        (
            (of_build(1, 2), of_build(1, 1), of_build(1, 2)),
            "level    1; not yet 2, since b supports no level above 1",
        ),
        (
            (of_build(1, 1), of_build(1, 2), "nobody answers"),
            "level    1; not yet 2, since a supports no level above 1; c does not answer",
        ),
    ],
)
def test_the_screen_says_which_server_keeps_the_cluster_from_the_next_level(
    views: tuple[schema.ClusterView | str, ...], line: str
) -> None:
    assert line in screen_of(*views)


def test_a_build_that_the_others_have_left_behind_is_halted_and_counts_for_none() -> None:
    found = judged(of_build(1, 2, 2), of_build(1, 1), of_build(1, 2, 2))
    said = verdicts(found)
    lacks = "it supports no feature level above 1, and the cluster has 2: run a newer stoker there"
    assert found.servers[1].halted == lacks
    assert said["b"] == (
        True,
        f"it takes part in nothing: {lacks}; it has 1 job: drain its node first",
    )
    for name in ("a", "c"):
        assert said[name] == (False, "b takes part in nothing: 1 of 3 would stay, 2 must")
    lines = screen_of(of_build(1, 2, 2), of_build(1, 1), of_build(1, 2, 2))
    assert [line.split()[2] for line in lines[6:9]] == ["leads", "halted", "follows"]


def test_each_row_has_the_levels_and_the_version_of_its_server() -> None:
    lines = screen_of(of_build(1, 2), of_build(2, 2), "nobody answers")
    first, second, third = lines[6:9]
    assert first.split()[-2:] == ["1-2", "7.0"] and second.split()[-2:] == ["2", "7.0"]
    assert third.split()[-2:] == ["-", "-"]
