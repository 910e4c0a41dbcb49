# SPDX-License-Identifier: Apache-2.0
"""The explanation of a job for a user: why it waits, runs or ended, and what would help.

Pure. Owns what a user reads about other users' jobs: that they are in the way, but no action on
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from stoker.mesh.replica import followed_jobs
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.works import reason_text
from stoker.mesh.replica.works.device_conditions import preference_words
from stoker.mesh.replica.works.fence import FENCE_ID
from stoker.mesh.server import (
    array_wait_words,
    cluster_views,
    decision_evidence,
    device_holders,
    end_remedies,
    expected_start,
    job_views,
    link_words,
    silent_nodes,
    speed_words,
)
from stoker.mesh.wire import schema
from stoker.scheduler import figures
from stoker.scheduler.book import Job
from stoker.scheduler.effects import Explained
from stoker.scheduler.followed_ranges import JobRange, range_of
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import ENDED, JobSpec
from stoker.scheduler.policies import Order
from stoker.scheduler.reasons import Reason, reason_of
from stoker.scheduler.remedies import Remedy

LINES_MAX = 64
CHAIN_MAX = 8
"""The most jobs of a chain that an explanation names."""
ACTIONS_MAX = 6
NODES_NAMED = 8
"""The most nodes that a reason names which take no jobs."""
_HIDDEN = frozenset({Reason.PLACED_ON, Reason.DECIDED_IN, Reason.OBSERVED, Reason.ENDED})
"""Reasons that the summary, or the decision beside it, shows already."""
_ABOUT_A_JOB = frozenset({Reason.HOLDS, Reason.BEHIND, Reason.HELD_BY_ORDER, Reason.WAITS_FOR_JOB})
"""Reasons whose `job` is another job."""
_ABOUT_FOLLOWED = frozenset({Reason.WAITS_FOR_JOB, Reason.AFTER_FAILED})
"""Reasons whose `job` may be an array that is followed as a whole."""
_NO_CAUSE = _ABOUT_A_JOB | {Reason.EXPECTED_START, Reason.DEVICES_UNAVAILABLE, Reason.USER_TURN}
"""Reasons that do not say what a job in the way waits for."""
_PLACED = frozenset(reason for reason in Reason if 200 <= reason < 300)
"""Reasons for a placement."""
_SAID_BY_REASON = frozenset(
    {
        (Remedy.WAIT, Reason.WAITS_FOR_JOB),
        (Remedy.WAIT, Reason.WAITS_UNTIL),
    }
)
"""Remedies that the reason's own text contains."""
AT_ONCE_NS = 1_000_000
_SHIM_KILLED = "its job shim was killed, and the job with it"
_PLAIN = {"shim killed": _SHIM_KILLED, "keeper killed": _SHIM_KILLED}
"""Sentences for reasons that nodes report in short form; older logs say keeper."""


def explain_view(
    replica: Replica,
    job: Job,
    real_ns: int,
    rank: int = 0,
    user_of: Callable[[int], str] = "uid {}".format,
    *,
    now_ns: int | None = None,
) -> schema.ExplainView:
    """Return the core's ranked reasons and the actions that would help; of a gang the decision and
    the evidence are those of one rank. `user_of`: the words for a uid. `now_ns`: CLOCK_BOOTTIME,
    without which no node is called silent."""
    view = _Explanation(replica, job, real_ns, user_of).view(rank)
    if now_ns is None:
        return view
    silent = tuple(silent_nodes.lines(replica, job, now_ns))
    return msgspec.structs.replace(view, reasons=(*silent, *view.reasons)) if silent else view


def why_it_waits(replica: Replica, job: Job, real_ns: int) -> str:
    """Return the first reason why a pending job waits, as a list shows it."""
    return _Explanation(replica, job, real_ns).first()


class _Explanation:
    def __init__(
        self,
        replica: Replica,
        job: Job,
        real_ns: int,
        user_of: Callable[[int], str] = "uid {}".format,
    ) -> None:
        self._replica, self._job, self._now_ns = replica, job, real_ns
        self._user_of = user_of
        self._book = replica.state.book
        lines = replica.state.core.explain(job.job)[:LINES_MAX]
        self._lines = device_holders.in_the_way(replica.state, job, lines)
        self._details: dict[int, Callable[[Explained, str], str]] = {
            Reason.DEVICE_UNAVAILABLE: self._unavailable,
            Reason.DEVICES_UNAVAILABLE: self._unavailable,
            Reason.NODES_DOWN: self._down,
            Reason.WAITS_UNTIL: self._paused,
            Reason.HELD_BY_ORDER: self._held_by_order,
            Reason.WAITS_FOR_JOB: self._waits_for,
            Reason.AFTER_FAILED: self._unmet,
            Reason.PREFERENCES_MET: self._preferred,
        }
        self._makers: dict[Remedy, Callable[[Explained], str]] = {
            Remedy.CANCEL_HOLDER: self._cancel_holder,
            Remedy.CHANGE_ORDER: self._change_order,
            Remedy.SAY_ESTIMATE: self._say_estimate,
            Remedy.BRING_NODES_UP: self._undrain,
            Remedy.FREE_DEVICES: self._uncordon,
            Remedy.CHANGE_KIND: self._change_kind,
            Remedy.TOLERATE_TAINT: self._tolerate,
        }

    def first(self) -> str:
        line = next((line for line in self._lines if line.reason not in _HIDDEN), None)
        if line is None:
            return array_wait_words.waits(self._book, self._job)
        return self._text(line)

    def view(self, rank: int) -> schema.ExplainView:
        decision = self._job.ranks[rank].decision if self._job.ranks else self._job.decision
        paused = any(line.reason == Reason.WAITS_UNTIL for line in self._lines)
        hidden = _HIDDEN | ({Reason.EXPECTED_START} if paused else set())
        shown = [line for line in self._lines if line.reason not in hidden]
        core = self._replica.state.core
        links = link_words.link_lines(self._replica.state, self._job)
        speeds = speed_words.speed_lines(core, self._book, self._job, self._lines)
        reasons = (*map(self._reason, shown), *links, *speeds)
        reasons = reasons or array_wait_words.reasons(self._book, self._job)
        return schema.ExplainView(
            job=self._job.job,
            state=self._job.state,
            summary=self._summary(reasons),
            reasons=reasons,
            actions=tuple(dict.fromkeys(self._actions(shown)))[:ACTIONS_MAX],
            decision=job_views.decision_view(self._replica, self._job, decision),
            evidence=decision_evidence.evidence_view(self._replica, self._job, self._lines, rank),
            rank=rank,
            troubles=tuple(job_views.troubles(self._replica, self._job)),
            expected=self._expected(),
            attempts=tuple(map(job_views.attempt_view, self._job.attempts)),
        )

    def _expected(self) -> schema.ExpectedStart | None:
        if self._job.state != "pending":
            return None
        return expected_start.expected_start(self._replica, self._job, self._lines, self._now_ns)

    def _reason(self, line: Explained) -> schema.ReasonView:
        code = reason_of(line.reason)
        found = range_of(line.job) if line.reason in _ABOUT_FOLLOWED else None
        job = line.job if found is None else found.first
        return schema.ReasonView(
            code=code.name.lower() if isinstance(code, Reason) else str(code),
            text=self._text(line),
            node=self._node(line.node),
            remedies=tuple(line.remedies),
            data={"asked": line.asked, "have": line.have, "count": line.number, "job": job},
        )

    # --- reasons ----------------------------------------------------------------------------------

    def _text(self, line: Explained) -> str:
        node = self._node(line.node)
        text = reason_text.words(
            self._book,
            line.reason,
            asked=line.asked,
            have=line.have,
            job=line.job,
            node=node,
            count=line.number,
            detail=line.detail,
            whose=self._whose(line) if line.reason in _ABOUT_A_JOB else "",
            now_ns=self._now_ns,
        )
        if line.reason in _PLACED:
            return f"placed on node {node}: {text}"
        if line.reason == Reason.WAITED:
            return self._waited(line, text)
        detail = self._details.get(line.reason)
        return detail(line, text) if detail is not None else text

    def _node(self, number: int) -> str:
        """Return a node's name; one that was removed has it in the job's decisions alone."""
        job = self._job
        known = self._replica.state.node_name(number) if number else ""
        decisions = [job.decision, *(rank.decision for rank in job.ranks)]
        named = (each.node for each in decisions if each and name_id(each.node) == number)
        return next(named, known)

    def _waited(self, line: Explained, text: str) -> str:
        """Return how long the present attempt waited; the core counts from the submission on, with
        earlier attempts."""
        placed_ns = self._job.placed_ns
        if self._job.attempts and placed_ns is not None:
            last = self._job.attempts[-1]
            wait = reason_text.span(max(0, placed_ns - last.ended_ns))
            return f"placed {wait} after attempt {last.attempt} had ended"
        return "it did not have to wait" if line.have < AT_ONCE_NS else text

    def _unavailable(self, line: Explained, text: str) -> str:
        node = self._replica.state.node_name(line.node)
        return text + cluster_views.why_unavailable(self._book, node, line.asked)

    def _paused(self, line: Explained, text: str) -> str:
        attempts = self._job.attempts
        return f"{text}: the last one ended with {attempts[-1].reason}" if attempts else text

    def _waits_for(self, line: Explained, text: str) -> str:
        number, spec = line.job, self._job.decoded_spec()
        if (found := range_of(number)) is not None and found.size > 1:
            return self._waits_for_array(found, spec)
        if found is not None:
            text = array_wait_words.waits(self._book, self._book.get(found.first))
            now = f" ({text})" if text else ""
            return _wanted_words(spec, number, f"job {found.first}", now)
        before = self._book.live(number)
        now = f" (it is {before.state} now{self._chain(number)})" if before is not None else ""
        return _wanted_words(spec, number, f"job {number}", now)

    def _waits_for_array(self, found: JobRange, spec: JobSpec) -> str:
        """Return how many jobs of an array are left, and what an end of one means."""
        counts = followed_jobs.counts_of(self._book, found)
        left = found.size - counts.succeeded - counts.otherwise
        text = f"waits for {left:,} of the {found.size:,} jobs of array {found.text}"
        if found.number in spec.after_any:
            return f"{text} to end"
        if found.number in spec.after_fail:
            if counts.otherwise:
                return f"{text} to end; {counts.otherwise:,} did not succeed"
            return f"{text} to end; if all succeed, this one is cancelled"
        return f"{text} to succeed; if one ends otherwise, this one is cancelled"

    def _chain(self, number: int) -> str:
        """Return what the job in the way follows in turn: ", and waits for job 4, which waits for
        job 3"."""
        core, found = self._replica.state.core, list[str]()
        while len(found) < CHAIN_MAX and (number := followed_jobs.first_live(core, number)):
            found.append(f"waits for job {number}")
        return f", and {', which '.join(found)}" if found else ""

    def _unmet(self, line: Explained, text: str) -> str:
        state = self._replica.state
        return followed_jobs.unmet_text(state.core, self._book, self._job.job) or text

    def _preferred(self, line: Explained, text: str) -> str:
        """Name the first preference that is not met."""
        terms = preference_words(self._job.decoded_spec())
        missed = terms[line.detail - 1] if 0 < line.detail <= len(terms) else ""
        return f"{text}; not {missed}" if missed else text

    def _held_by_order(self, line: Explained, text: str) -> str:
        queue, order = self._book.queue_name(line.asked), _order(line.detail)
        waits = self._cause_of_wait(line.job)
        return (
            f"what it needs is free, but the order of queue {queue} ({order}) holds it behind"
            f" job {line.job}{self._whose(line)}{waits}"
        )

    def _cause_of_wait(self, job: int) -> str:
        """Return what the job in the way waits for: ", which needs 4 free GPUs, node n1 has 2
        free"."""
        lines = self._replica.state.core.explain(job)
        first = next((line for line in lines if line.reason not in _NO_CAUSE), None)
        broken = [line for line in lines if line.reason == Reason.DEVICES_UNAVAILABLE]
        texts = [self._text(line) for line in [first, *broken] if line is not None]
        return f", which {'; '.join(texts)}" if texts else ""

    def _whose(self, line: Explained) -> str:
        return "" if self._is_own(line.job) else " of another user"

    def _is_own(self, job: int) -> bool:
        other = self._book.live(job)
        return other is not None and other.owner.user == self._job.owner.user

    def _down(self, line: Explained, text: str) -> str:
        told = [f"{name} is drained: {why}" for name, why in sorted(self._book.drained.items())]
        told += [f"{name} takes none now: {why}" for name, why in sorted(self._refusing().items())]
        return f"{text} ({_first(told, '; ')})" if told else text

    def _refusing(self) -> dict[str, str]:
        """Return why each node refuses jobs by itself."""
        return {name: r.drain for name, r in self._book.nodes.items() if r.drain}

    def _cordoned(self, line: Explained) -> str:
        """Return NODE:DEVICE if the line's device is cordoned by an administrator, else empty."""
        node = self._replica.state.node_name(line.node)
        report = self._book.nodes.get(node)
        if report is None or line.asked >= len(report.devices):
            return ""
        id = report.devices[line.asked].id
        return f"{node}:{id}" if (node, id) in self._book.cordoned else ""

    def _summary(self, reasons: tuple[schema.ReasonView, ...]) -> str:
        job = self._job
        if job.state == "pending":
            first = reasons[0].text if reasons else "waits"
            return first if first.startswith("waits") else f"waits: {first}"
        where = _where(job)
        if job.state == "running":
            return f"runs{where}{self._for(job.started_ns, self._now_ns)}"
        if job.state in ENDED:
            ran = f"; it ran{where}{self._ran()}" if job.started_ns else ""
            return _PLAIN.get(job.reason, job.reason) + ran
        return f"{job.state}{where}: {job.reason}"

    def _ran(self) -> str:
        return self._for(self._job.started_ns, self._job.ended_ns)

    @staticmethod
    def _for(since_ns: int | None, until_ns: int | None) -> str:
        if since_ns is None or until_ns is None:
            return ""
        return f" for {figures.span(until_ns - since_ns)}"

    # --- actions ----------------------------------------------------------------------------------

    def _actions(self, lines: list[Explained]) -> Iterator[str]:
        """Yield what would help, in the order of the reasons."""
        if self._job.state in ENDED:
            yield from end_remedies.remedies(self._job, self._user_of)
        elif self._job.state == "pending":
            for line in lines:
                for remedy in line.remedies:
                    yield from self._help(remedy, line)

    def _help(self, remedy: Remedy, line: Explained) -> Iterator[str]:
        if (remedy, line.reason) in _SAID_BY_REASON or (
            remedy == Remedy.ASK_FOR_LESS and line.detail == Reason.NO_NODE_HAS_KIND
        ):
            return
        make = self._makers.get(remedy)
        text = make(line) if make is not None else HELPS[remedy]
        if text:
            yield text

    def _tolerate(self, line: Explained) -> str:
        return RUN_AGAIN if line.asked == FENCE_ID else HELPS[Remedy.TOLERATE_TAINT]

    def _cancel_holder(self, line: Explained) -> str:
        """Return the command that cancels the holder, if the user owns it; else empty."""
        if line.reason != Reason.HOLDS or not self._is_own(line.job):
            return ""
        return f"cancel your job {line.job}, which holds it: stoker cancel {line.job}"

    def _change_order(self, line: Explained) -> str:
        better = "backfill" if line.detail == Order.FIFO else "any"
        name = self._book.queue_name(line.asked)
        return f"an administrator can let others pass: stoker queue set {name} --order {better}"

    def _say_estimate(self, line: Explained) -> str:
        useless = self._job.decoded_spec().estimate_s or line.detail == Order.FIFO
        return "" if useless else HELPS[Remedy.SAY_ESTIMATE]

    def _undrain(self, line: Explained) -> str:
        drained, refusing = " ".join(sorted(self._book.drained)), sorted(self._refusing())
        takes = "takes" if len(refusing) == 1 else "take"
        mend = f"mend that, and {_first(refusing, ', ')} {takes} jobs again: stoker nodes -o wide"
        if refusing and not drained:
            return mend
        names = drained or "NODE"
        back = f"an administrator can give a drained node back: stoker node undrain {names}"
        return f"{back}; or {mend}" if refusing else back

    def _uncordon(self, line: Explained) -> str:
        place = self._cordoned(line)
        given = f"an administrator can give it back: stoker uncordon {place}"
        return given if place else HELPS[Remedy.FREE_DEVICES]

    def _change_kind(self, line: Explained) -> str:
        hint = self._hint(line)
        return f"cancel it and submit it anew: {hint}" if hint else HELPS[Remedy.CHANGE_KIND]

    def _hint(self, line: Explained) -> str:
        return reason_text.hint(self._book, line.detail, line.asked, line.have, line.job)


def _first(words: list[str], between: str) -> str:
    """Return the first NODES_NAMED words, and how many more there are."""
    more = len(words) - NODES_NAMED
    return between.join([*words[:NODES_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _where(job: Job) -> str:
    """Return " on node n1", or " as 8 ranks on nodes n1, n2"; empty for a job that has no place."""
    if job.decision is None:
        return ""
    if not job.ranks:
        return f" on node {job.decision.node}"
    nodes = list(dict.fromkeys(rank.decision.node for rank in job.ranks))
    return f" as {len(job.ranks)} ranks on node{'s' * (len(nodes) > 1)} {', '.join(nodes)}"


def _order(number: int) -> str:
    return Order(number).name.lower().replace("_", "-")


RUN_AGAIN = (
    "let it run again, if it can: --retries; or see why a node cannot freeze jobs: stoker nodes"
)
HELPS: dict[Remedy, str] = {
    Remedy.WAIT: "wait: it starts by itself when there is room",
    Remedy.ASK_FOR_LESS: "ask for less: fewer devices, a smaller share, less CPU or memory",
    Remedy.RAISE_PRIORITY: "give it a higher priority: --priority",
    Remedy.CANCEL_HOLDER: "cancel a job of yours that holds what it needs: stoker jobs",
    Remedy.CHANGE_QUEUE: "use another queue: stoker queue list",
    Remedy.RAISE_LIMIT: "have the queue's limit raised by an administrator: stoker queue quota",
    Remedy.CHANGE_MODELS: "accept other device models: stoker devices shows which there are",
    Remedy.CHANGE_CONDITIONS: "drop a condition on its devices, or make it a preference: --prefer;"
    " stoker devices -o wide shows what there is",
    Remedy.CHANGE_LABELS: "ask for other labels: stoker nodes -o wide shows which there are",
    Remedy.TOLERATE_TAINT: "tolerate the taint, if it is meant for such jobs: --tolerate",
    Remedy.END_RESERVATION: "have the reservation ended by an administrator: stoker node reserve",
    Remedy.CHANGE_GROUP: "do without --attract or --repel, or use another group",
    Remedy.ALLOW_ANY_LINK: "do without --same-link, or ask for fewer devices",
    Remedy.ALLOW_ANY_NUMA: "prefer its NUMA node instead: --numa prefer, or ask for fewer devices",
    Remedy.ADD_NODES: "start a node that has what it needs: stoker up",
    Remedy.BRING_NODES_UP: "an administrator can give a drained node back: stoker node undrain",
    Remedy.FREE_DEVICES: "see what is wrong with the devices: stoker devices",
    Remedy.SAY_WHERE: "its placement is left to a scoring function, which must say where",
    Remedy.CANCEL_IT: "cancel it: what it waits for will not come",
    Remedy.CHANGE_KIND: "ask for what is there: --device-kind, --gpu-model; see stoker devices",
    Remedy.MIX_VENDORS: "take devices of several vendors, if the program can: --mix-vendors",
    Remedy.SAY_ESTIMATE: "say how long it runs, so that it may go first where it delays nobody:"
    " --time-estimate",
    Remedy.CHANGE_ORDER: "have an administrator let others pass: stoker queue set",
    Remedy.FORBID_PREEMPTION: "submit it without --preemptible, or with --min-run",
}
"""The default sentence of each remedy; some are replaced by more exact ones."""


def _wanted_words(spec: JobSpec, number: int, what: str, now: str) -> str:
    """Return which end of a job another one waits for; `now`: what is known of it."""
    if number in spec.after_any:
        return f"waits until {what} has ended{now}"
    if number in spec.after_fail:
        said = "has failed, or ended otherwise than well"
        return f"waits until {what} {said}{now}; if it succeeds, this one is cancelled"
    return f"waits until {what} has succeeded{now}; if it fails, this one is cancelled"
