# SPDX-License-Identifier: Apache-2.0
"""ModelPower of models from readings: both figures or none, and no more news than there is."""

from __future__ import annotations

from stoker.mesh.replica.watch.model_watts import ModelWatts
from stoker.scheduler.hints import ModelPower
from stoker.scheduler.nouns import DeviceSample


def sample(
    power: float | None, busy: float | None = 0.0, cap: float | None = 300.0
) -> DeviceSample:
    return DeviceSample("a", busy, power, power_limit_w=cap)


def test_both_figures_must_be_known() -> None:
    watts = ModelWatts()
    assert watts.saw("m", sample(200.0, 0.9)) is None
    assert watts.saw("m", sample(None)) is None
    assert watts.saw("m", sample(30.0, None)) is None
    assert watts.saw("", sample(30.0)) is None
    assert watts.saw("m", sample(30.0)) == ModelPower(30.0, 300.0)
    assert watts.saw("n", sample(30.0, cap=None)) is None


def test_noise_is_no_news() -> None:
    watts = ModelWatts()
    assert watts.saw("m", sample(30.0))
    for power in (29.5, 31.0, 28.6):
        assert watts.saw("m", sample(power)) is None
    assert watts.saw("m", sample(25.0)) == ModelPower(25.0, 300.0)
    assert watts.saw("m", sample(25.0, cap=200.0)) is None, "one card with a lower limit"
    assert watts.saw("m", sample(25.0, cap=350.0)) == ModelPower(25.0, 350.0)


def test_stated_watts_are_not_changed() -> None:
    watts = ModelWatts({"m": ModelPower(1.0, 2.0)})
    assert watts.unsaid
    assert watts.saw("m", sample(30.0)) is None
    watts.saw("n", sample(30.0))
    assert watts.all() == [("m", ModelPower(1.0, 2.0)), ("n", ModelPower(30.0, 300.0))]
    assert not watts.unsaid
