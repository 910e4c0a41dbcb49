/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks of CUPTI at the application's calls, which are counted and remembered until their
 * record.
 *
 * All of it runs in the application's threads, so it is the cost of tracing. A call counts when the
 * driver has taken it, and not when it only became a node of a graph under capture.
 */
#include "cupti.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	BLOCK = 32, /* calls in a block, whose shortest is the time of a call by itself */
	MEASURED_BLOCKS = 4,
	OWN_MOST_NS = 10000,
};

/* The call that this thread is in. */
static _Thread_local struct {
	const struct sk_cupti_call *call; /* NULL: none, or one that is not watched */
	uint32_t correlation;
	uint32_t runtime; /* the runtime's call around it; 0: none */
	uint32_t tid;
	uint32_t pid_check; /* low half of the tracer's generation, for `tid` */
	uint64_t entered_ns;
	uint64_t position;
	uint32_t phase;
	uint32_t calls;
	bool measured;
	uint64_t shortest_ns;
	uint64_t own_ns; /* 0: this call is not sampled */
} here;

static uint32_t my_tid(void)
{
	uint32_t generation = (uint32_t)sk_tracer->generation;

	if (!here.tid || here.pid_check != generation) {
		here.tid = (uint32_t)syscall(SYS_gettid);
		here.pid_check = generation;
	}
	return here.tid;
}

static bool is_counted_as_kernel(const struct sk_cupti_call *call)
{
	return call->class == SK_CUPTI_CALL_LAUNCH ||
	       (call->class == SK_CUPTI_CALL_GRAPH &&
		atomic_load_explicit(&sk_cupti->graphs, memory_order_relaxed));
}

static void remember(const struct sk_cupti_call *call, const CUpti_CallbackData *data)
{
	struct sk_cupti_join_call join = {
		.entered_ns = here.entered_ns,
		.correlation = data->correlationId,
		.alias = atomic_load_explicit(&sk_cupti->runtime, memory_order_relaxed)
				 ? here.runtime
				 : 0,
		.tid = my_tid(),
		.context = data->contextUid,
		.flags = SK_CUPTI_JOIN_TIMED,
		.kind = call->class == SK_CUPTI_CALL_COPY ? call->kind : SK_KIND_KERNEL,
	};

	if (call->class == SK_CUPTI_CALL_WAIT)
		join.flags |= SK_CUPTI_JOIN_BARE;
	else
		sk_cupti_context(data->contextUid, true);
	if (call->class == SK_CUPTI_CALL_GRAPH && !is_counted_as_kernel(call))
		join.flags |= SK_CUPTI_JOIN_MANY;
	here.position = sk_cupti_joins_enter(&sk_cupti->joins, &join);
}

static void enter(const struct sk_cupti_call *call, const CUpti_CallbackData *data, uint32_t phase)
{
	here.call = call;
	here.correlation = data->correlationId;
	here.phase = phase;
	here.own_ns = 0;
	/* A call that is only counted reads no clock, except in a few blocks. */
	here.measured = phase == SK_PHASE_TIMED || here.calls / BLOCK % MEASURED_BLOCKS == 1;
	if (here.measured)
		here.entered_ns = sk_tracer_now();
	if (phase == SK_PHASE_TIMED)
		remember(call, data);
	if (here.measured && here.calls % SK_CUPTI_SAMPLE == SK_CUPTI_SAMPLE - 1)
		here.own_ns = sk_tracer_now() - here.entered_ns + 1;
}

/* A call in a stream that is captured does nothing yet, and has no record. */
static bool is_captured(const struct sk_cupti_call *call, const CUpti_CallbackData *data)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUstream stream;

	if (!atomic_load_explicit(&sk_cupti->captures, memory_order_relaxed) ||
	    !sk_cupti->cuda.is_capturing)
		return false;
	stream = sk_cupti_call_stream(call, data->functionParams);
	return stream && !sk_cupti->cuda.is_capturing(stream, &status) &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static void count(const struct sk_cupti_call *call, unsigned name, uint64_t bytes, bool timed)
{
	struct sk_tracer_slot *slot = sk_tracer_slot();
	bool kernel = is_counted_as_kernel(call);

	if (!kernel && call->class != SK_CUPTI_CALL_COPY)
		return;
	if (!slot) {
		sk_tracer_count_shared(kernel, kernel ? name : call->kind, bytes);
		return;
	}
	if (kernel)
		sk_tracer_count_launch(slot, name);
	else
		sk_tracer_count_copy(slot, call->kind, bytes);
	if (timed)
		sk_tracer_add(&slot->shared->counters.timed, 1);
}

static unsigned name_of(const struct sk_cupti_call *call, const CUpti_CallbackData *data)
{
	if (call->class == SK_CUPTI_CALL_GRAPH)
		return is_counted_as_kernel(call) ? sk_cupti_name("(graph)") : 0;
	return call->class == SK_CUPTI_CALL_LAUNCH ? sk_cupti_name(data->symbolName) : 0;
}

/* Sum up the tracer's time in the calls that this one stands for. */
static void measure_own(struct sk_cupti_costs *costs, uint64_t left_ns)
{
	struct sk_tracer_slot *slot = sk_tracer_slot();
	uint64_t own_ns = here.own_ns + sk_tracer_now() - left_ns;
	uint64_t stands_for = /* every other sample of counted calls is of a measured block */
		SK_CUPTI_SAMPLE * (here.phase == SK_PHASE_TIMED ? 1 : MEASURED_BLOCKS / 2);

	/* A call whose thread lost its processor would outweigh all others. */
	atomic_fetch_add_explicit(&costs->own_ns, own_ns < OWN_MOST_NS ? own_ns : OWN_MOST_NS,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&costs->samples, 1, memory_order_relaxed);
	if (!slot)
		return;
	sk_tracer_add(&slot->shared->counters.tracer_ns, own_ns * stands_for);
	atomic_store_explicit(&slot->shared->counters.seen_ns, left_ns, memory_order_relaxed);
}

/* Sum up the call's time and the tracer's. */
static void measure(uint64_t left_ns)
{
	struct sk_cupti_costs *costs = &sk_cupti->costs[here.phase];
	uint64_t took = left_ns - here.entered_ns;
	bool last = here.calls % BLOCK == BLOCK - 1;

	if (here.measured && (!(here.calls % BLOCK) || took < here.shortest_ns))
		here.shortest_ns = took;
	if (last)
		atomic_fetch_add_explicit(&costs->calls, BLOCK, memory_order_relaxed);
	if (last && here.measured) {
		atomic_fetch_add_explicit(&costs->shortest_ns, here.shortest_ns,
					  memory_order_relaxed);
		atomic_fetch_add_explicit(&costs->blocks, 1, memory_order_relaxed);
	}
	if (here.own_ns)
		measure_own(costs, left_ns);
	here.calls++;
}

static void leave(const struct sk_cupti_call *call, const CUpti_CallbackData *data)
{
	bool timed = here.phase == SK_PHASE_TIMED;
	uint64_t left_ns = here.measured ? sk_tracer_now() : 0, took = left_ns - here.entered_ns;
	const CUresult *error = data->functionReturnValue;
	bool taken = (!error || *error == CUDA_SUCCESS) && !is_captured(call, data);
	uint64_t bytes = 0;
	unsigned name = 0;
	bool recorded = taken;

	if (call->class == SK_CUPTI_CALL_COPY) {
		bytes = sk_cupti_call_bytes(call, data->functionParams);
		recorded = taken && bytes; /* an empty copy causes no work and no record */
	}
	if (recorded) {
		name = name_of(call, data);
		count(call, name, bytes, timed);
	}
	if (timed)
		sk_cupti_joins_leave(&sk_cupti->joins, here.position, sk_tracer_saturated(took),
				     (uint16_t)name, recorded);
	measure(left_ns);
}

/* From the first capture on, each call's stream is checked; most programs never capture. */
static void on_capture(const CUpti_CallbackData *data)
{
	const CUresult *error = data->functionReturnValue;

	if (data->callbackSite == CUPTI_API_EXIT && (!error || *error == CUDA_SUCCESS))
		atomic_store(&sk_cupti->captures, 1);
}

static void on_runtime(const CUpti_CallbackData *data)
{
	here.runtime = data->callbackSite == CUPTI_API_ENTER ? data->correlationId : 0;
}

static void on_driver(const struct sk_cupti_call *call, const CUpti_CallbackData *data,
		      uint32_t phase)
{
	if (call->class == SK_CUPTI_CALL_CAPTURE) {
		on_capture(data);
	} else if (data->callbackSite == CUPTI_API_ENTER) {
		here.call = NULL;
		if (phase != SK_PHASE_BLIND)
			enter(call, data, phase);
	} else if (here.call == call && here.correlation == data->correlationId) {
		leave(call, data);
		here.call = NULL;
	}
}

void CUPTIAPI sk_cupti_on_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
			       const void *data)
{
	uint32_t phase = atomic_load_explicit(&sk_cupti->phase, memory_order_relaxed);
	const struct sk_cupti_call *call;

	/* The phase is 0 in a child that was just forked, too, where all of this is gone. A call
	 * that was entered while it was watched is followed to its end. */
	if (phase != SK_PHASE_TIMED && phase != SK_PHASE_COUNTED && !(phase && here.call))
		return;
	if (domain == CUPTI_CB_DOMAIN_RUNTIME_API)
		on_runtime(data);
	else if (domain == CUPTI_CB_DOMAIN_DRIVER_API && (call = sk_cupti_call_of_driver(cbid)))
		on_driver(call, data, phase);
}
