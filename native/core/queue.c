/* SPDX-License-Identifier: Apache-2.0
 *
 * One list per priority and a bitmap of the priorities in use; level 0 is the highest priority,
 * so the head is the first bit.
 */
#include "core/index.h"
#include "core/journal.h"
#include "core/queue.h"

#define SK_QUEUE_WORDS (SK_PRIORITIES / 64)

static uint32_t sk_queue_level(const struct sk_job *job)
{
	return (uint32_t)(SK_PRIORITY_MAX - job->priority);
}

void sk_queue_append(struct sk_core *core, uint32_t slot)
{
	struct sk_queue *queue = &core->queues[sk_queue_kind(&core->jobs[slot])];
	uint32_t level = sk_queue_level(&core->jobs[slot]);

	sk_list_append(core, &queue->levels[level], SK_CHAIN(core->jobs, queued), slot);
	SK_SET(core, queue->used[level / 64],
	       queue->used[level / 64] | (uint64_t)1 << (level % 64));
	SK_ADD(core, queue->count, 1);
}

void sk_queue_remove(struct sk_core *core, uint32_t slot)
{
	struct sk_queue *queue = &core->queues[sk_queue_kind(&core->jobs[slot])];
	uint32_t level = sk_queue_level(&core->jobs[slot]);

	sk_list_remove(core, &queue->levels[level], SK_CHAIN(core->jobs, queued), slot);
	if (!queue->levels[level].first)
		SK_SET(core, queue->used[level / 64],
		       queue->used[level / 64] & ~((uint64_t)1 << (level % 64)));
	SK_ADD(core, queue->count, -1ull);
}

static uint32_t sk_queue_first_from(const struct sk_queue *queue, uint32_t level)
{
	level = sk_bits_next(queue->used, SK_QUEUE_WORDS, level);
	return level < SK_PRIORITIES ? queue->levels[level].first : 0;
}

uint32_t sk_queue_head(const struct sk_core *core, enum sk_queue_kind kind)
{
	return sk_queue_first_from(&core->queues[kind], 0);
}

uint32_t sk_queue_next(const struct sk_core *core, uint32_t slot)
{
	const struct sk_job *job = &core->jobs[slot];

	if (job->queued.next)
		return job->queued.next;
	return sk_queue_first_from(&core->queues[sk_queue_kind(job)], sk_queue_level(job) + 1);
}
