# SPDX-License-Identifier: Apache-2.0
"""The planted faults: file, the text that is there once, what it becomes, and what that breaks.

A text that is no longer there exactly once is an error: mend the table.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    file: str
    before: str
    after: str
    why: str


STOP_TASKS = """void sk_job_stop_tasks(const struct sk_act *act, uint32_t slot, uint16_t reason)
{
\tconst struct sk_core *core = act->core;
\tconst struct sk_job *job = &core->jobs[slot];

\tfor (uint32_t at = job->tasks_first; at; """
"""The head of the function that stops a gang; another one has the same loop."""

MUTANTS = (
    Mutant("stale-term", "command/command.c", "command->header.term <= core->term",
           "command->header.term < core->term", "a term is taken twice"),
    Mutant("over-capacity", "ledger/task.c", "if (share.milli > sk_device_free(device))",
           "if (share.milli > sk_device_free(device) + 1)", "a device gives more than it has"),
    Mutant("share-twice", "ledger/task.c", "seen |= (uint64_t)1 << place->shares[i].index;",
           "seen |= (uint64_t)0 << place->shares[i].index;", "one device counts as two"),
    Mutant("unavailable", "ledger/task.c", "if (!device->available)", "if (0)",
           "what is unavailable is given"),
    Mutant("memory-kept", "ledger/task.c", "device.memory_used += give ? -memory : memory;",
           "device.memory_used += give ? 0 : memory;", "device memory leaks"),
    Mutant("held-time", "ledger/task.c", "milli += task->shares[i].milli;",
           "milli = task->shares[i].milli;", "only the last share is charged"),
    Mutant("link-any", "ledger/task.c", "if (!link ||", "if (",
           "devices of no known link count as linked"),
    Mutant("taint-open", "ledger/fit.c", "if (node->labels[i].flags & SK_LABEL_TAINT &&",
           "if (node->labels[i].flags & SK_LABEL_COST &&", "taints keep nobody out"),
    Mutant("reserve-edge", "ledger/fit.c", "if (node->reserve_until_ns <= now_ns ||",
           "if (node->reserve_from_ns > now_ns ||", "a reservation to come holds nobody back"),
    Mutant("repel-other", "ledger/fit.c", "if (options & SK_REPEL && together)",
           "if (options & SK_REPEL && !together)", "who repels is attracted"),
    Mutant("group-leak", "ledger/fit.c", "SK_ADD(core, core->groups[slot].tasks, give ? -1u : 1u);",
           "SK_ADD(core, core->groups[slot].tasks, give ? 0u : 1u);", "a group never ends"),
    Mutant("level-none", "ledger/level.c", "if (!label || sk_level_label(&core->nodes[other]",
           "if (sk_level_label(&core->nodes[other]", "nodes without a label are a domain"),
    Mutant("level-large", "ledger/level.c", "domains->room[a] < domains->room[b] : a < b;",
           "domains->room[a] > domains->room[b] : a < b;", "a small gang breaks a large domain up"),
    Mutant("level-lost", "ledger/level.c", "domains->member[domains->last[at]] = node;",
           "domains->member[at] = node;", "a domain has its first and its last node alone"),
    Mutant("limit-edge", "ledger/queue.c", "quota->used_milli + milli <= quota->limit_milli",
           "quota->used_milli + milli < quota->limit_milli", "the last share of a limit is lost"),
    Mutant("parents-free", "ledger/queue.c",
           "for (; slot; slot = core->queues[slot].parent)\n\t\tqueue_charge_one",
           "for (; slot; slot = 0)\n\t\tqueue_charge_one", "parents are not charged"),
    Mutant("no-decay", "ledger/queue.c", "usage = halves < 64 ? queue->usage_ns >> halves : 0",
           "usage = halves < 64 ? queue->usage_ns : 0", "use is never forgotten"),
    Mutant("quota-blind", "command/queue_command.c", "sk_queue_in_use(core, slot, command->model)}",
           "0}", "a new quota does not see what is held"),
    Mutant("queue-in-use", "command/queue_command.c", "|| queue->children || queue->live)",
           "|| queue->children)", "a queue with jobs is dropped"),
    Mutant("order-moves", "command/queue_command.c", "!sk_pending_same_levels(queue->order",
           "0 && !sk_pending_same_levels(queue->order", "jobs are on levels of another order"),
    Mutant("label-order", "command/node_command.c", "core, node, label);\n\treturn SK_REASON_NONE;",
           "core, node, (label.value ^= 1, label));\n\treturn SK_REASON_NONE;",
           "a label has another value"),
    Mutant("reboot-keeps", "command/node_command.c",
           "node_lose(act, slot, SK_NODE_REBOOTED);", "",
           "jobs of an old boot run on"),
    Mutant("stale-boot", "command/node_command.c", "if (node->boot_before && node->boot_before ==",
           "if (0 && node->boot_before ==", "word from an old boot is believed"),
    Mutant("key-reused", "command/submit_command.c",
           "core->keys[key].spec_hash == command->spec_hash",
           "core->keys[key].spec_hash != command->spec_hash", "a reused key looks like a repeat"),
    Mutant("after-forgiven", "ledger/hold.c",
           "if (!met) {", "if (0) {", "jobs start after one that failed"),
    Mutant("after-first", "ledger/hold.c", "} else if (!job->waits) {", "} else {",
           "a job starts when the first of those that it follows has ended"),
    Mutant("after-inverted", "ledger/hold.c",
           "return (state == SK_SUCCEEDED) != (request->after_fail >> n & 1);",
           "return state == SK_SUCCEEDED;", "a job that follows a failure follows a success"),
    Mutant("range-forgotten", "ledger/hold.c", "range ? !(job->met >> n & 1) :", "range ? true :",
           "a job waits for a range once more after a restore"),
    Mutant("range-kept", "command/submit_command.c",
           "job->waits >> n & 1 && job->request.after[n] == after",
           "job->request.after[n] == after",
           "a job is told of a range again"),
    Mutant("heap-order", "ledger/hold.c", "left->not_before_ns < right->not_before_ns",
           "left->not_before_ns > right->not_before_ns", "the last to be due comes first"),
    Mutant("retry-once-more", "ledger/job.c",
           "job->retried - job->preemptions < job->request.retries",
           "job->retried - job->preemptions <= job->request.retries", "one retry too many"),
    Mutant("jitter-shared", "ledger/job_life.c", "sk_mix(job->id ^ sk_mix(job->attempt))",
           "sk_mix(sk_mix(job->attempt))", "all come back together"),
    Mutant("cancel-returns", "ledger/job.c", "if (job->last)\n\t\treturn false;", "",
           "a cancelled job comes back"),
    Mutant("preempt-counts", "ledger/job_life.c", "(uint16_t)(job->preemptions + !failed)",
           "(uint16_t)(job->preemptions)", "a preemption costs a retry"),
    Mutant("stop-one", "ledger/job_life.c", STOP_TASKS + "at = core->tasks[at].job_next) {",
           STOP_TASKS + "at = 0) {", "only one task of a gang is stopped"),
    Mutant("min-run", "command/job_command.c", "if (ran < job->request.min_run_s",
           "if (0 && ran < job->request.min_run_s", "preempted before its time"),
    Mutant("usage-again", "command/job_command.c",
           "command->device_ns - job->charged_ns, act->now_ns",
           "command->device_ns, act->now_ns", "device time is charged twice"),
    Mutant("fair-share", "ledger/fair.c", "return a.share < b.share;",
           "return a.share > b.share;", "the user who holds most is next"),
    Mutant("fair-last", "ledger/fair.c", "return a.started < b.started;",
           "return a.started > b.started;", "one user is served again and again"),
    Mutant("fair-account", "ledger/fair.c", "SK_ADD(core, account->milli, give ? -milli : milli);",
           "SK_ADD(core, account->milli, give ? 0 : milli);", "devices stay with an account"),
    Mutant("fair-saved", "snapshot/restore.c", "sk_account_started(core, slot, saved.started);",
           "(void)sk_account_started;", "a restored queue knows no last starts"),
    Mutant("fifo", "ledger/pending.c", "while (at && core->jobs[at].id > job->id)",
           "while (0 && core->jobs[at].id > job->id)",
           "who waits again goes behind the younger"),
    Mutant("undo-short", "state/journal.c", "while (journal->used > mark)",
           "while (journal->used > mark + 64)", "a refused gang leaves something behind"),
    Mutant("model-next", "ledger/fit.c", "models >> (device->model - 1) & 1",
           "models >> device->model & 1", "another model is looked at"),
)  # fmt: skip
