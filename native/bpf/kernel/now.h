/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The kernel's monotonic clock, in which every timestamp of a BPF program is taken.
 */
#ifndef SK_BPF_KERNEL_NOW_H
#define SK_BPF_KERNEL_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t sk_bpf_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
