/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The end of one interval of a thread and the start of the next, and the span that reports it.
 *
 * Only the CPU that runs a thread, or holds its run queue, closes its interval, so plain stores are
 * exact.
 */
#ifndef SK_BPF_INTERVAL_BPF_H
#define SK_BPF_INTERVAL_BPF_H

#include "threads.bpf.h"

/* A longer time on a CPU without a page fault gets a span of its own. */
#define SK_APART_NS 100000

/* A smaller difference comes from switches, and from clocks that were read a moment apart. */
#define SK_STOLEN_NS 100000

/* Detail of an open interval on a CPU that ran something else; it is reported as a state, not as
 * this. */
#define SK_SPAN_DETAIL_STOLEN 0

/* Written by the loader alone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, __u32);
} modes __weak SEC(".maps");

struct span_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* The ring of spans, which the loader makes for the first job that is followed in full: it is half
 * of the memory of all tables. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct span_ring);
} spans __weak SEC(".maps");

/* Write a span of `state`, or a record in its place. It is not static, so that the verifier checks
 * it once and not on every path that leads here. */
__noinline int write_span(struct sk_thread_row *thread, __u64 now, __u32 state)
{
	struct sk_job_span *record = NULL;
	__u32 *mode, first = 0;
	void *ring;

	if (!thread)
		return 0;
	mode = bpf_map_lookup_elem(&modes, &thread->job);
	if (!mode || *mode != SK_JOB_FULL)
		return 0;
	count_made(SK_PRODUCER_SPAN);
	ring = bpf_map_lookup_elem(&spans, &first);
	if (ring)
		record = bpf_ringbuf_reserve(ring, sizeof(*record), 0);
	if (!record) {
		count_lost(SK_PRODUCER_SPAN);
		return 0;
	}
	record->job = thread->job;
	record->span.from_ns = thread->since_ns;
	record->span.to_ns = now;
	record->span.tid = thread->tid;
	record->span.state = state;
	record->span.detail = thread->detail;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline void close_wait(struct sk_thread_row *thread, __u64 ns)
{
	if (thread->waits & SK_WAIT_FAULT)
		thread->times.fault_ns += ns;
	if (thread->waits & SK_WAIT_MEMORY)
		thread->times.memory_ns += ns;
	thread->waits = 0;
}

/* Return which part of `ns` on a CPU went into page faults. A fault that was preempted is counted
 * at its end: time beyond `ns` belongs to the next time on a CPU. */
static __always_inline __u16 take_faulted(struct sk_thread_row *thread, __u64 ns)
{
	__u64 taken = thread->handled_ns < ns ? thread->handled_ns : ns;

	thread->handled_ns -= taken;
	return taken * SK_SPAN_FAULTED_ALL / ns;
}

/* Return the reported state of an interval: a thread whose CPU was taken away is runnable. */
static __always_inline __u16 state_told(const struct sk_thread_row *thread)
{
	bool stolen = thread->state == SK_SPAN_ON_CPU && thread->detail == SK_SPAN_DETAIL_STOLEN;

	return stolen ? SK_SPAN_RUNNABLE : thread->state;
}

/* Close the open interval at `now` and open one in `state`. Clocks of two CPUs may differ. */
static __always_inline void enter_state(struct sk_thread_row *thread, __u32 tid, __u64 now,
					__u16 state, __u16 detail, bool tell)
{
	__u16 told = state_told(thread);

	if (now < thread->since_ns)
		now = thread->since_ns;
	thread->sequence++;
	barrier();
	thread->times.ns[(thread->state - 1u) % SK_SPAN_STATES] += now - thread->since_ns;
	if (thread->waits)
		close_wait(thread, now - thread->since_ns);
	if (told != thread->state)
		thread->detail = SK_SPAN_DETAIL_UNKNOWN;
	else if (thread->handled_ns && told == SK_SPAN_ON_CPU && now > thread->since_ns)
		thread->detail = take_faulted(thread, now - thread->since_ns);
	if (tell && now > thread->since_ns)
		write_span(thread, now, told);
	thread->tid = tid;
	thread->detail = detail;
	thread->state = state;
	thread->since_ns = now;
	barrier();
	thread->sequence++;
}

/* Split an interval into faults and the thread's other time on a CPU. */
static __always_inline void part_from_faults(struct sk_thread_row *thread, __u64 now, bool tell)
{
	__u64 to = thread->handled_to_ns;

	if (thread->state == SK_SPAN_ON_CPU && to > thread->since_ns && now > to + SK_APART_NS)
		enter_state(thread, thread->tid, to, SK_SPAN_ON_CPU, SK_SPAN_DETAIL_UNKNOWN, tell);
}

/* The host may take a CPU from a guest machine, and the kernel charges that time to no thread. It
 * charges interrupts to none either, if it times them. `ran` then grew less than the time on the
 * CPU. The moment of the loss is not known, so the last part of a span is reported as lost. Totals
 * keep it on the CPU as well. */
static __always_inline void part_from_stolen(struct sk_thread_row *thread, __u64 ran, __u64 now,
					     bool tell)
{
	__u64 at = thread->taken_ns + (ran - thread->ran_ns);
	bool known = thread->taken_ns && thread->state == SK_SPAN_ON_CPU;

	thread->taken_ns = 0;
	at = at < thread->since_ns ? thread->since_ns : at;
	if (!known || now < at + SK_STOLEN_NS)
		return;
	thread->times.stolen_ns += now - at;
	if (tell)
		enter_state(thread, thread->tid, at, SK_SPAN_ON_CPU, SK_SPAN_DETAIL_STOLEN, tell);
}

#endif
