/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Adding up times of threads. Pure.
 */
#ifndef SK_BPF_TIMES_H
#define SK_BPF_TIMES_H

#include "records/thread.h"

void sk_bpf_times_add(struct sk_times *total, const struct sk_times *part);
/* The time since the thread entered its state counts to that state; on a CPU, what part of it went
 * into page faults becomes its detail. */
void sk_bpf_thread_close(struct sk_thread_row *thread, __u64 now_ns);

#endif
