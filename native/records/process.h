/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The process event: a program started, a process or thread came or went, inside a job.
 *
 * `head.pid` is the process (thread group); a process is identified by it and the start time of its
 * first thread.
 */
#ifndef SK_RECORDS_PROCESS_H
#define SK_RECORDS_PROCESS_H

#include "records/span.h"

enum sk_process_kind {
	SK_PROCESS_EXEC = 0,
	SK_PROCESS_FORK = 1,
	SK_PROCESS_THREAD = 2,
	SK_PROCESS_EXIT = 3, /* the last thread of the process */
	SK_PROCESS_THREAD_EXIT = 4,
};

#define SK_PROCESS_OOM_KILLED 1u /* flags: the kernel chose it when memory ran out */
#define SK_PROCESS_COMM_LEN 16

struct sk_process_event {
	struct sk_record_head head;
	__u64 job;
	__u64 start_boot_ns; /* CLOCK_BOOTTIME */
	__u32 tid;
	__u32 parent_pid;
	__s32 wait_status; /* as wait(2) reports it; only the two exit kinds */
	__u32 flags;
	char comm[SK_PROCESS_COMM_LEN];
};

_Static_assert(sizeof(struct sk_process_event) == 72, "no padding in a process event");

#endif
