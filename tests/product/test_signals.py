# SPDX-License-Identifier: Apache-2.0
"""A reading leads to a placement on a live node: four simulated L40S (SIM), of which two get jobs.

At rest the first card is chosen. Each test changes one thing of one card, waits until the choice
of the next job flips to the second one, and reads in `stoker explain` that this was the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.mesh.wire import schema
from stoker.native import _sim
from stoker.probes.simdriver import libraries, profiles

FLIPS_S = 40.0
"""The patience for a reading of a card to reach a choice; a warning of health takes longest."""
BASE = (0.0, 0.0, 1.0)
"""The load of a card at rest."""
WORK = (0.3, 0.0, 1.0)
"""A load that does not depend on the clock."""


class Cards:
    """A live node and the simulated cards behind it."""

    def __init__(self, node: LiveNode, sim: _sim.Node) -> None:
        self.node, self.sim = node, sim
        self.ids = [device.id for device in self.devices()]

    def devices(self) -> list[schema.DeviceView]:
        async def question(client: Any) -> list[schema.DeviceView]:
            return list((await client.devices()).devices)

        return [device for device in self.node.ask(question) if device.kind == "gpu"]

    def cordon(self, card: int) -> None:
        """Let this card get no jobs."""
        self.node.stoker("cordon", f"{self.name}:{self.ids[card]}", "--reason", "not now")

    def uncordon(self, card: int) -> None:
        self.node.stoker("uncordon", f"{self.name}:{self.ids[card]}")

    @property
    def name(self) -> str:
        return self.devices()[0].node

    def rest(self) -> None:
        """Put every card back to rest but for its heat, and wait until the node sees it."""
        self.sim.heal()
        for card in range(4):
            self.load(card, BASE)
            self.sim.set_limit(card, 350_000)
            self.sim.lock_clocks(card, 0, 0)
        wait_until(
            lambda: not any(d.busy_ratio or d.warning for d in self.devices()),
            "the cards are at rest",
            40,
        )

    def load(self, card: int, load: tuple[float, float, float]) -> None:
        self.sim.set_load(card, *load)

    def heat(self, card: int) -> None:
        """Make a die 8 degrees hotter than the other within seconds; it takes minutes to cool."""

        def die_c(which: int) -> float:
            return float(self.sim.truth(which)["now"]["die_c"])

        while die_c(card) < die_c(1 - card) + 8:
            self.sim.inject("heat", card, until_ns=self.sim.now_ns + 10**8, value=800_000)
            time.sleep(0.2)

    def place(self, placement: str, milli: int = 1000) -> tuple[int, int]:
        """Run a job that does nothing; return its number and the number of its card."""
        job = self.node.submit("true", gpu_milli=milli, placement=placement, device_kind="gpu")
        view = self.node.wait(job)
        assert view.decision is not None
        return job, self.ids.index(view.decision.devices[0].id)

    def flips(self, placement: str, card: int, milli: int = 1000) -> dict[str, Any]:
        """Wait until a job goes to this card; return what explain says of it."""
        end = time.monotonic() + FLIPS_S
        while True:
            job, chosen = self.place(placement, milli)
            found = self.node.json("explain", str(job))
            if chosen == card:
                return found
            if time.monotonic() > end:
                text = self.node.explained(job)
                pytest.fail(f"placed on {chosen}, not {card}: {text}")
            time.sleep(0.5)


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cards]:
    folder = tmp_path_factory.mktemp("sim") / "node"
    sim = profiles.node("4xL40S", folder, seed=11)
    sim.set_open(True)
    with live_node(device_kind="gpu", **libraries.environment(folder, [1], {})) as node:
        made = Cards(node, sim)
        wait_until(lambda: len(made.devices()) == 4, "four cards")
        made.ids = [device.id for device in made.devices()]
        made.cordon(2)
        made.cordon(3)
        yield made


@pytest.fixture
def resting(cards: Cards) -> Iterator[Cards]:
    cards.rest()
    yield cards
    cards.sim.heal()


def hot(cards: Cards) -> None:
    cards.heat(0)


def working(cards: Cards) -> None:
    cards.load(0, WORK)


def braked(cards: Cards) -> None:
    cards.load(0, WORK)
    cards.sim.inject("brake", 0)


def retired(cards: Cards) -> None:
    cards.sim.inject("pages", 0)


def drawing(cards: Cards) -> None:
    cards.load(1, WORK)


def capped(cards: Cards) -> None:
    cards.sim.set_limit(1, 150_000)


def clocked(cards: Cards) -> None:
    """Both cards work alike, but the first one may use less than half of its clock."""
    for card in (0, 1):
        cards.load(card, WORK)
    wait_until(
        lambda: all((d.busy_ratio or 0) > 0.2 for d in cards.devices()[:2]), "both cards work"
    )
    assert cards.place("least-busy")[1] == 0
    cards.sim.lock_clocks(0, 210, 900)


@pytest.mark.parametrize(
    ("placement", "change", "seen"),
    [
        ("thermal", hot, "temperature_c"),
        ("thermal", braked, "temperature_c"),
        ("least-busy", working, "busy_ratio"),
        ("least-busy", clocked, "clock_ratio"),
        ("power", drawing, "power_w"),
        ("power", capped, "power_limit_w"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_signal_alone_flips_the_choice(
    resting: Cards, placement: str, change: Callable[[Cards], None], seen: str
) -> None:
    flips_by(resting, placement, change, seen)


def flips_by(resting: Cards, placement: str, change: Callable[[Cards], None], seen: str) -> None:
    if placement == "thermal":
        resting.heat(1)
    resting.flips(placement, 0)
    change(resting)
    found = resting.flips(placement, 1)
    evidence = found["evidence"]
    assert evidence["placement"] == placement
    chosen, other = evidence["chosen"], evidence["next_best"]
    assert (chosen["device"], other["device"]) == (resting.ids[1], resting.ids[0])
    assert chosen["sim"]
    assert not chosen.get("absent")
    assert seen in chosen["values"]
    assert seen in other["values"]
    assert evidence["flip"].startswith(resting.ids[0])
    assert chosen["observation"] in found["decision"]["observations"]


def test_explain_says_at_which_temperature_another_card_would_have_been_chosen(
    resting: Cards,
) -> None:
    resting.heat(0)
    found = resting.flips("thermal", 1)["evidence"]
    chosen, other = found["chosen"]["values"], found["next_best"]["values"]
    assert other["temperature_c"] > chosen["temperature_c"]
    headroom = int(chosen["limit_c"] - chosen["temperature_c"])
    assert f"at {other['limit_c'] - headroom - 1:g} C or below" in found["flip"]
    job, _ = resting.place("thermal")
    text = resting.node.explained(job)
    assert "why: the most thermal headroom" in text
    assert "next best: node" in text
    assert "(SIM): " in text
    assert "instead: " in text


def test_memory_in_use_flips_the_choice(resting: Cards) -> None:
    """A job holds a little of the first card's time and most of its memory."""
    node = resting.node
    resting.cordon(1)
    holder = node.submit("sh", "-c", "echo $$; exec sleep 300", gpu_milli=100, device_kind="gpu")
    node.wait(holder, "running")
    resting.uncordon(1)
    resting.flips("least-busy", 0, 500)  # a share goes where one is already
    wait_until(lambda: bool(node.output(holder).strip()), "its pid is known")
    resting.sim.add_process(0, int(node.output(holder)), 40 << 30, 0.0)
    found = resting.flips("least-busy", 1, 500)["evidence"]
    assert found["next_best"]["values"]["memory_used_ratio"] > 0.8
    assert found["chosen"]["values"]["memory_used_ratio"] < 0.1
    resting.sim.end_process(0, int(node.output(holder)))
    node.stoker("cancel", str(holder))
    node.wait(holder)


def test_placements_without_signals_flip_by_what_they_compare(resting: Cards) -> None:
    """A small share on the second card: packing goes there, spreading does not."""
    node = resting.node
    resting.cordon(0)
    holder = node.submit("sleep", "300", gpu_milli=300, device_kind="gpu")
    node.wait(holder, "running")
    resting.uncordon(0)
    wait_until(lambda: not any(d.cordoned for d in resting.devices()[:2]), "both cards take jobs")
    assert resting.flips("binpack", 1, 300)["evidence"]["absent"].startswith(
        "the placement binpack"
    )
    spread = resting.flips("spread", 0, 300)
    assert "in use" in spread["evidence"]["chosen"]["compared"]
    drawn = {resting.place("random", 300)[1] for _ in range(3)}
    assert drawn <= {0, 1}
    node.stoker("cancel", str(holder))
    node.wait(holder)


def test_what_the_queue_usually_asks_for_flips_best_and_fgd(resting: Cards) -> None:
    """300 of 1000 are taken on the second card. Where 700 are usual, what is left there is kept for
    them; before anything is usual, the second card is the best fit."""
    node = resting.node
    resting.cordon(0)
    holder = node.submit("sleep", "300", gpu_milli=300, device_kind="gpu")
    node.wait(holder, "running")
    resting.uncordon(0)
    usual = [
        node.submit("true", gpu_milli=700, device_kind="gpu", placement="binpack")
        for _ in range(400)
    ]
    node.wait(usual[-1])
    for how in ("fgd", "best"):
        found = resting.flips(how, 0, 300)
        assert found["reasons"][0]["code"] == "least_fragmented"
    node.stoker("cancel", str(holder))
    node.wait(holder)


def test_a_scheduler_that_starts_again_has_no_values_of_earlier_decisions(
    resting: Cards,
) -> None:
    job, _ = resting.place("thermal")
    assert resting.node.json("explain", str(job))["evidence"]["chosen"]
    old = resting.node.kill("scheduler")
    resting.node.wait_for_new("scheduler", old)
    found: Any = resting.node.json("explain", str(job))["evidence"]
    assert found.get("chosen") is None
    assert "it has ended or decided more since" in found["absent"]
    job, _ = resting.place("thermal")
    first: Any = resting.node.json("explain", str(job))["evidence"]["chosen"]
    assert first["values"] or first["absent"] == "no observation of it had come yet"
    wait_until(
        lambda: bool(
            resting.node.json("explain", str(resting.place("thermal")[0]))["evidence"]["chosen"][
                "values"
            ]
        ),
        "the new leader has heard of the cards",
    )


def test_a_warning_of_health_flips_the_choice(resting: Cards) -> None:
    """It comes last, because such a warning stays for a minute."""
    flips_by(resting, "thermal", retired, "temperature_c")
    found = resting.node.json("explain", str(resting.place("thermal")[0]))["evidence"]
    assert found["next_best"]["marks"] == ["warned"]
    assert "had it not been slowed or warned of" in found["flip"]
    assert resting.place("binpack")[1] == 1
