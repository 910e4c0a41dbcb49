# SPDX-License-Identifier: Apache-2.0
"""The bench of the export: it measures what it says, and reports peers that are not there."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from product_node import STOKER

from stoker.agent.export import bench
from stoker.agent.export.node_metrics import metrics
from stoker.probes.otlp.otlp_encoder import Histogram


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    argv = [STOKER, "bench", "export", "--json", "--rounds", "1", "--series", "300"]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=120)
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def test_every_figure_is_measured(found: dict[str, Any]) -> None:
    for name in ("export_ms", "page_ms", "series_export_ms", "series_page_ms"):
        assert found[name] > 0
    assert found["export_share"] == pytest.approx(found["export_ms"] / 1e3 / 10)
    assert found["series"] == 300 and found["why_not"] == {}
    assert found["sdk_ratio"] == pytest.approx(found["sdk_ms"] / found["series_export_ms"])
    assert found["client_ratio"] == pytest.approx(found["client_ms"] / found["series_page_ms"])


def test_the_load_is_the_one_that_is_named() -> None:
    told, refused = metrics(bench.node(3))
    by_name = {metric.name: metric.points for metric in told}
    assert not refused and len(by_name["hw.power"]) == bench.CARDS
    assert len(by_name["stoker.job.kernel.launches"]) == bench.KERNELS
    histograms = by_name["stoker.job.kernel.duration"]
    assert len(histograms) == bench.KERNELS
    assert all(isinstance(each, Histogram) and len(each.buckets) == 160 for each in histograms)
    assert bench.encoded(told, 1) != bench.encoded(metrics(bench.node(4))[0], 1)


def test_both_peers_tell_as_many_series_as_we_do() -> None:
    assert bench.client_pass(7)(1).count(b"stoker_bench_watts{") == 7
    assert bench.text(bench.series(1, 7)).count(b"stoker_bench_watts{") == 7
    assert bench.sdk_pass(3000)(1), "the SDK has no limit here; it checks the number itself"


def test_a_peer_that_is_not_installed_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    assert bench.peer("prometheus_client", bench.client_pass, 1) == (
        "prometheus_client is not installed"
    )
    told = bench.run(1, 10)
    assert told["sdk_ms"] is None and told["client_ratio"] is None
    assert "prometheus_client is not installed" in bench.lines(told)


def test_lines_say_the_figures_and_their_targets(found: dict[str, Any]) -> None:
    text = bench.lines(found)
    assert f"{found['export_ms']:.1f} ms" in text and "(target 0.2%)" in text
    assert f"{found['sdk_ratio']:.1f} times as much" in text
