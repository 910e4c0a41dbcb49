/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The end of a process, at sched_process_exit.
 */
#ifndef SK_BPF_EXIT_BPF_H
#define SK_BPF_EXIT_BPF_H

#include "kernel_compat.bpf.h"

/* True if sched_process_exit says that the thread is the last one (6.16). */
__weak const volatile bool exit_says_last = false;

/* Return the status that wait(2) will report; kernel/exit.c wait_task_zombie(). */
static __always_inline int process_status(struct task_struct *task)
{
	if (BPF_CORE_READ(task, signal, flags) & SIGNAL_GROUP_EXIT)
		return BPF_CORE_READ(task, signal, group_exit_code);
	return BPF_CORE_READ(task, group_leader, exit_code);
}

/* Before 6.16 two last threads that exit at once may both find the count at 0. */
static __always_inline bool counts_last(struct task_struct *task)
{
	return BPF_CORE_READ(task, signal, live.counter) == 0;
}

#endif
