/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing with linear probing; see slots.h. Job ids are cgroup ids, which count up, so a
 * multiplicative hash (Knuth, TAOCP 3, 6.4) spreads them.
 */
#include "slots.h"

#include <string.h>

static uint32_t home_of(const struct sk_bpf_slots *slots, uint64_t job)
{
	return (uint32_t)((job * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & slots->mask;
}

void sk_bpf_slots_clear(struct sk_bpf_slots *slots)
{
	memset(slots->table, 0, ((size_t)slots->mask + 1) * sizeof(*slots->table));
	slots->count = 0;
}

/* Return the job's slot, or the free one where it belongs: the table is never full. */
static struct sk_bpf_slot *probe(const struct sk_bpf_slots *slots, uint64_t job)
{
	uint32_t at = home_of(slots, job);

	while (slots->table[at].job && slots->table[at].job != job)
		at = (at + 1) & slots->mask;
	return &slots->table[at];
}

uint32_t sk_bpf_slots_find(const struct sk_bpf_slots *slots, uint64_t job)
{
	const struct sk_bpf_slot *slot = probe(slots, job);

	return slot->job ? slot->position : SK_SLOT_NONE;
}

uint32_t sk_bpf_slots_add(struct sk_bpf_slots *slots, uint64_t job)
{
	struct sk_bpf_slot *slot = probe(slots, job);

	if (slot->job)
		return slot->position;
	if (slots->count > slots->mask / 2)
		return SK_SLOT_NONE;
	slot->job = job;
	slot->position = slots->count++;
	return slot->position;
}

size_t sk_bpf_spans_count(const struct sk_job_span *spans, size_t count, struct sk_bpf_slots *slots,
			  struct sk_bpf_span_group *groups)
{
	size_t homeless = 0;

	sk_bpf_slots_clear(slots);
	for (size_t i = 0; i < count; i++) {
		uint32_t before = slots->count;
		uint32_t at = spans[i].job ? sk_bpf_slots_add(slots, spans[i].job) : SK_SLOT_NONE;

		if (at == SK_SLOT_NONE) {
			homeless++;
			continue;
		}
		if (slots->count != before)
			groups[at] = (struct sk_bpf_span_group){.job = spans[i].job};
		groups[at].count++;
	}
	return homeless;
}

void sk_bpf_spans_scatter(const struct sk_job_span *spans, size_t count,
			  const struct sk_bpf_slots *slots, struct sk_bpf_span_group *groups)
{
	for (uint32_t i = 0; i < slots->count; i++)
		groups[i].count = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t at = spans[i].job ? sk_bpf_slots_find(slots, spans[i].job) : SK_SLOT_NONE;

		if (at != SK_SLOT_NONE)
			groups[at].spans[groups[at].count++] = spans[i].span;
	}
}
