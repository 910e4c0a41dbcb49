/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Names of the system calls in which threads block, for the timeline. The numbers are those of this
 * machine's own programs, as <sys/syscall.h> has them.
 */
#ifndef SK_TRACE_TIMELINE_CALL_NAME_H
#define SK_TRACE_TIMELINE_CALL_NAME_H

/** Return the name of a system call: "futex"; NULL for one that is not known to block. */
const char *sk_trace_call_name(unsigned number);

#endif
