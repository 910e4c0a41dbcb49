# SPDX-License-Identifier: Apache-2.0
"""One job on one screen: what ran, where and why, and where the device's time went.

Pure: the object of `stoker job -o json` in, text of a given width out. A value that was not
measured is shown with its reason, never as zero; the shares of a device's time are rounded so that
they add up to exactly 100.0 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stoker.tui.render import rank_times, rank_troubles, ranks, text, units
from stoker.tui.render.device_causes import CAUSES, percentages, throttles

LABEL = 11
KERNELS_MAX = 12
BAR = 30
BESIDE_BAR = 48
"""The columns of a cause's line around its bar: the name, the share and the time."""
FIGURES = 50
"""The columns of count, total, p50 and p99 behind the name of a kernel."""

HOST_CAUSES = tuple(name for name in CAUSES if name.startswith("host_"))
"""The causes that only thread spans can distinguish."""

Object = Mapping[str, Any]


class Labelled(NamedTuple):
    """A label, and words that are wrapped beside it."""

    label: str
    words: str


class Ink:
    """The colours, the characters and the width that the terminal allows."""

    def __init__(self, colour: bool = False, unicode: bool = True, width: int = text.PAGE) -> None:
        self.colour, self.width = colour, width
        self.full, self.rule, self.dot = ("█", "─", " · ") if unicode else ("#", "-", " | ")
        self.plus_minus, self.cut = ("±", "…") if unicode else ("+-", "...")

    def bold(self, words: str) -> str:
        """The words in bold if colour is on."""
        return f"\x1b[1m{words}\x1b[0m" if self.colour else words

    def tone(self, words: str, state: str) -> str:
        """The words in the colour of a job's state if colour is on."""
        code = {"succeeded": 32, "running": 36, "pending": 33, "starting": 33}.get(state, 31)
        return f"\x1b[{code}m{words}\x1b[0m" if self.colour else words


def render(
    job: Object, *, width: int = text.PAGE, colour: bool = False, unicode: bool = True
) -> str:
    """The report of one job, without a final newline."""
    ink = Ink(colour, unicode, width)
    trace: Object = job.get("trace") or {}
    lines: list[str | Labelled] = [_title(job, ink), ink.rule * width]
    lines += [*_job(job), *_placed(job), *_kernels(job, trace, ink)]
    for device in trace.get("devices") or ():
        lines += _device_time(device, trace.get("absent") or {}, ink)
    lines += [*rank_times.lines(job, width), *ranks.lines(trace, width)]
    lines += [*_hardware(job), *_measuring(trace, ink), *_missing(job, trace), *_files(job)]
    whole = "\n".join(_laid(each, width) if isinstance(each, Labelled) else each for each in lines)
    # Each character is replaced by one of the same width, so that lines still fit.
    return whole if unicode else whole.replace("…", "~").encode("ascii", "replace").decode()


def _laid(line: Labelled, width: int) -> str:
    return f"{line.label:<{LABEL}}{text.wrap(text.clean(line.words), width, LABEL)}"


def _title(job: Object, ink: Ink) -> str:
    name = f' "{text.clean(job["name"])}"' if job.get("name") else ""
    end = ending(job)
    room = max(20, ink.width - len(ink.dot) - text.cells(end))
    head = text.fit(f"stoker  job {job['job']}{name}", room).rstrip()
    return f"{ink.bold(head)}{ink.dot}{ink.tone(end, job['state'])}"


def ending(job: Object) -> str:
    """A job's state and end: `succeeded, exit 0`, `failed, signal 9`, `running`."""
    if job.get("signal") is not None:
        return f"{job['state']}, signal {job['signal']}"
    if job.get("exit_code") is not None:
        return f"{job['state']}, exit {job['exit_code']}"
    return str(job["state"])


def end_and_reason(job: Object) -> str:
    """A job's end with its reason, unless that is what the end says itself: of one that could not
    be started, was cancelled, or was killed for what it used."""
    told, reason = ending(job), str(job.get("reason") or "")
    plain = job.get("exit_code") is not None or reason in told
    return told if plain else f"{told}: {reason}"


def waited(row: Object) -> str:
    """A line about a job that is over, or about a large array, which has one row."""
    array = row.get("array") or {}
    if not (states := array.get("states")):
        return f"job {row['job']}: {end_and_reason(row)}"
    counts = ", ".join(f"{count:,} {state}" for state, count in states.items())
    return f"jobs {array['first']}-{array['first'] + array['size'] - 1}: {counts}"


ASKED = {"gpu": "GPU", "cpu": "CPU device", "any": "device"}
"""The names of a job's `device_kind` in a report."""


def _job(job: Object) -> Iterator[Labelled]:
    spec: Object = job["spec"]
    yield Labelled("command", " ".join(spec["argv"]))
    kind = ASKED[spec.get("device_kind", "gpu")]
    asked = f"asked for {units.share(spec['gpu_milli'])} {kind}"
    if spec.get("tasks", 1) > 1:
        asked += f" for each of {spec['tasks']} tasks"
    who = job["user"] + (f" (runs as uid {job['uid']})" if job.get("uid") is not None else "")
    yield Labelled("owner", text.joined([who, asked, _times(job)], ", "))
    if job["state"] == "pending":
        yield Labelled("reason", f"it waits: stoker explain {job['job']} tells why")
    elif job.get("reason") and job["state"] not in ("starting", "running"):
        yield Labelled("reason", job["reason"])
    for kind, sentence in rank_troubles.sentences(job):
        yield Labelled(f"{kind} rank" if kind else "", sentence)
    if array := job.get("array"):
        last = array["first"] + array["size"] - 1
        yield Labelled("array", f"index {array['index']} of jobs {array['first']}-{last}")
    yield from _follows(job)
    yield from _attempts(job)


def _follows(job: Object) -> Iterator[Labelled]:
    """Yield what it follows: "the success of job 5 (running), the end of array 6-45 (3 left)"."""
    followed: Sequence[Object] = job.get("follows") or ()
    if followed:
        words = (f"the {each['wanted']} of {_followed(each)}" for each in followed)
        yield Labelled("follows", text.joined(words, ", "))


def _followed(each: Object) -> str:
    """Return a job that it follows, or an array as a whole, and how far that is."""
    if not each.get("last"):
        return f"job {each['job']} ({each['state'] or 'forgotten'})"
    now = f"{each['left']:,} left" if each["left"] else each["state"]
    return f"array {each['job']}-{each['last']} ({now})"


def _attempts(job: Object) -> Iterator[Labelled]:
    """A line for each attempt before the present one."""
    for index, attempt in enumerate(job.get("attempts") or ()):
        where = f" on node {attempt['node']}" if attempt.get("node") else ""
        ran = _between(attempt, "started_ns", "ended_ns")
        words = f"attempt {attempt['attempt']}{where}: {attempt['state']}, {attempt['reason']}"
        yield Labelled("" if index else "before", words + (f", ran {ran}" if ran else ""))


def _times(job: Object) -> str:
    times = job["times"]
    waited = _between(times, "submitted_ns", "started_ns")
    ran = _between(times, "started_ns", "ended_ns")
    if waited and job.get("attempts"):  # that time has the earlier attempts in it
        waited = f"attempt {job['attempt']} started {waited} after it was submitted"
    elif waited:
        waited = f"started after {waited}"
    return text.joined([waited, ran and f"ran {ran}"], ", ")


def _between(times: Object, first: str, second: str) -> str:
    return units.between(times.get(first), times.get(second))


def _placed(job: Object) -> Iterator[Labelled]:
    decision = job.get("decision")
    if not decision:
        yield Labelled("placed", "not placed")
        return
    devices = text.joined((_grant(job, share) for share in decision["devices"]), "; ")
    yield Labelled("placed", f"node {decision['node']}, {devices or 'no device asked for'}")
    seen = decision.get("observations") or ()
    basis = f"observations {', '.join(map(str, seen))}" if seen else "no observation used"
    yield Labelled(
        "why",
        f"decision {decision['id']}: {decision['reason']}; "
        f"decided in {units.duration(decision['latency_ns'])}, {basis}",
    )
    if decision.get("numa"):
        yield Labelled("NUMA", decision["numa"])
    yield from _ranks(job)


RANKS_MAX = 16
"""The most ranks of a gang in a report; `-o json` has all."""


def _ranks(job: Object) -> Iterator[Labelled]:
    """A line for each rank of a gang."""
    ranks: Sequence[Object] = job.get("ranks") or ()
    if not ranks:
        return
    meets = f", which meet at {job['master']}" if job.get("master") else ""
    yield Labelled("gang", f"{len(ranks)} ranks on {', '.join(job['nodes'])}{meets}")
    for rank in ranks[:RANKS_MAX]:
        devices = text.joined((_grant(job, share) for share in rank["devices"]), "; ")
        end = f", {rank['reason']}" if rank.get("reason") else ""
        where = f"{rank['node']}{devices and ', '}{devices}"
        yield Labelled(f"  rank {rank['rank']}", f"{ending(rank)} on {where}{end}")
    if len(ranks) > RANKS_MAX:
        yield Labelled("", f"and {len(ranks) - RANKS_MAX} more: stoker job {job['job']} -o json")


def _grant(job: Object, share: Object) -> str:
    name = share.get("id") or f"device {share['index']}"
    amount = "whole" if share["milli"] == units.MILLI else f"{units.share(share['milli'])} of it"
    info = next((d for d in job.get("hardware") or () if d["id"] == name), None)
    return f"{name} ({amount}{f', {device_kind(info)}' if info else ''})"


def device_kind(device: Object) -> str:
    """A device's vendor and model, with a mark if it is simulated, a CPU or only declared."""
    mark = ""
    if device.get("sim"):
        mark = ", SIM: a simulated device"
    elif device.get("kind") == "cpu":
        mark = ", CPU device, no GPU here"
    elif device.get("kind") == "declared":
        mark = ", declared, not probed"
    return f"{device.get('vendor') or 'unknown vendor'} {device.get('model') or ''}".strip() + mark


def _kernels(job: Object, trace: Object, ink: Ink) -> Iterator[str | Labelled]:
    if not trace:
        yield Labelled("kernels", job.get("trace_absent") or "not traced")
        return
    rows = [*(trace.get("kernels") or ()), *(trace.get("copies") or ())]
    names = ink.width - FIGURES
    heading = f"{'kernels and copies':<{names}}{'count':>12}{'total':>14}{'p50':>12}{'p99':>12}"
    yield ink.bold(heading)
    if not rows:
        yield "  none was launched"
    rows.sort(key=lambda row: -row["total_ns"])
    for row in rows[:KERNELS_MAX]:
        yield _kernel(row, ink)
    if len(rows) > KERNELS_MAX:
        rest = rows[KERNELS_MAX:]
        words = f"  {ink.cut} {len(rest)} more"
        count, seen = units.number(sum(row["count"] for row in rest)), rest[0].get("seen", 1.0)
        count = units.at_least(count, seen) if seen < 1 else count
        yield f"{words:<20}{count:>{names - 8}}" + (
            f"{units.duration(sum(row['total_ns'] for row in rest)):>14}"
        )


def _kernel(row: Object, ink: Ink) -> str:
    """A kernel's row; a count that is a lower bound is long, so the name has a line above it."""
    total, name = units.duration(row["total_ns"]), text.clean(row["name"])
    names = ink.width - FIGURES
    if row.get("estimate"):
        total = "~" + total
    count, seen = units.number(row["count"]), row.get("seen", 1.0)
    if seen < 1:
        above = f"  {text.fit(name, ink.width - 2).rstrip()}\n"
        line = f"{above}{units.at_least(count, seen):>{names + 12}}{total:>14}"
    else:
        line = f"  {text.fit(name, names - 3)} {count:>12}{total:>14}"
    line += f"{units.duration(row.get('p50_ns')):>12}{units.duration(row.get('p99_ns')):>12}"
    if row.get("estimate") or row.get("error_ns"):
        line += f"\n    {_estimated(row)}, {ink.plus_minus} {units.duration(row.get('error_ns'))}"
    return line


def _estimated(row: Object) -> str:
    """The basis of a total that does not cover every launch."""
    if row.get("unseen"):
        return f"estimate of ~{units.number(row['count'] + row['unseen'])} launches"
    return "estimate" if row.get("estimate") else "of what was seen"


def _device_time(device: Object, absent: Object, ink: Ink) -> Iterator[str]:
    causes: Mapping[str, int | None] = device["causes"]
    # An absent cause stands as 0 in the sum and must not read as a measured 0.
    blind = HOST_CAUSES if "spans" in absent else ()
    unknown = [
        name
        for name in CAUSES
        if causes.get(name) is None or f"causes.{name}" in absent or name in blind
    ]
    known = {name: causes[name] or 0 for name in CAUSES if name not in unknown or causes.get(name)}
    window = device["window_ns"]
    estimate = ", estimated" if device.get("estimate") else ""
    head = f"time of {text.clean(device['id'])} over {units.duration(window)}{estimate}"
    yield ink.bold(text.fit(head, ink.width).rstrip())
    most = min(BAR, ink.width - BESIDE_BAR)
    shares = percentages(list(known.values()), window)
    for (name, spent), percent in zip(known.items(), shares, strict=True):
        if spent:
            bar = ink.full * max(round(most * spent / window), 0)
            yield f"  {CAUSES[name]:<24}{bar:<{most}}{percent:>8.1f} %{units.duration(spent):>12}"
    if said := throttles(device):
        yield "  " + text.wrap(said, ink.width - 2, 2)
    empty = [CAUSES[name] for name, spent in known.items() if not spent]
    if empty:
        yield "  " + text.wrap("0: " + ", ".join(empty), ink.width - 2, 2)
    if unknown:
        names = ", ".join(CAUSES[name] for name in unknown)
        yield "  " + text.wrap(f"not measured: {names}", ink.width - 2, 2)


def _hardware(job: Object) -> Iterator[Labelled]:
    for device in job.get("hardware") or ():
        power = _sensor(device, "power_w", "W")
        heat = _sensor(device, "temperature_c", "degrees C")
        if power == heat:
            yield Labelled("sensors", f"{device['id']}: power and temperature {power}")
        else:
            yield Labelled("sensors", f"{device['id']}: power {power}, temperature {heat}")


def _sensor(device: Object, field: str, unit: str) -> str:
    value = device.get(field)
    if value is not None:
        return f"{value:.1f} {unit}"
    return f"not available ({(device.get('absent') or {}).get(field) or 'no sample yet'})"


def _measuring(trace: Object, ink: Ink) -> Iterator[Labelled]:
    if not trace:
        return
    yield Labelled("lost", _loss(trace.get("loss") or {}))
    if clock := trace.get("clock"):
        yield Labelled("clock", _clock(clock, ink))
    if clocks := [row for row in trace.get("clocks") or () if row.get("error_ns") is not None]:
        yield Labelled("clocks", ", ".join(_table_row(row, ink) for row in clocks))
    if cost := trace.get("cost"):
        yield Labelled("cost", _cost(cost, trace.get("mode") or ""))


def _loss(loss: Mapping[str, int]) -> str:
    """The loss counters that are not 0; if all are, the number of counters, as a finding."""
    if not loss:
        return "not counted"
    lost = [f"{name} {units.number(count)}" for name, count in loss.items() if count]
    if not lost:
        return f"0 ({len(loss)} counters, one at each place where something could be lost)"
    return f"{units.number(sum(loss.values()))} in all: {', '.join(lost)}"


def _clock(clock: Object, ink: Ink) -> str:
    error = clock.get("error_ns")
    words = f"{clock.get('source') or 'unknown source'}, aligned to CLOCK_MONOTONIC "
    words += f"{ink.plus_minus} {units.duration(error)}" if error is not None else "error unknown"
    if clock.get("drift_ppb") is not None:
        words += f", drift {clock['drift_ppb']:g} ppb"
    return words


def _table_row(row: Object, ink: Ink) -> str:
    drift = f" {row['drift_ppb']:+g} ppb" if row.get("drift_ppb") is not None else ""
    return f"{row['clock']} {ink.plus_minus}{units.duration(row['error_ns'])}{drift}"


def _cost(cost: Object, mode: str) -> str:
    share = cost.get("share")
    words = f"tracing ({mode}) took {units.duration(cost.get('tracer_ns'))} in all"
    if cost.get("ns_per_launch") is not None:
        words += f", {cost['ns_per_launch']:.0f} ns a launch"
    if share is not None:
        words += f", {share * 100:.3g} % of the run"
    return f"{words}, {units.number(cost.get('launches'))} launches"


def _missing(job: Object, trace: Object) -> Iterator[Labelled]:
    """The lines that name each thing not measured of this job, and count what its node lacks."""
    by_reason: dict[str, list[str]] = {}
    for what, why in (trace.get("absent") or {}).items():
        by_reason.setdefault(str(why), []).append(what)
    sentences = [f"{', '.join(what)}: {why}" for why, what in by_reason.items()]
    node = (job.get("decision") or {}).get("node", "")
    if lacks := len(job.get("missing") or ()):
        sources = "1 source" if lacks == 1 else f"{lacks} sources"
        sentences.append(f"{sources} on node {node}; the job's JSON names each with its reason")
    for index, sentence in enumerate(sentences or ["nothing on this machine"]):
        yield Labelled("" if index else "missing", sentence)


def _files(job: Object) -> Iterator[Labelled]:
    if job.get("perfetto"):
        yield Labelled("timeline", f"{job['perfetto']} (open it at https://ui.perfetto.dev)")
