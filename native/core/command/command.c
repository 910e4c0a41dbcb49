/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kinds, the term, and the most that a command can cause.
 */
#include "core/command/command.h"
#include "core/command/job_command.h"
#include "core/command/node_command.h"
#include "core/command/queue_command.h"
#include "core/command/submit_command.h"
#include "core/ledger/fair.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/state/journal.h"
#include "core/state/journal_bound.h"

static uint16_t term_do(const struct sk_act *act, const struct sk_term *command, struct sk_why *why)
{
	struct sk_core *core = act->core;

	if (command->header.term <= core->term)
		return sk_because(why, SK_STALE_TERM, command->header.term, core->term);
	SK_SET(core, core->term, command->header.term);
	SK_SET(core, core->leader, command->leader);
	return SK_REASON_NONE;
}

static uint16_t refused_do(const struct sk_act *act, const struct sk_refused *command)
{
	SK_ADD(act->core, act->core->counters.refused, command->count);
	return SK_REASON_NONE;
}

uint16_t sk_command_do(const struct sk_act *act, const struct sk_header *command,
		       struct sk_why *why)
{
	const void *record = command;

	*why = (struct sk_why){0};
	if (command->kind != SK_TERM && command->term != act->core->term)
		return sk_because(why, SK_STALE_TERM, command->term, act->core->term);
	switch (command->kind) {
	case SK_TERM:
		return term_do(act, record, why);
	case SK_NODE_UP:
		return sk_node_up_do(act, record, why);
	case SK_NODE_DOWN:
		return sk_node_down_do(act, record, why);
	case SK_DEVICE_SET:
		return sk_device_set_do(act, record, why);
	case SK_DEVICE_TRAITS:
		return sk_device_traits_do(act, record, why);
	case SK_SUBMIT:
		return sk_submit_do(act, record, why);
	case SK_SUBMIT_ARRAY:
		return sk_submit_array_do(act, record, why);
	case SK_PLACE:
		return sk_place_do(act, record, why);
	case SK_OUTCOME:
		return sk_outcome_do(act, record, why);
	case SK_CANCEL:
		return sk_cancel_do(act, record, why);
	case SK_FORGET:
		return sk_forget_do(act, record, why);
	case SK_NODE_LABEL:
		return sk_node_label_do(act, record, why);
	case SK_NODE_RESERVE:
		return sk_node_reserve_do(act, record, why);
	case SK_QUEUE_SET:
		return sk_queue_set_do(act, record, why);
	case SK_QUOTA_SET:
		return sk_quota_set_do(act, record, why);
	case SK_USAGE:
		return sk_usage_do(act, record, why);
	case SK_PREEMPT:
		return sk_preempt_do(act, record, why);
	case SK_GIVE_UP:
		return sk_give_up_do(act, record, why);
	case SK_RANGE_END:
		return sk_range_end_do(act, record, why);
	default:
		return refused_do(act, record);
	}
}

/* The node whose loss this command may mean, or 0. */
static uint32_t command_loses(const struct sk_core *core, const struct sk_header *command)
{
	const void *record = command;

	if (command->kind == SK_NODE_UP)
		return sk_node_find(core, ((const struct sk_node_up *)record)->node);
	if (command->kind == SK_NODE_DOWN)
		return sk_node_find(core, ((const struct sk_node_down *)record)->node);
	return 0;
}

/* The jobs that this command makes as one of an array. */
static uint32_t jobs_made(const struct sk_header *command)
{
	const void *record = command;

	return command->kind == SK_SUBMIT_ARRAY ? ((const struct sk_submit_array *)record)->jobs
						: 0;
}

uint64_t sk_command_effects_max(const struct sk_core *core, const struct sk_header *command)
{
	uint32_t node = command_loses(core, command);
	uint64_t effects = SK_TASKS_MAX + 3 + jobs_made(command);

	for (uint32_t task = core->nodes[node].tasks.first; task;
	     task = core->tasks[task].on_node.next)
		effects += core->jobs[core->tasks[task].job].request.tasks + 2u;
	return effects;
}

/* The most that the order of a queue takes which gets or loses accounts of users. */
static uint64_t regroup_journal(const struct sk_core *core, const struct sk_header *command)
{
	const struct sk_queue_set *set = (const void *)command;
	bool fair = set->order == SK_ORDER_FAIR ||
		    sk_pending_by_user(core, sk_queue_find(core, set->queue));

	return fair ? SK_JOURNAL_REGROUP * SK_REGROUP_MAX : 0;
}

uint64_t sk_command_journal_max(const struct sk_core *core, const struct sk_header *command)
{
	uint32_t node = command_loses(core, command);
	uint64_t bytes = SK_JOURNAL_REQUEST * (1 + jobs_made(command));

	if (command->kind == SK_QUEUE_SET)
		bytes += regroup_journal(core, command);
	if (command->kind == SK_OUTCOME)
		bytes +=
			SK_JOURNAL_TASK + SK_TASK_DEVICES_MAX * SK_JOURNAL_SHARE + SK_JOURNAL_SPEED;
	if (node || command->kind == SK_NODE_UP)
		bytes += SK_NODE_DEVICES_MAX * SK_JOURNAL_SHARE;
	for (uint32_t task = core->nodes[node].tasks.first; task;
	     task = core->tasks[task].on_node.next)
		bytes += SK_JOURNAL_TASK + core->tasks[task].shares_n * SK_JOURNAL_SHARE;
	return bytes;
}
