/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks of the runtime in the thread that launches: names when code is loaded, counts of every
 * launch and copy, and a ticket for each one that is timed. */
#include "tool.h"

#include <string.h>

enum { COST_EVERY = 64 /* one call of this many is measured */ };

struct here {
	uint64_t ticket; /* ticket of the launch that this thread enqueues now */
	uint32_t calls;
};

static _Thread_local struct here here;

/* ".kd" marks the descriptor of a kernel; it is no part of the name. */
static unsigned name_row(const char *name)
{
	char text[SK_SEGMENT_NAME_BYTES * 4];
	size_t length = strnlen(name, sizeof(text) - 1);

	if (length > 3 && !memcmp(name + length - 3, ".kd", 3))
		length -= 3;
	memcpy(text, name, length);
	text[length] = 0;
	return sk_tracer_name(text);
}

void sk_rocp_on_symbol(struct sk_rocp_callback_record record, union sk_rocp_data *own, void *data)
{
	const struct sk_rocp_symbol *symbol = record.payload;

	if (record.kind != SK_ROCP_CALLBACK_CODE_OBJECT || !sk_tracer ||
	    sk_tracer->state != SK_TRACER_READY || record.operation != SK_ROCP_SYMBOL_REGISTER ||
	    record.phase != SK_ROCP_PHASE_ENTER || !symbol || symbol->size < sizeof(*symbol) ||
	    !symbol->name || symbol->kernel_id >= SK_ROCP_KERNELS)
		return;
	atomic_store_explicit(&sk_rocp.kernels[symbol->kernel_id], (uint16_t)name_row(symbol->name),
			      memory_order_relaxed);
}

/* Add the tracer's time in a callback, by samples. */
static void note_cost(struct sk_tracer_slot *slot, uint64_t from_ns)
{
	if (++here.calls % COST_EVERY == 0)
		sk_tracer_add(&slot->shared->counters.tracer_ns,
			      (sk_tracer_now() - from_ns) * COST_EVERY);
}

static bool is_traced(void)
{
	return sk_tracer && sk_rocp_is_here();
}

int sk_rocp_on_request(uint64_t tid, struct sk_rocp_id context, uint32_t kind, int32_t operation,
		       uint64_t internal, union sk_rocp_data *external, void *data)
{
	uint64_t now = sk_tracer_now();
	struct sk_tracer_slot *slot = is_traced() ? sk_tracer_slot() : NULL;

	external->value = 0;
	here.ticket = 0;
	if (!slot)
		return 0;
	here.ticket = sk_rocp_tickets_take(&sk_rocp.tickets, now, (uint32_t)tid);
	external->value = here.ticket;
	/* A launch without a ticket must not be timed: its record would come without a call. */
	sk_tracer_add(here.ticket ? &slot->shared->counters.timed
				  : &slot->shared->counters.pending_full,
		      1);
	atomic_store_explicit(&slot->shared->counters.seen_ns, now, memory_order_relaxed);
	note_cost(slot, now);
	return 0;
}

static unsigned kernel_row(uint64_t kernel_id)
{
	return kernel_id < SK_ROCP_KERNELS
		       ? atomic_load_explicit(&sk_rocp.kernels[kernel_id], memory_order_relaxed)
		       : 0;
}

static void note_unnamed(unsigned row)
{
	if (!row)
		atomic_fetch_add_explicit(&sk_tracer->segment->header.names_refused, 1,
					  memory_order_relaxed);
}

static void count_launch(const struct sk_rocp_kernel_call *call)
{
	struct sk_tracer_slot *slot = sk_tracer_slot();
	unsigned row = kernel_row(call->dispatch.kernel_id);

	note_unnamed(row);
	if (slot)
		sk_tracer_count_launch(slot, row);
	else
		sk_tracer_count_shared(true, row, 0);
}

void sk_rocp_on_launch(struct sk_rocp_callback_record record, union sk_rocp_data *own, void *data)
{
	const struct sk_rocp_kernel_call *call = record.payload;

	if (!is_traced() || record.operation != SK_ROCP_KERNEL_ENQUEUE || !call ||
	    call->size < sizeof(*call))
		return;
	if (record.phase == SK_ROCP_PHASE_ENTER) {
		count_launch(call);
	} else if (record.phase == SK_ROCP_PHASE_EXIT && here.ticket) {
		sk_rocp_tickets_returned(&sk_rocp.tickets, here.ticket, sk_tracer_now());
		here.ticket = 0;
	}
}

void sk_rocp_on_copy(struct sk_rocp_callback_record record, union sk_rocp_data *own, void *data)
{
	const struct sk_rocp_copy_call *call = record.payload;

	/* The other phase comes when the copy has finished, in a thread of the runtime. */
	if (!is_traced() || record.phase != SK_ROCP_PHASE_ENTER || !call ||
	    call->size < sizeof(*call))
		return;
	struct sk_tracer_slot *slot = sk_tracer_slot();
	unsigned kind = sk_rocp_copy_kind((uint32_t)record.operation);

	if (slot)
		sk_tracer_count_copy(slot, kind, call->bytes);
	else
		sk_tracer_count_shared(false, kind, call->bytes);
}
