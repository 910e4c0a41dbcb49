# SPDX-License-Identifier: Apache-2.0
"""Every trace format from a few rows, and every way a row can be wrong, told with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler.sim import jct_trace
from stoker.scheduler.sim.jct_trace import SECOND, TraceJob, read_jobs, read_throughputs

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
POLLUX = "name,time,application,num_replicas,batch_size\n"
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
THROUGHPUTS = """{
 "v100": {"('A (batch size 1)', 1)": {"null": 4.0, "('B', 1)": [1.0, 1.0]},
          "('A (batch size 1)', 2)": {"null": 8.0}, "('B', 1)": {"null": 2.0}},
 "k80": {"('A (batch size 1)', 1)": {"null": 1.0}, "('A (batch size 1)', 2)": {"null": 0.0}},
 "v100_unconsolidated": {"('A (batch size 1)', 1)": {"null": 4.0}}
}"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_philly_rows_are_sorted_and_begin_at_zero(tmp_path: Path) -> None:
    text = PHILLY + "2017-10-09 07:02:00,66.5,2,133.0,b\n2017-10-09 07:01:00,5.0,1,5.0,a\n\n"
    assert read_jobs([written(tmp_path, "philly.csv", text)]) == [
        TraceJob("", "a", 0, 1, 5 * SECOND),
        TraceJob("", "b", 60 * SECOND, 2, 66_500_000_000),
    ]


def test_pollux_rows_get_the_run_time_of_their_configuration(tmp_path: Path) -> None:
    text = POLLUX + "ncf-0,791,ncf,1,32768\ncifar10-1,1151,cifar10,12,4096\n"
    assert read_jobs([written(tmp_path, "workload-3.csv", text)]) == [
        TraceJob("ncf-0", "ncf", 0, 1, 33 * SECOND),
        TraceJob("cifar10-1", "cifar10", 360 * SECOND, 12, 573 * SECOND),
    ]


def test_tiresias_rows(tmp_path: Path) -> None:
    text = TIRESIAS + "0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23\n"
    assert read_jobs([written(tmp_path, "60_job.csv", text)]) == [
        TraceJob("0", "vgg19", 0, 1, 164 * SECOND),
        TraceJob("1", "vgg11", 30 * SECOND, 8, 147 * SECOND),
    ]


def test_gavel_steps_become_seconds_by_device_model(tmp_path: Path) -> None:
    text = "A (batch size 1)\tpython3 a.py\t-n\t1\t400\t10.5\t1\n"
    text += "A (batch size 1)\tpython3 a.py\t-n\t1\t400\t11.5\t2\n"
    text += "A (batch size 1)\tpython3 a.py\t-n\t1\t400\t12.5\t4\n"
    throughputs = read_throughputs(written(tmp_path, "t.json", THROUGHPUTS))
    assert read_jobs([written(tmp_path, "vc.trace", text)], throughputs) == [
        TraceJob("A (batch size 1)", "vc", 0, 1, 400 * SECOND,
                 (("v100", 100 * SECOND), ("k80", 400 * SECOND))),
        TraceJob("A (batch size 1)", "vc", SECOND, 2, 50 * SECOND, (("v100", 50 * SECOND),)),
        TraceJob("A (batch size 1)", "vc", 2 * SECOND, 4, 400 * SECOND,
                 (("v100", 100 * SECOND), ("k80", 400 * SECOND))),
    ]  # fmt: skip


def test_files_are_merged_by_arrival_and_cut_after_that(tmp_path: Path) -> None:
    one = written(tmp_path, "one.csv", TIRESIAS + "0,1,100,1,a,5,1\n1,1,300,1,a,5,1\n")
    two = written(tmp_path, "two.csv", TIRESIAS + "2,1,200,1,b,5,1\n")
    names = [(job.name, job.submit_ns // SECOND) for job in read_jobs([one, two], limit=2)]
    assert names == [("0", 0), ("2", 100)]


BAD = [
    (PHILLY + "2017-10-09 07:01:55,66.0,1,66.0\n", "2: 4 cells where the header has 5"),
    (PHILLY + "2017-10-09 07:01:55,x,1,66.0,a\n", "2: could not convert"),
    (PHILLY + "yesterday,66.0,1,66.0,a\n", "2: Invalid isoformat"),
    (PHILLY + "2017-10-09 07:01:55+00:00,66.0,1,66.0,a\n", "2: can't subtract"),
    (PHILLY + "2017-10-09 07:01:55,66.0,0,66.0,a\n", "2: a job has 1 to 1024 GPUs, not 0"),
    (PHILLY + "2017-10-09 07:01:55,66.0,1.5,66.0,a\n", "2: invalid literal"),
    (PHILLY + "2017-10-09 07:01:55,-1,1,66.0,a\n", "2: a job runs up to ten years, not -1 s"),
    (PHILLY + "2017-10-09 07:01:55,nan,1,66.0,a\n", "2: cannot convert"),
    (PHILLY + "2017-10-09 07:01:55,inf,1,66.0,a\n", "2: cannot convert"),
    (PHILLY + "2017-10-09 07:01:55,9e9,1,66.0,a\n", "2: a job runs up to ten years"),
    (PHILLY + '2017-10-09 07:01:55,"66.0"x,1,66.0,a\n', "2: "),
    (PHILLY + "2017-10-09 07:01:55,1,1,1," + "a" * 5000 + "\n", "2: more than 4096 characters"),
    (POLLUX + "a,1,gpt,1,1\n", r"2: nothing is known of \('gpt', 1, 1\)"),
    (TIRESIAS + "0,1,0,606,vgg19,0,30\n", "2: a job runs"),
    (TIRESIAS + "0,1,1e12,606,vgg19,10,30\n", "2: a trace spans up to 200 years"),
    (TIRESIAS + "0,2000,0,606,vgg19,10,30\n", "2: a job has 1 to 1024 GPUs"),
    ("a,b\n1,2\n", "1: no trace that is known"),
    ("", "1: no trace that is known"),
    ("A\tb\tc\t1\t10\t0\t1\nshort\n", "2: 1 columns, not 7"),
    ("A\tb\tc\td\te\tf\tg\n", "1: could not convert|1: invalid literal"),
    ("Z\tb\tc\t1\t10\t0\t1\n", "1: nothing is known of Z"),
]


@pytest.mark.parametrize(("text", "told"), BAD)
def test_a_bad_row_is_told_with_file_and_line(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, "bad.csv", text)
    throughputs = {"v100": {("A", 1): 1.0}}
    with pytest.raises(BadRequest, match=rf"bad\.csv:(?:{told})"):
        read_jobs([path], throughputs)


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(PHILLY.encode() + b"2017-10-09 07:01:55,\xff\xfe,1,66.0,a\n")
    with pytest.raises(BadRequest, match=r"bad\.csv:\d: no UTF-8 text"):
        read_jobs([path])


def test_a_trace_in_steps_needs_its_table(tmp_path: Path) -> None:
    path = written(tmp_path, "vc.trace", "A\tb\tc\t1\t10\t0\t1\n")
    with pytest.raises(BadRequest, match=r"simulation_throughputs\.json"):
        read_jobs([path])


@pytest.mark.parametrize("text", ["", "[]", '{"v100": 1}', '{"v100": {"x": {}}}', "{", "1"])
def test_a_table_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadRequest, match="no table of throughputs"):
        read_throughputs(written(tmp_path, "t.json", text))


def test_a_trace_without_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no jobs"):
        read_jobs([written(tmp_path, "empty.csv", PHILLY)])


def test_the_number_of_jobs_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jct_trace, "JOBS_MAX", 2)
    rows = "".join(f"{i},1,{i},1,a,5,1\n" for i in range(3))
    with pytest.raises(BadRequest, match="more than 2 jobs"):
        read_jobs([written(tmp_path, "many.csv", TIRESIAS + rows)])
