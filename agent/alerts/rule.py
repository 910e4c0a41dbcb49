# SPDX-License-Identifier: Apache-2.0
"""The rules of alerts: `[[alert]]` and `[alerts]` of config.toml, and the check of what they say.

Invariant: a rule that passed `check` names a metric that this version exports, with attributes that
its series have, and can both fire and be resolved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from stoker.native.errors import BadRequest
from stoker.native.setting import mark
from stoker.probes.otlp.metric_names import NAMES, Name

RULES_MAX = 64
NAME_MAX = 64
HEADERS_MAX = 16
INTERVAL_MIN_S = 0.1
TIMEOUT_MAX_S = 60.0
JOB = "stoker.job.id"
"""The attribute of a series that names its job."""

Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
_METRICS = {each.name: each for each in NAMES}


class AlertRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[[alert]]` of config.toml: a threshold for each series of one metric."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX)]
    """Name of the rule, which alerts have."""
    metric: str
    """Name of a metric, as in the table of the metrics; not a histogram."""
    where: dict[str, str] = {}
    """Attributes that a series must have; `*` in a value stands for anything."""
    above: float | None = None
    """Fires while the value is higher, in the metric's unit."""
    below: float | None = None
    """Fires while the value is lower; a rule has one of the two."""
    clear: float | None = None
    """Resolved once the value is no further than this; unset: the threshold itself."""
    per_second: bool = False
    """Judges what the value grew by in a second, for counters, not the value."""
    for_s: Seconds = 0.0
    """Seconds for which the value must be beyond the threshold before the alert fires."""
    clear_for_s: Seconds = 0.0
    """Seconds for which it must be back before the alert is resolved."""
    text: str = ""
    """Advice for whoever is told."""
    action: Literal["", "cancel"] = ""
    """With `cancel`, the job of a series is cancelled when its alert fires."""


class AlertSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[alerts]` of config.toml: how often rules are judged, and who is told."""

    interval_s: float = 5.0
    """Seconds between two judgements."""
    webhook: Annotated[str, mark(secret=True)] = ""
    """A URL that gets each change as JSON by POST; redirects are not followed."""
    webhook_headers: Annotated[dict[str, str], mark(secret=True)] = {}
    """Headers of these requests."""
    timeout_s: float = 5.0
    """Seconds for one try."""
    otel_logs: bool = False
    """Each change is a log record for the collector of `[otlp]`, under /v1/logs."""


def check(rules: Sequence[AlertRule]) -> None:
    """Raise BadRequest for the first rule that makes no sense."""
    if len(rules) > RULES_MAX:
        raise BadRequest(f"there are {len(rules)} alerts, at most {RULES_MAX}")
    names: set[str] = set()
    for number, rule in enumerate(rules, 1):
        why = f"name {rule.name!r} is another alert's" if rule.name in names else fault(rule)
        if why:
            raise BadRequest(f"alert[{number}].{why}")
        names.add(rule.name)


def fault(rule: AlertRule) -> str:
    """Return a setting of a rule with what is wrong with it; empty if nothing is."""
    metric = _METRICS.get(rule.metric)
    if metric is None:
        return f"metric is {rule.metric!r}: {_near(rule.metric, _METRICS)}"
    if metric.kind == "histogram":
        return f"metric is {rule.metric!r}: a histogram has no one value"
    for name in rule.where:
        if name not in metric.attributes:
            return f"where has {name!r}: {_near(name, metric.attributes)}"
    if rule.action and JOB not in metric.attributes:
        return f"action is {rule.action!r}: series of {metric.name} are not of jobs"
    return _wrong_threshold(rule, metric)


def _wrong_threshold(rule: AlertRule, metric: Name) -> str:
    if (rule.above is None) == (rule.below is None):
        return "above or below must be given, and only one of them"
    given = (rule.above, rule.below, rule.clear)
    if not all(math.isfinite(each) for each in given if each is not None):
        return "above, below and clear must be finite"
    if rule.above is not None and rule.clear is not None and rule.clear > rule.above:
        return f"clear is {rule.clear:g}: at most {rule.above:g}, which is above"
    if rule.below is not None and rule.clear is not None and rule.clear < rule.below:
        return f"clear is {rule.clear:g}: at least {rule.below:g}, which is below"
    if rule.per_second and metric.kind != "sum":
        return f"per_second is for counters: {metric.name} is none"
    return ""


def _near(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # only a wrong name needs it

    found = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"perhaps {found[0]} is meant" if found else f"known are {', '.join(known)}"


def check_settings(settings: AlertSettings) -> None:
    """Raise BadRequest for an interval or a webhook that cannot be."""
    if not settings.interval_s >= INTERVAL_MIN_S:
        raise BadRequest(f"alerts.interval_s is {settings.interval_s:g}, at least {INTERVAL_MIN_S}")
    if not 0 < settings.timeout_s <= TIMEOUT_MAX_S:
        raise BadRequest(f"alerts.timeout_s is {settings.timeout_s:g}, more than 0 and at most 60")
    if len(settings.webhook_headers) > HEADERS_MAX:
        raise BadRequest(f"alerts.webhook_headers has more than {HEADERS_MAX} entries")
    if settings.webhook:
        _check_url(settings.webhook)


def _check_url(text: str) -> None:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), 0
    if url.scheme not in ("http", "https") or not url.hostname or port == 0 or url.username:
        raise BadRequest("alerts.webhook is not http(s)://host[:port]/path, without a user")


def unit(rule: AlertRule) -> str:
    """Return the unit of what a rule judges; empty for a ratio or a count."""
    found = _METRICS[rule.metric].unit
    word = "" if found == "1" or found.startswith("{") else found
    return f"{word}/s" if rule.per_second else word
