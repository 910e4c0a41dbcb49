/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of thread times; see times.h. */
#include "times.h"

void sk_bpf_times_add(struct sk_times *total, const struct sk_times *part)
{
	for (int i = 0; i < SK_SPAN_STATES; i++)
		total->ns[i] += part->ns[i];
	for (int i = 0; i < SK_DELAY_BUCKETS; i++)
		total->delays[i] += part->delays[i];
	total->switches += part->switches;
	total->wakeups += part->wakeups;
	total->fault_ns += part->fault_ns;
	total->memory_ns += part->memory_ns;
	total->minor_faults += part->minor_faults;
	total->major_faults += part->major_faults;
	total->stolen_ns += part->stolen_ns;
	total->irq_ns += part->irq_ns;
	total->softirq_ns += part->softirq_ns;
	total->user_faults += part->user_faults;
	total->kernel_faults += part->kernel_faults;
	total->handling_ns += part->handling_ns;
	if (total->longest_delay_ns < part->longest_delay_ns)
		total->longest_delay_ns = part->longest_delay_ns;
}

static __u64 less_of(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

void sk_bpf_thread_close(struct sk_thread_row *thread, __u64 now_ns)
{
	__u64 open_ns;

	if (thread->state < 1 || thread->state > SK_SPAN_STATES || now_ns <= thread->since_ns)
		return;
	open_ns = now_ns - thread->since_ns;
	thread->times.ns[thread->state - 1] += open_ns;
	if (thread->waits & SK_WAIT_FAULT)
		thread->times.fault_ns += open_ns;
	if (thread->waits & SK_WAIT_MEMORY)
		thread->times.memory_ns += open_ns;
	if (thread->handled_ns && thread->state == SK_SPAN_ON_CPU)
		thread->detail = (__u16)(less_of(thread->handled_ns, open_ns) *
					 SK_SPAN_FAULTED_ALL / open_ns);
}
