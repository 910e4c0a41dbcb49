/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters by name: events since the first entry, and current totals. The table below gives their
 * order; an ignored command is counted under the number of its reason.
 */
#include "core/core.h"
#include "core/state/state.h"

static const char *const ended_names[SK_STATE_END] = {
	[SK_SUCCEEDED] = "ended_succeeded", [SK_FAILED] = "ended_failed",
	[SK_CANCELLED] = "ended_cancelled", [SK_TIMEOUT] = "ended_timeout",
	[SK_LOST] = "ended_lost",
};

static uint64_t ignored_all(const struct sk_core *core)
{
	uint64_t sum = 0;

	for (uint32_t reason = 0; reason < SK_REFUSAL_END; reason++)
		sum += core->counters.ignored[reason];
	return sum;
}

#define SK_PLAIN_COUNTERS 20u

static const char *plain_counter(const struct sk_core *core, uint32_t position, uint64_t *ret)
{
	const struct {
		const char *name;
		uint64_t value;
	} plain[SK_PLAIN_COUNTERS] = {
		{"commands", core->counters.commands},
		{"submitted", core->counters.submitted},
		{"duplicates", core->counters.duplicates},
		{"placed", core->counters.placed},
		{"forgotten", core->counters.forgotten},
		{"keys_forgotten", core->counters.keys_forgotten},
		{"keys_forgotten_young", core->counters.keys_forgotten_young},
		{"refused", core->counters.refused},
		{"ignored", ignored_all(core)},
		{"nodes", core->nodes_count},
		{"nodes_up", core->nodes_up},
		{"devices", core->devices_count},
		{"pending_device", core->queued[SK_QUEUE_DEVICE]},
		{"pending_host", core->queued[SK_QUEUE_HOST]},
		{"tasks", core->task_pool.used},
		{"finished", core->finished_count},
		{"retried", core->counters.retried},
		{"preempted", core->counters.preempted},
		{"delayed", core->delayed_n},
		{"queues", core->queues_n - 2},
	};

	*ret = plain[position].value;
	return plain[position].name;
}

const char *sk_core_counter(const struct sk_core *core, uint32_t position, uint64_t *ret)
{
	if (position < SK_PLAIN_COUNTERS)
		return plain_counter(core, position, ret);
	position = position - SK_PLAIN_COUNTERS + SK_SUCCEEDED;
	if (position >= SK_STATE_END)
		return NULL;
	*ret = core->counters.ended[position];
	return ended_names[position];
}
