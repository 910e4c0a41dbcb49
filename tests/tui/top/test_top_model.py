# SPDX-License-Identifier: Apache-2.0
"""The live view's texts show absent values, simulated devices, estimates and faults."""

from fakes.views import SECOND, answers, device, job, node

from stoker.mesh.wire.schema import KernelRow, RankTroubleView
from stoker.tui.top.top_model import TABLES, frame, plain


def test_rows_have_as_many_cells_as_their_table_has_columns() -> None:
    kernel = KernelRow(job=1, node="n1", name="saxpy", count=3, total_ns=10)
    shown = frame(
        answers(nodes=[node()], devices=[device()], jobs=[job(1, "running")], kernels=[kernel])
    )
    for name, rows in shown.tables.items():
        assert [len(row.cells) for row in rows] == [len(TABLES[name].columns)]


def test_absent_telemetry_is_a_dash_and_never_zero() -> None:
    cells = frame(answers(devices=[device()])).tables["devices"][0].cells
    assert cells[4:7] == ("-", "-", "-")


def test_a_cpu_device_and_a_simulated_one_say_what_they_are() -> None:
    shown = frame(answers(devices=[device(), device(id="g", kind="gpu", sim=True)]))
    assert [row.cells[2] for row in shown.tables["devices"]] == ["CPU, no GPU", "SIM"]
    assert "SIM" in shown.headline


def test_a_device_that_cannot_be_granted_says_why() -> None:
    row = frame(answers(devices=[device(unavailable="held by pid 7 (python3)")])).tables["devices"][
        0
    ]
    assert row.cells[-1] == "held by pid 7 (python3)"
    assert row.tone == "bad"


def test_health_is_what_keeps_jobs_away_or_is_wrong_all_the_same() -> None:
    devices = [device(), device(cordoned="a new fan"), device(warning="link 2 is down")]
    devices.append(device(unavailable="needs reset", cordoned="a new fan"))
    rows = frame(answers(devices=devices)).tables["devices"]
    assert [row.cells[-1] for row in rows] == [
        "ok", "cordoned: a new fan", "warning: link 2 is down", "needs reset; cordoned: a new fan",
    ]  # fmt: skip
    assert [row.tone for row in rows] == ["", "bad", "", "bad"]


def test_the_headline_counts_what_runs_and_what_waits() -> None:
    jobs = [job(1, "running"), job(2, "pending"), job(3, "starting"), job(4, "succeeded")]
    assert "1 running   2 waiting" in frame(answers(jobs=jobs)).headline


def test_a_job_without_a_name_is_called_after_its_program_and_ages_from_its_last_change() -> None:
    row = frame(answers(jobs=[job(1, "pending")], read_ns=61 * SECOND)).tables["jobs"][0]
    assert row.cells[1] == "train"
    assert row.cells[6] == "1m 00s"


def test_an_estimated_total_is_marked() -> None:
    exact = KernelRow(job=1, node="n1", name="a", count=3, total_ns=1500)
    guessed = KernelRow(job=1, node="n1", name="b", count=3, total_ns=1500, estimate=True)
    rows = frame(answers(kernels=[exact, guessed])).tables["kernels"]
    assert [row.cells[3] for row in rows] == ["1.50 us", "~1.50 us"]


def test_a_count_that_is_a_lower_bound_says_so() -> None:
    kernel = KernelRow(job=1, node="n1", name="a", count=63_800, total_ns=1500, seen=0.467)
    (row,) = frame(answers(kernels=[kernel])).tables["kernels"]
    assert row.cells[2] == "at least 63,800 (47 % seen)"


def test_the_plain_form_names_every_table_and_what_is_empty() -> None:
    text = plain(frame(answers()))
    for name, layout in TABLES.items():
        assert f"\n{name}\n" in text
        assert layout.empty in text


def test_a_rank_that_keeps_others_waiting_stands_before_the_reason() -> None:
    late = RankTroubleView(
        6, "slow", "", "n2", 6, ("GPU-1",), True, 0.2, 50 * SECOND, 53 * SECOND, 0
    )
    shown = frame(answers(jobs=[job(1, "running", troubles=(late,))], read_ns=62 * SECOND))
    (row,) = shown.tables["jobs"]
    assert row.cells[-1].startswith("slow rank 6 +20 % for 12 s: n2, GPU-1 (SIM)")
    assert row.tone == "bad"
    assert "1 with a rank that keeps others waiting" in shown.headline
