# SPDX-License-Identifier: Apache-2.0
"""The table of metrics: each name once, spelled for Prometheus, and on the operator's page.

STOKER_GOLDEN=rewrite writes both tables of the page anew.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

from stoker.agent.devices.fields import SPECS
from stoker.agent.export import dcgm_metrics, device_metrics
from stoker.probes.otlp import metric_names
from stoker.probes.otlp.prometheus_text import spelled

PAGE = Path(__file__).resolve().parents[3] / "docs/operator/metrics.md"
KINDS = {
    "sum": "counter",
    "updown": "up and down",
    "histogram": "exponential histogram",
    "gauge": "gauge",
}


def metrics_table() -> str:
    rows = ["| metric | on the page | unit | kind | |", "|---|---|---|---|---|"]
    for each in metric_names.NAMES:
        page = spelled(each.name, each.unit, each.kind)
        kind = KINDS[each.kind]
        rows.append(f"| `{each.name}` | `{page}` | {each.unit} | {kind} | {each.description} |")
    return "\n".join(rows)


def dcgm_table() -> str:
    rows = ["| series | type | field | |", "|---|---|---|---|"]
    for row in dcgm_metrics.ROWS:
        kind = "counter" if row.counter else "gauge"
        rows.append(f"| `{row.name}` | {kind} | `{row.field}` | {row.help} |")
    return "\n".join([*rows, f"| `{dcgm_metrics.XID}` | gauge | | {dcgm_metrics.XID_HELP} |"])


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    text = wanted = PAGE.read_text()
    for mark, table in (("metrics", metrics_table()), ("dcgm", dcgm_table())):
        block = rf"(<!-- {mark} -->\n).*?(<!-- end -->)"
        wanted = re.sub(
            block, lambda found, t=table: f"{found[1]}{t}\n{found[2]}", wanted, flags=re.S
        )
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        PAGE.write_text(wanted)
    assert text == wanted


def test_each_name_is_there_once_in_either_spelling() -> None:
    names = Counter(each.name for each in metric_names.NAMES)
    pages = Counter(spelled(each.name, each.unit, each.kind) for each in metric_names.NAMES)
    assert max(names.values()) == max(pages.values()) == 1


def test_rows_of_devices_name_fields_and_metrics_that_exist() -> None:
    for row in device_metrics.ROWS:
        assert row.field in SPECS and row.metric in metric_names.BY_NAME, row
        known = metric_names.BY_NAME[row.metric].attributes
        assert {name for name, _ in row.attributes} <= set(known), row
        assert row.counts == (metric_names.BY_NAME[row.metric].kind == "sum"), row
    assert all(row.field in SPECS for row in dcgm_metrics.ROWS)


DASHBOARD = Path(__file__).resolve().parents[3] / "examples/grafana/stoker.json"


def queries() -> list[str]:
    """The queries of our dashboard, its variables included."""
    dashboard = json.loads(DASHBOARD.read_text())
    found = [each["expr"] for panel in dashboard["panels"] for each in panel.get("targets", ())]
    return found + [str(each["query"]) for each in dashboard["templating"]["list"]]


def test_the_dashboard_asks_for_series_and_labels_that_exist() -> None:
    series = {spelled(each.name, each.unit, each.kind): each for each in metric_names.NAMES}
    histogram = "stoker_job_kernel_duration_seconds"
    series[f"{histogram}_bucket"] = series[histogram]
    asked = set()
    for query in queries():
        names = re.findall(r"\b(?:hw|stoker|process)_[a-z_]+", query)
        of_query = [series[name] for name in names if name in series]
        known = {label.replace(".", "_") for each in of_query for label in each.attributes}
        assert set(names) - series.keys() <= known, query
        asked |= {each.name for each in of_query}
    assert len(asked) > 25


def test_spelling_is_that_of_opentelemetrys_specification() -> None:
    assert spelled("hw.gpu.io", "By", "sum") == "hw_gpu_io_bytes_total"
    assert spelled("hw.gpu.utilization", "1", "gauge") == "hw_gpu_utilization_ratio"
    assert spelled("hw.fan.speed_ratio", "1", "gauge") == "hw_fan_speed_ratio"
    assert spelled("hw.status", "1", "updown") == "hw_status"
    assert spelled("hw.errors", "{error}", "sum") == "hw_errors_total"
    assert spelled("stoker.job.kernel.duration", "ns", "histogram") == (
        "stoker_job_kernel_duration_seconds"
    )
