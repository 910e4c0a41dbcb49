# SPDX-License-Identifier: Apache-2.0
"""Conditions on devices under every placement against the dumb full scan, and their bounds."""

from __future__ import annotations

from random import Random

import pytest

from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.effects import DeviceState
from stoker.scheduler.policies import Option, Placement
from stoker.scheduler.reasons import Reason
from stoker.scheduler.wire_names import TRAITS_MAX, Property, Relation
from tests.scheduler.oracle_conditions import levels, meets
from tests.scheduler.oracle_placement import Choice, Chooser, View
from tests.scheduler.test_core_placement import RATED, World, shares

IS, LEAST, MOST = Relation
VALUES: dict[Property, tuple[int, ...]] = {
    Property.VENDOR: (1, 2), Property.MODEL: (101, 102, 103), Property.MEMORY: (4 << 30, 8 << 30),
    Property.COMPUTE: (8, 9), Property.ARCH: (41, 42), Property.PROFILE: (51,),
    Property.DRIVER: (550, 560), Property.LINK: (1, 300, 900), Property.PARTITION: (1, 2),
}  # fmt: skip


def condition(rng: Random, rank: int, gpu_milli: int) -> rec.Condition:
    possible = [p for p in VALUES if rank or p != Property.MODEL]
    which = rng.choice([p for p in possible if gpu_milli >= 1000 or p != Property.LINK])
    relation = IS
    if which in (Property.COMPUTE, Property.DRIVER):
        relation = rng.choice((LEAST, MOST, LEAST))
    elif which in (Property.MEMORY, Property.LINK):
        relation = LEAST
    return rec.Condition(which, relation, rng.choice(VALUES[which]), rank)


def conditions(rng: Random, gpu_milli: int) -> tuple[rec.Condition, ...]:
    required = [condition(rng, 0, gpu_milli) for _ in range(rng.choice((0, 0, 1, 2)))]
    preferred = [condition(rng, rank, gpu_milli) for rank in range(1, rng.choice((1, 1, 2, 4)))]
    return (*required, *preferred)


class Described(World):
    """A world whose devices have traits."""

    def describe(self) -> None:
        for number in self.core.nodes():
            known = len(self.core.devices(number))
            self.commit([self.traits(number, index) for index in range(known)])

    def traits(self, number: int, index: int) -> rec.DeviceTraits:
        rng = self.rng
        return rec.DeviceTraits(
            number, index, rng.choice((0, 8, 9)), rng.choice((0, 41, 42)), rng.choice((0, 0, 51)),
            rng.choice((0, 550, 555, 560)), rng.choice((0, 300, 300, 900)),
        )  # fmt: skip


class Conditioned(Chooser):
    """The full scan, once for each number of preferences that are insisted on."""

    insists = 0

    def choose(self, request: rec.Submit, how: Placement) -> Choice | None:
        for self.insists in levels(request):
            found = super().choose(self.linked(request), how)
            if found:
                return found
        return None

    def linked(self, request: rec.Submit) -> rec.Submit:
        if not any(
            c.property == Property.LINK and c.rank <= self.insists for c in request.conditions
        ):
            return request
        return request._replace(options=request.options | Option.SAME_LINK)

    def suited(self, view: View, request: rec.Submit) -> list[int]:
        found = super().suited(view, request)
        return [i for i in found if meets(values(view.devices[i]), request, self.insists)]

    def own(self, view: View, request: rec.Submit) -> bool:
        """True if only the devices that suit are rated: a model is one of the node, a vendor one of
        its families, all else is of each device."""
        named = {c.property for c in request.conditions if c.rank <= self.insists}
        several = len({device.model for device in view.devices}) > 1
        named |= {
            Property.COMPUTE
            for c in request.conditions
            if c.property == Property.LINK and c.value > 1 and c.rank <= self.insists
        }
        return bool(named - {Property.VENDOR, Property.MODEL, Property.LINK}) or (
            Property.MODEL in named and several
        )


def values(device: DeviceState) -> dict[Property, int]:
    names = ("vendor", "model", "memory_bytes", "compute", "arch", "profile", "driver")
    found = {which: getattr(device, name) for which, name in zip(Property, names, strict=False)}
    link = device.link_gbps or 1  # that there is one at all is for the choice of a group
    return {**found, Property.LINK: link, Property.PARTITION: 2 if device.profile else 1}


@pytest.mark.parametrize("how", RATED, ids=lambda how: how.name.lower())
def test_the_choice_under_conditions_is_that_of_a_full_scan(how: Placement) -> None:
    chosen = preferred = 0
    for seed in range(12):
        world = Described(seed)
        world.describe()
        for _ in range(40):
            world.stir()
            wanted = world.request(how)
            if not wanted.gpu_milli:
                continue
            wanted = wanted._replace(conditions=conditions(world.rng, wanted.gpu_milli))
            chooser = Conditioned(world.core, world.inputs)
            expected = chooser.choose(wanted, how)
            _, start = world.job(wanted)
            assert (start and (start.node, shares(start))) == expected
            chosen += start is not None and bool(wanted.conditions)
            preferred += start is not None and chooser.insists > 0
        assert world.core.scores_check()
        assert world.core.check() == ""
    assert chosen > 50
    assert preferred > 10


def small(devices: int = 2) -> Core:
    core = Core(Limits(nodes=4, devices=200, jobs=9, finished=9, tasks=9, keys=4, queues=4))
    requests: list[rec.Request] = [rec.NodeUp(1, 1, 1, 8000, 1 << 34, devices)]
    requests += [rec.DeviceSet(1, index, model=7, vendor=1) for index in range(devices)]
    commit(core, requests)
    return core


def commit(core: Core, requests: list[rec.Request]) -> list[tuple[int, int]]:
    """The (reason, asked) of what is rejected."""
    proposal = core.propose(requests, 1, 0, measure=False)
    core.apply(proposal.commands, 1)
    assert core.check() == ""
    return [(rejected.reason, rejected.asked) for rejected in proposal.rejected]


def test_a_waiting_job_accepts_traits_that_come_after_it() -> None:
    core = small()
    commit(core, [rec.DeviceTraits(1, 0, driver=550), rec.DeviceTraits(1, 1, driver=560)])
    newer = rec.Submit(1, gpu_milli=1000, conditions=(rec.Condition(Property.DRIVER, LEAST, 560),))
    commit(core, [newer, newer])
    assert [t.shares[0].index for t in core.node_tasks(1)] == [1]
    commit(core, [rec.DeviceTraits(1, 0, driver=570)])
    commit(core, [])
    assert sorted(t.shares[0].index for t in core.node_tasks(1)) == [0, 1]


def test_traits_that_no_device_has_make_room_for_others_and_too_many_are_refused() -> None:
    core = small(devices=64)
    for version in range(1, 100):
        assert commit(core, [rec.DeviceTraits(1, 0, driver=version)]) == []
    many: list[rec.Request] = [rec.DeviceTraits(1, i, driver=1000 + i) for i in range(63)]
    for one in many:
        assert commit(core, [one]) == []
    assert commit(core, [rec.DeviceTraits(1, 63, driver=5)]) == [(Reason.TRAITS_FULL, 1)]
    assert TRAITS_MAX == 63
    assert core.devices(1)[63].driver == 0
    again = Core.restore(core.snapshot())
    assert again.digest() == core.digest()


def test_a_reused_position_is_not_taken_for_what_it_was() -> None:
    """A job that wants driver 100 must not accept the traits that took the place of it."""
    core = small(devices=64)
    commit(core, [rec.DeviceTraits(1, 0, driver=100)])
    old = rec.Submit(1, gpu_milli=1000, conditions=(rec.Condition(Property.DRIVER, IS, 100),))
    commit(core, [old, old])
    assert len(core.node_tasks(1)) == 1
    commit(core, [rec.DeviceTraits(1, 0, driver=7)])
    for version in range(200, 280):
        commit(core, [rec.DeviceTraits(1, 1, driver=version)])
    for index in range(1, 62):
        commit(core, [rec.DeviceTraits(1, index, driver=300 + index)])
    commit(core, [])
    assert len(core.node_tasks(1)) == 1
    assert core.scores_check()
