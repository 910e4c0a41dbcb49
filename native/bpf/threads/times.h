/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Sums of thread times. Pure.
 */
#ifndef SK_BPF_THREADS_TIMES_H
#define SK_BPF_THREADS_TIMES_H

#include "records/thread.h"

void sk_bpf_times_add(struct sk_times *total, const struct sk_times *part);
/* Add the time since the thread entered its state to that state; on a CPU, the part of it that went
 * into page faults becomes its detail. */
void sk_bpf_thread_close(struct sk_thread_row *thread, __u64 now_ns);

#endif
