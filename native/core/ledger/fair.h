/* SPDX-License-Identifier: Apache-2.0
 *
 * The users of queues with the order FAIR: what each of them holds there, and its waiting jobs by
 * level. All but the order of the last starts is derived from jobs and tasks. Invariants: a user
 * has an account in such a queue exactly while it has a live job in it, and a line on each level on
 * which a job of it is queued. Within a level the order is the user's share, then its last start,
 * the one longest ago first, then the id of its first job there, then the id.
 */
#ifndef SK_CORE_LEDGER_FAIR_H
#define SK_CORE_LEDGER_FAIR_H

#include "core/ledger/waiting_list.h"

#define SK_REGROUP_MAX 1024u /* jobs and placed tasks of a queue that gets or loses the order */

/* Count a live job of a user that came into the queue, or is about to leave it. */
void sk_account_open(struct sk_core *core, uint32_t job);
void sk_account_close(struct sk_core *core, uint32_t job);
/* Note that a job has started, with all of its tasks; the second one for an account by what its
 * last start was. */
void sk_fair_started(struct sk_core *core, uint32_t job);
void sk_account_started(struct sk_core *core, uint32_t account, uint64_t started);
/* Charge a task that was taken or given back to the account of its user in its queue. */
void sk_fair_charge(struct sk_core *core, const struct sk_task *task, bool give);
/* The jobs of this one's user that are queued on its level, which begin an empty line if there are
 * none. */
struct sk_list *sk_fair_enter(struct sk_core *core, uint32_t job);
/* The jobs of the line in which this one is queued. */
struct sk_list *sk_fair_line(struct sk_core *core, uint32_t job);
/* Drop the line of a job that has just left it, if that was the last. */
void sk_fair_leave(struct sk_core *core, uint32_t job);
/* The first job of a level, of which `list` has the lines; 0: none. */
uint32_t sk_fair_first(const struct sk_core *core, const struct sk_list *list);
/* The first job of the line behind that of this job on its level, or 0. */
uint32_t sk_fair_after(const struct sk_core *core, uint32_t job);
/* The share of the cluster that the job's user holds in its queue, 2^62 being all: the largest of
 * its shares of devices, CPU and memory. */
uint64_t sk_fair_share(const struct sk_core *core, uint32_t job);
/* The account of a user in a queue, or 0. */
uint32_t sk_account_find(const struct sk_core *core, uint32_t queue, uint64_t client);

#endif
