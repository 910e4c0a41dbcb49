# SPDX-License-Identifier: Apache-2.0
"""Rules of alerts that make no sense, each refused with the setting and the remedy."""

from __future__ import annotations

import re

import pytest

from stoker.agent.alerts import rule
from stoker.agent.alerts.rule import AlertRule, AlertSettings
from stoker.agent.config import faults
from stoker.native.errors import BadRequest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "metric = 'hw.temprature'\nabove = 1",
            "metric is 'hw.temprature': perhaps hw.temper",
        ),
        ("metric = 'stoker.kernel.duration'\nabove = 1", "metric is"),
        ("metric = 'hw.power'\nabove = 1\nwhere = { 'hw.idd' = 'x' }", "perhaps hw.id is meant"),
        ("metric = 'hw.power'", "above or below must be given, and only one of them"),
        ("metric = 'hw.power'\nabove = 1\nbelow = 2", "above or below must be given"),
        ("metric = 'hw.power'\nabove = nan", "must be finite"),
        ("metric = 'hw.power'\nabove = 1\nclear = 2", "clear is 2: at most 1, which is above"),
        ("metric = 'hw.power'\nbelow = 1\nclear = 0.5", "clear is 0.5: at least 1"),
        ("metric = 'hw.power'\nabove = 1\nper_second = true", "per_second is for counters"),
        ("metric = 'hw.power'\nabove = 1\naction = 'cancel'", "series of hw.power are not of jobs"),
        ("metric = 'hw.power'\nabove = 1\nfor_s = -1", "for_s is -1: it must be a number >= 0"),
    ],
)
def test_a_rule_that_makes_no_sense_is_a_fault_of_the_file(text: str, said: str) -> None:
    _, found = faults.parse(f"[[alert]]\nname = 'a'\n{text}\n".encode())
    (line,) = [each.at("config.toml") for each in found]
    assert re.match(r"config.toml:\d+: ", line)
    assert said in line
    assert "alert[1]" in line


def test_a_histogram_has_no_one_value() -> None:
    histograms = [each.name for each in rule.NAMES if each.kind == "histogram"]
    assert histograms
    for name in histograms:
        assert "a histogram has no one value" in rule.fault(AlertRule("a", name, above=1.0))


def test_two_rules_have_two_names() -> None:
    one = AlertRule("a", "hw.power", above=1.0)
    rule.check([one])
    with pytest.raises(BadRequest, match=r"alert\[2\].name 'a' is another alert's"):
        rule.check([one, one])
    with pytest.raises(BadRequest, match="65 alerts, at most 64"):
        rule.check([AlertRule(str(n), "hw.power", above=1.0) for n in range(65)])


@pytest.mark.parametrize(
    "webhook", ["ftp://h", "http://", "h:1", "http://u:s3cret@h/", "http://h:99999/s3cret?s3cret"]
)
def test_a_webhook_is_a_url_and_its_secrets_are_not_told(webhook: str) -> None:
    with pytest.raises(BadRequest) as refused:
        rule.check_settings(AlertSettings(webhook=webhook))
    assert "alerts.webhook" in refused.value.message
    assert "s3cret" not in refused.value.message


@pytest.mark.parametrize(
    "settings",
    [
        AlertSettings(interval_s=0.01),
        AlertSettings(timeout_s=0),
        AlertSettings(webhook_headers={str(n): "x" for n in range(17)}),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: AlertSettings) -> None:
    with pytest.raises(BadRequest, match="alerts"):
        rule.check_settings(settings)


def test_units_are_those_of_the_metric() -> None:
    assert rule.unit(AlertRule("a", "hw.power", above=1.0)) == "W"
    assert rule.unit(AlertRule("a", "hw.gpu.utilization", above=1.0)) == ""
    assert rule.unit(AlertRule("a", "hw.energy", above=1.0, per_second=True)) == "J/s"
