# SPDX-License-Identifier: Apache-2.0
"""The table of members: events change it, and ignorance empties it."""

from __future__ import annotations

from stoker.mesh.gossip import membership
from stoker.mesh.gossip.membership import MemberChange, Membership
from stoker.mesh.gossip.serf_records import SerfEvent, SerfMember


def member(name: str, status: str = "alive", **tags: str) -> SerfMember:
    return SerfMember(name, bytes([10, 0, 0, 1]), 7946, status, tags)


def table(*names: str) -> Membership:
    made = Membership("it has just begun")
    made.read([member(name) for name in names], 1.0)
    return made


def test_what_nobody_says_has_a_reason_and_no_rows() -> None:
    made = Membership("it has just begun")
    assert (made.absent, made.rows, made.state("a")) == ("it has just begun", {}, "")
    made.read([member("a")], 1.0)
    assert (made.absent, made.state("a")) == ("", "alive")
    made.lost("serf has ended")
    assert (made.absent, made.state("a")) == ("serf has ended", "")


def test_events_change_states_and_say_since_when() -> None:
    made = table("a", "b")
    assert made.follow(SerfEvent("member-failed", [member("b", "failed")]), 5.0) == [
        MemberChange("b", "alive", "failed")
    ]
    assert (made.state("b"), made.rows["b"].since_s, made.rows["b"].address) == (
        "failed",
        5.0,
        "10.0.0.1",
    )
    assert made.follow(SerfEvent("member-failed", [member("b", "failed")]), 6.0) == []
    assert made.rows["b"].since_s == 5.0
    made.follow(SerfEvent("member-join", [member("b")]), 7.0)
    assert (made.state("b"), made.rows["b"].since_s) == ("alive", 7.0)
    made.follow(SerfEvent("member-leave", [member("b", "left")]), 8.0)
    assert made.state("b") == "left"


def test_an_update_changes_tags_and_not_the_time() -> None:
    made = table("a")
    assert made.follow(SerfEvent("member-update", [member("a", keys="k")]), 9.0) == []
    assert (made.rows["a"].tags, made.rows["a"].since_s) == ((("keys", "k"),), 1.0)


def test_a_member_that_is_reaped_or_not_listed_is_gone() -> None:
    made = table("a", "b", "c")
    assert made.follow(SerfEvent("member-reap", [member("b")]), 2.0) == [
        MemberChange("b", "alive", "")
    ]
    assert made.read([member("a")], 3.0) == [MemberChange("c", "alive", "")]
    assert list(made.rows) == ["a"]


def test_another_event_changes_nothing() -> None:
    made = table("a")
    assert made.follow(SerfEvent("user", name="x"), 2.0) == []
    assert set(membership.EVENTS.split(",")) >= {"member-join", "member-failed", "member-reap"}


def test_a_list_after_a_loss_keeps_since_when_a_state_was_known() -> None:
    made = Membership("serf was away")
    changes = made.read(
        [member("a"), member("b")], 9.0, {"a": ("alive", 2.0), "b": ("failed", 3.0)}
    )
    assert changes == [MemberChange("b", "failed", "alive")]
    assert {row.name: row.since_s for row in made.rows.values()} == {"a": 2.0, "b": 9.0}


def test_members_beyond_the_limit_are_counted_and_not_kept() -> None:
    made = Membership("")
    made.read([member(f"n{number}") for number in range(membership.MEMBERS_MAX + 3)], 1.0)
    assert (len(made.rows), made.dropped) == (membership.MEMBERS_MAX, 3)


def test_others_that_live_are_counted_without_this_host() -> None:
    made = table("a", "b", "c")
    made.follow(SerfEvent("member-failed", [member("c", "failed")]), 2.0)
    assert made.others_alive("a") == 1
