/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The host probes by number, and the answer of the kernel to attaching one.
 */
#ifndef SK_BPF_CATALOGUE_PROBE_H
#define SK_BPF_CATALOGUE_PROBE_H

#define SK_REASON_BYTES 256

enum sk_bpf_probe {
	SK_PROBE_SWITCH,
	SK_PROBE_WAKEUP,
	SK_PROBE_WAKEUP_NEW,
	SK_PROBE_SYSCALL,
	SK_PROBE_EXEC,
	SK_PROBE_FORK,
	SK_PROBE_EXIT,
	SK_PROBE_USER_FAULT,
	SK_PROBE_KERNEL_FAULT,
	SK_PROBE_RECLAIM,
	SK_PROBE_GROUP_RECLAIM,
	SK_PROBE_RECLAIM_SLEEP,
	SK_PROBE_BLOCK,
	SK_PROBE_RETRANSMIT,
	SK_PROBE_HANDLER,
	SK_PROBE_SOFTIRQ,
	SK_PROBE_DEVICE_OPEN,
	SK_PROBE_OOM_KILL,
	SK_PROBE_SIGNAL,
	SK_PROBE_KILLED_EXIT,
	SK_PROBE_XID,
	SK_PROBE_FREQUENCY,
	SK_PROBE_TEMPERATURE,
	SK_PROBE_TRIP,
	SK_PROBE_COOLING,
	SK_PROBE_FENCE,
	SK_PROBE_GPU_QUEUE,
	SK_PROBE_GPU_RUN,
	SK_PROBE_IOCTL,
	SK_PROBE_STACK,
	SK_PROBE_HANDLING,
};

#define SK_PROBES 31
#define SK_HOOKS 3 /* most tracepoints of one probe */

enum sk_bpf_answer {
	SK_ANSWER_ATTACHED = 0,
	SK_ANSWER_REFUSED = 1, /* the kernel refused to attach it */
	SK_ANSWER_UNKNOWN = 2, /* the kernel could not be queried */
	SK_ANSWER_OFF = 3,     /* not attached, because of its cost, until a job opts in */
};

struct sk_bpf_probe_state {
	enum sk_bpf_answer answer;
	char reason[SK_REASON_BYTES]; /* empty only when attached */
};

#endif
