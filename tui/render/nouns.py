# SPDX-License-Identifier: Apache-2.0
"""The columns of each kind of row: jobs, nodes, queues, devices, wasted device time.

Pure. A column that has no value in a row shows `-`; the forms that show them are in `tables.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker.native.row_forms import short_id
from stoker.tui.render import units
from stoker.tui.render.columns import Column, Noun, Row, Says

ACCEPTED = "accepted"
"""The reason of a job about which nothing was decided yet. Only so many rows of a list tell why a
job waits; it says nothing of the others."""


def at(row: Row, path: str) -> Any:
    """The value at a dotted path such as `times.started_ns`, or None."""
    value: Any = row
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def field(path: str, absent: str = "-") -> Says:
    """A column text: the field at a path."""
    return lambda row, now: absent if at(row, path) in (None, "") else str(at(row, path))


def through(path: str, form: Callable[[Any], str]) -> Says:
    """A column text: the field at a path, formatted by a function such as `units.size`."""
    return lambda row, now: form(at(row, path))


def _of_one(says: Says) -> Says:
    """A column text that is true of one job: `-` in the row of an array."""
    return lambda row, now: "-" if at(row, "array.states") else says(row, now)


def _job(row: Row, now: int) -> str:
    """The number of a job, or those of an array as every verb takes them."""
    array = row.get("array") or {}
    if not array.get("states"):
        return str(row["job"])
    return f"{array['first']}-{array['first'] + array['size'] - 1}"


def _job_state(row: Row, now: int) -> str:
    """The state of a job; of an array the first of its states, with the number of jobs in it."""
    state, states = row["state"], at(row, "array.states")
    return units.counted({state: states[state]}) if states else str(state)


def _age(row: Row, now: int) -> str:
    return units.age(at(row, "times.submitted_ns"), now)


def _took(row: Row, now: int) -> str:
    started, ended = at(row, "times.started_ns"), at(row, "times.ended_ns")
    return units.duration(max(0, (ended or now) - started)) if started else "-"


def _placed(form: Callable[[str], str]) -> Says:
    """A column text: the node of a job, and its devices with their ids in a form.

    SIM comes first, because the end of the text is what a narrow table cuts.
    """

    def says(row: Row, now: int) -> str:
        decision = row.get("decision")
        if not decision:
            return "-"
        if nodes := row.get("nodes"):
            return f"{row['spec']['tasks']} ranks on {','.join(nodes)}"
        shares = ",".join(_share(device, form) for device in decision["devices"])
        sim = "SIM " if any(d.get("sim") for d in decision["devices"]) else ""
        return f"{sim}{decision['node']}/{shares}" if shares else str(decision["node"])

    return says


def _share(device: Row, form: Callable[[str], str]) -> str:
    """A device by its id, or by its index before its id is known, and the share of it."""
    part = "" if device["milli"] == units.MILLI else f":{units.share(device['milli'])}"
    return form(str(device.get("id") or device["index"])) + part


def _gpus(row: Row, now: int) -> str:
    """The devices of all tasks of a job together."""
    milli = at(row, "spec.gpu_milli")
    return units.share(None if milli is None else milli * (at(row, "spec.tasks") or 1))


def _array(row: Row, now: int) -> str:
    array = row.get("array")
    if array and array.get("states"):
        return f"{array['size']} jobs"
    return f"{array['first']}[{array['index']}]" if array else "-"


def _words(key: str) -> Says:
    return lambda row, now: ",".join(row.get(key) or ()) or "-"


def _reserved(row: Row, now: int) -> str:
    kept = row.get("reserved")
    if not kept:
        return "-"
    if kept["from_ns"] > now:
        return f"{kept['queue']} in {units.duration(kept['from_ns'] - now)}"
    return f"{kept['queue']} for {units.duration(max(0, kept['until_ns'] - now))}"


def _limit(row: Row, now: int) -> str:
    quotas = row.get("quotas") or ()
    return "; ".join(_quota(quota) for quota in quotas) or "-"


def _quota(quota: Row) -> str:
    limit = "no limit" if quota["limit_milli"] is None else units.share(quota["limit_milli"])
    words = f"{units.share(quota['used_milli'])} of {limit}"
    if quota["guaranteed_milli"]:
        words += f", {units.share(quota['guaranteed_milli'])} guaranteed"
    return f"{words} ({quota['model']})" if quota["model"] else words


def _exit(row: Row, now: int) -> str:
    if row.get("signal") is not None:
        return f"signal {row['signal']}"
    return "-" if row.get("exit_code") is None else str(row["exit_code"])


def _job_name(row: Row, now: int) -> str:
    """The name of a job, or else the last part of its program's path."""
    argv = at(row, "spec.argv") or ("",)
    return str(row.get("name") or str(argv[0]).rpartition("/")[2] or "-")


def _why(row: Row, now: int) -> str:
    """The reason why a job waits or ended; what bounds one that runs, and the ranks that keep
    others waiting. For an array, the jobs in other states than STATE tells, and why one waits."""
    told = [f"{each['kind']} rank {each['rank']}" for each in row.get("troubles") or ()]
    if states := at(row, "array.states"):
        told.append(units.counted({s: n for s, n in states.items() if s != row["state"]}))
        return "; ".join(filter(None, (*told, row.get("waits")))) or "-"
    if row.get("state") == "pending" and not row.get("waits") and row.get("reason") == ACCEPTED:
        told.append(f"stoker explain {row['job']} tells why")
    elif row.get("state") != "running":
        told.append(str(row.get("waits") or row.get("reason") or ""))
    elif row.get("verdict"):
        told.append(str(row["verdict"]["text"]))
    elif at(row, "spec.gpu_milli") and row.get("verdict_absent"):
        told.append(f"not known: {row['verdict_absent']}")
    return "; ".join(filter(None, told)) or "-"


def _reading(key: str, unit: str, scale: float = 1) -> Says:
    return lambda row, now: "-" if row.get(key) is None else f"{row[key] * scale:.0f} {unit}"


def _read(name: str, unit: str, scale: float = 1) -> Says:
    def says(row: Row, now: int) -> str:
        value = at(row, f"fields.{name}.value")
        return f"{value * scale:.0f} {unit}" if isinstance(value, int | float) else "-"

    return says


def _why_not(row: Row, now: int) -> str:
    """The reasons why a device gets no jobs, or the warning of one that does."""
    reasons = [str(row["unavailable"])] if row.get("unavailable") else []
    if row.get("cordoned"):
        reasons.append(f"cordoned: {row['cordoned']}")
    if row.get("warning") and not reasons:
        reasons.append(f"takes jobs; warning: {row['warning']}")
    return "; ".join(reasons)


def _state(row: Row, now: int) -> str:
    """The state of a device: `sick` or `cordoned` of one that its driver alone finds well."""
    state = str(row.get("state") or "-")
    if state == "ok" and row.get("unavailable"):
        return str(row["unavailable"]).partition(":")[0]
    return "cordoned" if state == "ok" and row.get("cordoned") else state


def _used(row: Row, now: int) -> str:
    return units.size(at(row, "fields.memory_used_bytes.value"))


def _throttle(row: Row, now: int) -> str:
    return ", ".join(at(row, "fields.throttle.value") or ()) or "-"


def _word(name: str) -> Says:
    """A word of a row, or "-" where it is empty."""
    return lambda row, now: str(row.get(name) or "-")


def _idle_share(row: Row, now: int) -> str:
    held_ns, idle_ns = row["held_ns"], row["idle_ns"]
    return units.percent(idle_ns / held_ns) if held_ns else "-"


def _kind(row: Row, now: int) -> str:
    return "SIM" if row.get("sim") else str(row.get("kind") or "-")


def _free(row: Row, now: int) -> str:
    if row.get("unavailable") or row.get("cordoned"):
        return "no"
    return units.share(units.MILLI - (row.get("granted_milli") or 0))


TIMELINES = Noun("timelines", "file", ())
TRACINGS = Noun("tracings", "job", ())
RECORDINGS = Noun("recordings", "file", ())
CLUSTERS = Noun("clusters", "cluster", ())
SERVERS = Noun("servers", "server", ())
AUDITS = Noun("audits", "cluster", ())
TOPOLOGIES = Noun("topologies", "node", ())
"""The kinds of which `table` shows a page of text, made by its verb."""
JOBS = Noun(
    "jobs",
    "job",
    (
        Column("JOB", _job, right=True),
        Column("NAME", _job_name, least=8),
        Column("USER", field("user"), leaves=4),
        Column("STATE", _job_state),
        Column("GPUS", _gpus, right=True, leaves=3),
        Column("AGE", _age, right=True, leaves=2),
        Column("TOOK", _of_one(_took), right=True, leaves=5),
        Column("EXIT", _of_one(_exit), right=True, leaves=1),
        Column(
            "WHERE", _of_one(_placed(str)), least=12, leaves=6, brief=_of_one(_placed(short_id))
        ),
        Column("QUEUE", field("spec.queue"), wide=True),
        Column("ATTEMPT", _of_one(field("attempt")), right=True, wide=True),
        Column("ARRAY", _array, wide=True),
        Column("COMMAND", lambda row, now: " ".join(at(row, "spec.argv") or ()), wide=True),
        Column("REASON", _why, least=28),
    ),
)
NODES = Noun(
    "nodes",
    "node",
    (
        Column("NODE", field("node"), least=12),
        Column("STATE", field("state")),
        Column("DEVICES", field("devices"), right=True),
        Column("CPUS", through("cpu_milli", units.share), right=True),
        Column("MEMORY", through("memory_bytes", units.size), right=True),
        Column("JOBS", field("jobs"), right=True),
        Column("LOAD", through("load_milli", units.share), right=True),
        Column("LABELS", _words("labels"), wide=True),
        Column("TAINTS", _words("taints"), wide=True),
        Column("RESERVED", _reserved, wide=True),
        Column("DRAINED", field("drained"), wide=True),
        Column("EVICTED", field("evicted"), wide=True),
        Column("BOOT", field("boot_id"), wide=True),
        Column("MISSING", lambda row, now: "; ".join(row.get("missing") or ()) or "-", wide=True),
    ),
)
QUEUES = Noun(
    "queues",
    "queue",
    (
        Column("QUEUE", lambda row, now: "  " * (row["depth"] - 1) + str(row["queue"])),
        Column("ORDER", field("order")),
        Column("PLACEMENT", field("placement"), least=9),
        Column("WEIGHT", field("weight"), right=True, leaves=1),
        Column("WAITING", field("pending"), right=True),
        Column("JOBS", field("live"), right=True),
        Column("GPUS", through("used_milli", units.share), right=True),
        Column("USED", through("device_ns", units.duration), right=True),
        Column("QUOTA", _limit, least=12),
        Column("PARENT", field("parent"), wide=True),
        Column("CPUS", through("cpu_used_milli", units.share), right=True, wide=True),
        Column("MEMORY", through("memory_used_bytes", units.size), right=True, wide=True),
    ),
)
DEVICES = Noun(
    "devices",
    "id",
    (
        Column("DEVICE", field("id"), brief=lambda row, now: short_id(str(row["id"]))),
        Column("NODE:INDEX", lambda row, now: f"{row['node']}:{row['index']}", leaves=2),
        Column("KIND", _kind),
        Column("MODEL", field("model"), least=10),
        Column("MEMORY", through("memory_bytes", units.size), right=True, leaves=1),
        Column("FREE", _free, right=True),
        Column(
            "JOBS", lambda row, now: ",".join(map(str, row.get("jobs") or ())) or "-", wide=True
        ),
        Column("BUSY", _reading("busy_ratio", "%", 100), right=True),
        Column("POWER", _reading("power_w", "W"), right=True),
        Column("TEMP", _reading("temperature_c", "C"), right=True),
        Column("LIMIT", _read("power_limit_w", "W"), right=True, wide=True),
        Column("CLOCK", _read("clock_hz", "MHz", 1e-6), right=True, wide=True),
        Column("USED", _used, right=True, wide=True),
        Column("THROTTLE", _throttle, wide=True),
        Column("STATE", _state, wide=True),
        Column("VENDOR", field("vendor"), wide=True),
        Column("ARCH", _word("arch"), wide=True),
        Column("COMPUTE", _word("compute"), wide=True),
        Column("DRIVER", _word("driver"), wide=True),
        Column("PROFILE", _word("profile"), wide=True),
        Column("WHY NOT", _why_not, least=22),
    ),
)
TRAIL = Noun(
    "changes",
    "index",
    (
        Column("ENTRY", field("index"), right=True),
        Column("TIME", lambda row, now: units.moment(row["t_ns"]), leaves=2),
        Column("USER", field("user")),
        Column("WHAT", field("what")),
        Column("ABOUT", field("about"), least=8),
        Column("DETAIL", field("detail"), least=12),
    ),
)
WASTE = Noun(
    "jobs",
    "job",
    (
        Column("JOB", field("job"), right=True),
        Column("NAME", field("name"), least=8),
        Column("USER", field("user"), leaves=2),
        Column("STATE", field("state"), leaves=1),
        Column("GPUS", through("gpu_milli", units.share), right=True),
        Column("HELD", through("held_ns", units.device_hours), right=True),
        Column("IDLE", through("idle_ns", units.device_hours), right=True),
        Column("OF IT", _idle_share, right=True),
        Column("BOTTLENECK", lambda row, now: str(row["bottleneck"] or row["absent"]), least=14),
        Column("END IT", _word("command")),
    ),
)
WASTE_USERS = Noun(
    "users",
    "user",
    (
        Column("USER", field("user")),
        Column("JOBS", field("jobs"), right=True),
        Column("HELD", through("held_ns", units.device_hours), right=True),
        Column("IDLE", through("idle_ns", units.device_hours), right=True),
        Column("OF IT", _idle_share, right=True),
        Column("NOT KNOWN", field("unknown"), right=True),
    ),
)
