# SPDX-License-Identifier: Apache-2.0
"""Quantities: accepted texts, refused texts, and no rounding of either."""

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler.wire_names import JOB_AFTERS_MAX
from stoker.tui.options import quantity_parser


@pytest.mark.parametrize(
    ("text", "milli"),
    [("0", 0), ("1", 1000), ("8", 8000), ("0.005", 5), ("5m", 5), ("1000m", 1000)],
)
def test_a_share_is_exact(text: str, milli: int) -> None:
    assert quantity_parser.gpu_milli(text) == milli


@pytest.mark.parametrize("text", ["1.5", "0.0005", "5.5m", "-1", "x", "", "nan", "inf", "1e-4"])
def test_a_share_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"--gpus"):
        quantity_parser.gpu_milli(text)


def test_devices_in_the_form_of_slurm_are_refused_with_those_of_stoker() -> None:
    said = "'h100:2' names a model as Slurm does: say --gpus 2 --gpu-model h100"
    with pytest.raises(BadRequest, match=said):
        quantity_parser.gpu_milli("h100:2")


def test_cpus_may_be_more_than_one_and_a_part() -> None:
    assert quantity_parser.milli("1.5", "--cpus") == 1500


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4G", 4 << 30),
        ("512M", 512 << 20),
        ("1.5GiB", 3 << 29),
        ("4Gi", 4 << 30),
        ("1048576", 1 << 20),
        ("1kb", 1024),
        ("2Pi", 2 << 50),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert quantity_parser.size_bytes(text, "--mem") == count


@pytest.mark.parametrize("text", ["", "G", "-1", "0", "4X", "1.3", "99999999T"])
def test_a_size_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="--mem"):
        quantity_parser.size_bytes(text, "--mem")


def test_a_size_in_the_unit_of_another_scheduler_is_named() -> None:
    with pytest.raises(BadRequest, match="'4096' has no unit: say 4096M for MiB, which Slurm"):
        quantity_parser.size_bytes("4096", "--mem")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("2h", 7200),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("1:30:00", 5400),
        ("90:00", 5400),
        ("0:05", 5),
        ("2-0", 172_800),
        ("1-2:30", 95_400),
        ("1-02:30:05", 95_405),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert quantity_parser.seconds(text, "--time") == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "-5s", "0", "1x", "5s5", "20000d", "1:2:3:4", ":30", "1-", "0:00"]
)
def test_a_time_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="--time"):
        quantity_parser.seconds(text, "--time")


def test_a_time_limit_without_a_unit_is_refused() -> None:
    """Slurm reads it as minutes, `timeout` as seconds; a job must not end for the difference."""
    with pytest.raises(BadRequest, match="--time '10' has no unit: say 10s or 10m, as Slurm"):
        quantity_parser.limit_seconds("10", "--time")
    assert quantity_parser.limit_seconds("10m", "--time") == 600


@pytest.mark.parametrize("text", ["UNLIMITED", "infinite", "0"])
def test_what_means_no_limit_elsewhere_is_named(text: str) -> None:
    with pytest.raises(BadRequest, match=f"'{text}' is no limit in Slurm: leave out --time"):
        quantity_parser.limit_seconds(text, "--time")


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("", ()),
        ("0-3", (0, 1, 2, 3)),
        ("0-9:4", (0, 4, 8)),
        ("7,1-2,5", (7, 1, 2, 5)),
        ("0-9999", tuple(range(10_000))),
    ],
)
def test_indexes_of_an_array(text: str, indexes: tuple[int, ...]) -> None:
    assert tuple(quantity_parser.indexes(text, "--array")) == indexes


@pytest.mark.parametrize(
    "text", ["x", "3-1", "1-", "-1", "1,,2", "0-4:0", "0-100000", "0-999999999", "1" * 10]
)
def test_what_is_no_list_of_indexes_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="--array"):
        quantity_parser.indexes(text, "--array")


def test_a_limit_of_an_array_stands_behind_its_indexes() -> None:
    found = quantity_parser.indexes("0-3,9%2", "--array")
    assert (tuple(found), found.most, found.text) == ((0, 1, 2, 3, 9), 2, "0-3,9%2")
    for text in ("0-3%0", "0-3%", "0-3%x", "%2", "0-3%2,5"):
        with pytest.raises(BadRequest, match="--array"):
            quantity_parser.indexes(text, "--array")


def test_jobs_to_wait_for_and_whole_seconds() -> None:
    for text, jobs in (("7", (7,)), ("last, 9", ("last", 9)), ("4-600,2-,3-3", ("4-600", "2-", 3))):
        assert quantity_parser.jobs(text, "--after") == jobs
    for text in ("", "x", "-1", "7.5", "1" * 19, "7,", "6-4", "last-9"):
        with pytest.raises(BadRequest, match="--after"):
            quantity_parser.jobs(text, "--after")
    assert quantity_parser.AFTERS_MAX == JOB_AFTERS_MAX
    with pytest.raises(BadRequest, match="more than 8 jobs"):
        quantity_parser.jobs(",".join("123456789"), "--after")
    assert quantity_parser.whole_seconds("2m", "--backoff") == 120
    with pytest.raises(BadRequest, match="whole number of seconds"):
        quantity_parser.whole_seconds("500ms", "--backoff")
