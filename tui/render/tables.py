# SPDX-License-Identifier: Apache-2.0
"""Rows of every read verb in the six output forms: table, wide, json, jsonl, csv, name.

Pure: rows in, text out. `json`, `jsonl` and `csv` hold SI numbers under the names of the schema;
only `table` and `wide` are formatted for reading.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from stoker.tui.render import text, units
from stoker.tui.render.columns import CELL_MAX, Column, Row, Says, joined, lay_out, short_id

SCHEMA = "stoker/v1"
_NESTED = ("times", "spec", "usage", "decision")
Output = Literal["table", "wide", "json", "jsonl", "csv", "name"]
OUTPUTS: tuple[Output, ...] = ("table", "wide", "json", "jsonl", "csv", "name")


class Noun(NamedTuple):
    """A kind of row: its plural in JSON, the field that names a row, its columns."""

    plural: str
    name: str
    columns: tuple[Column, ...]


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
    """The reason why a job waits or ended, or the ranks that keep others waiting."""
    told = [f"{each['kind']} rank {each['rank']}" for each in row.get("troubles") or ()]
    if row.get("state") != "running":
        told.append(str(row.get("waits") or row.get("reason") or ""))
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


def _used(row: Row, now: int) -> str:
    return units.size(at(row, "fields.memory_used_bytes.value"))


def _throttle(row: Row, now: int) -> str:
    return ", ".join(at(row, "fields.throttle.value") or ()) or "-"


def _word(name: str) -> Says:
    """A word of a row, or "-" where it is empty."""
    return lambda row, now: str(row.get(name) or "-")


def _kind(row: Row, now: int) -> str:
    return "SIM" if row.get("sim") else str(row.get("kind") or "-")


def _free(row: Row, now: int) -> str:
    if row.get("unavailable") or row.get("cordoned"):
        return "no"
    return units.share(units.MILLI - (row.get("granted_milli") or 0))


JOBS = Noun(
    "jobs",
    "job",
    (
        Column("JOB", field("job"), right=True),
        Column("NAME", _job_name, least=8),
        Column("USER", field("user"), leaves=4),
        Column("STATE", field("state")),
        Column("GPUS", _gpus, right=True, leaves=3),
        Column("AGE", _age, right=True, leaves=2),
        Column("TOOK", _took, right=True),
        Column("EXIT", _exit, right=True, leaves=1),
        Column("WHERE", _placed(str), least=12, brief=_placed(short_id)),
        Column("QUEUE", field("spec.queue"), wide=True),
        Column("ATTEMPT", field("attempt"), right=True, wide=True),
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
        Column("STATE", field("state"), wide=True),
        Column("VENDOR", field("vendor"), wide=True),
        Column("ARCH", _word("arch"), wide=True),
        Column("COMPUTE", _word("compute"), wide=True),
        Column("DRIVER", _word("driver"), wide=True),
        Column("PROFILE", _word("profile"), wide=True),
        Column("WHY NOT", _why_not, least=14),
    ),
)


def render(
    noun: Noun,
    rows: Sequence[Row],
    output: Output,
    *,
    now_ns: int = 0,
    columns: int | None = None,
    colour: bool = False,
) -> str:
    """The rows in one of the six forms, each line ended by a newline; no rows may give no text.

    `columns` is the width that `table` shall fit; None gives each column the room it needs.
    """
    if output == "json":
        return _json({"schema": SCHEMA, noun.plural: list(rows)}, indent=True)
    if output == "jsonl":
        return "".join(_json({"schema": SCHEMA, **row}) for row in rows)
    if output == "csv":
        return _csv(rows)
    if output == "name":
        return "".join(f"{text.clean(row[noun.name])}\n" for row in rows)
    wide = output == "wide"
    return _table(noun, rows, wide=wide, now_ns=now_ns, columns=columns, colour=colour)


def render_one(value: object) -> str:
    """One object as `-o json` prints it."""
    return _json(value, indent=True)


def _json(value: object, indent: bool = False) -> str:
    import msgspec  # imported late: every verb loads this file, and `--help` must be quick

    data = msgspec.json.encode(value)
    return (msgspec.json.format(data, indent=2) if indent else data).decode() + "\n"


def _csv(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    out = io.StringIO()
    rows = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_csv_cell(row.get(name)) for name in names])
    return out.getvalue()


def _flat(row: Row, prefix: str = "") -> dict[str, Any]:
    """The row with nested records as dotted columns such as `times.started_ns`."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        nested = isinstance(value, Mapping) and value and key in _NESTED
        flat |= _flat(value, f"{prefix}{key}.") if nested else {prefix + key: value}
    return flat


def _csv_cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, list | tuple | dict):
        return _json(value).rstrip("\n")
    if not isinstance(value, str):
        return value
    # A spreadsheet evaluates text that starts like a formula (OWASP, "CSV injection").
    formula = value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return ("'" if formula else "") + text.clean(value)


def _table(
    noun: Noun,
    rows: Sequence[Row],
    *,
    wide: bool,
    now_ns: int,
    columns: int | None,
    colour: bool,
) -> str:
    if not rows:
        return f"no {noun.plural}\n"
    shown = [c for c in noun.columns if wide or not c.wide]
    cell_max = 10_000 if wide else CELL_MAX
    lines = [[_cell(c.words(row, now_ns, wide=wide), cell_max) for c in shown] for row in rows]
    stay, widths = lay_out(shown, lines, None if wide else columns)
    kept = [shown[i] for i in stay]
    heading = joined([c.title for c in kept], kept, widths)
    body = (joined([line[i] for i in stay], kept, widths) for line in lines)
    top = f"\x1b[1m{heading}\x1b[0m" if colour else heading
    return "\n".join([top, *body]) + "\n"


def _cell(words: str, cell_max: int) -> str:
    words = text.clean(words)
    return words if text.cells(words) <= cell_max else text.fit(words, cell_max).rstrip()
