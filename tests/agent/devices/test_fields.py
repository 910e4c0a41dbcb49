# SPDX-License-Identifier: Apache-2.0
"""The table of fields and its page in the documentation are the same."""

from __future__ import annotations

from pathlib import Path

from stoker.agent.devices.fields import FAST, KEPT, SPECS, TABLE, complete
from stoker.agent.devices.readings import Absent, Reading

PAGE = Path(__file__).parents[3] / "docs/operator/devices.md"
RATES = {"once": "once", "fast": "10 Hz", "slow": "1 Hz"}


def test_the_page_has_every_field_with_unit_and_rate() -> None:
    page = PAGE.read_text()
    rows = [f"| `{s.name}` | {s.unit} | {RATES[s.rate]} | {s.text} |" for s in TABLE]
    assert [row for row in rows if row not in page] == []


def test_what_is_kept_is_read_fast() -> None:
    assert set(KEPT) - set(FAST) == {"power_samples_w"}
    assert SPECS["power_samples_w"].rate == "slow"


def test_a_card_has_all_fields_whatever_it_answers() -> None:
    made = complete({"power_w": Reading(1.0)}, "why")
    assert list(made) == [spec.name for spec in TABLE]
    assert made["serial"] == Absent("why")
