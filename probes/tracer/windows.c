/* SPDX-License-Identifier: Apache-2.0 */
/* Windows as the segment tells them, one after the other without a gap, and the answer to the
 * agent. */
#include "tracer/parts.h"

#include <string.h>

uint64_t sk_tracer_launches(uint64_t *ret_tracer_ns)
{
	const struct sk_segment *segment = sk_tracer->segment;
	uint64_t launches = 0;

	*ret_tracer_ns = 0;
	for (uint32_t i = 0; i < segment->header.slots_used; i++) {
		const struct sk_slot_counters *counters = &segment->slots[i].counters;

		launches += counters->launches + counters->copies;
		*ret_tracer_ns += counters->tracer_ns;
	}
	return launches;
}

/* Close the open window. The reader has seen `windows`, or it sees by a window's sequence that the
 * window was overwritten. */
static void close_window(struct sk_segment_header *header, uint64_t at_ns, uint64_t launches)
{
	uint64_t index = header->windows, from_ns = header->window_from_ns;
	struct sk_window *window = &sk_tracer->segment->window[index % SK_SEGMENT_WINDOWS];

	if (!from_ns || at_ns <= from_ns)
		return;
	*window = (struct sk_window){.from_ns = from_ns,
				     .to_ns = at_ns,
				     .phase = sk_tracer->open_phase,
				     .sequence = (uint32_t)index,
				     .chosen_ns = sk_tracer->open_chosen_ns,
				     .launches = launches - sk_tracer->open_launches};
	/* Pairs with the reader's fence after it has read `windows`: the windows it counts are
	 * filled. */
	atomic_store_explicit(&header->windows, index + 1, memory_order_release);
}

void sk_tracer_changed(uint32_t mode, uint32_t phase, uint64_t at_ns, uint64_t chosen_ns)
{
	struct sk_segment_header *header = &sk_tracer->segment->header;
	struct sk_segment_answer *answer = &header->answer;
	uint64_t tracer_ns, launches = sk_tracer_launches(&tracer_ns);

	close_window(header, at_ns, launches);
	if (answer->mode != mode || !answer->since_ns)
		answer->since_ns = at_ns;
	answer->mode = mode;
	answer->phase = phase;
	if (header->window_from_ns)
		answer->switches++;
	sk_tracer->open_phase = phase;
	sk_tracer->open_chosen_ns = chosen_ns;
	sk_tracer->open_launches = launches;
	atomic_store_explicit(&header->window_drawn, chosen_ns != 0, memory_order_relaxed);
	/* Pairs with the reader, which trusts what two looks have found for the same start. */
	atomic_store_explicit(&header->window_from_ns, at_ns, memory_order_release);
	atomic_store_explicit(&sk_tracer->mode, mode, memory_order_release);
}

void sk_tracer_step_aside(const char *holder)
{
	struct sk_segment_header *header = &sk_tracer->segment->header;

	strncpy(header->holder, holder, sizeof(header->holder) - 1);
	atomic_store_explicit(&header->stepped_aside, 1, memory_order_release);
	sk_tracer_changed(SK_MODE_DORMANT, SK_PHASE_BLIND, sk_tracer_now(), 0);
}
