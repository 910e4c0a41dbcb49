/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The notice: one event that somebody should know of, as it travels in a ring.
 *
 * All but opens of devices go through a ring of their own that nothing frequent can fill.
 */
#ifndef SK_RECORDS_NOTICE_H
#define SK_RECORDS_NOTICE_H

#include "records/span.h"

enum sk_notice_kind {
	SK_NOTICE_DEVICE_OPEN = 0,
	SK_NOTICE_REFUSED_OPEN = 1, /* another program of the job's cgroup refused it */
	SK_NOTICE_OOM_KILL = 2,	    /* head.pid: the victim; from_pid: the process that ran out */
	SK_NOTICE_SIGNAL = 3,	    /* code: signal that ends head.pid; from_pid: who sent it */
	SK_NOTICE_KILLED_EXIT = 4,  /* code: signal that ended head.pid */
	SK_NOTICE_XID = 5,	    /* code: Xid; name: PCI address; text: what the driver said */
};

#define SK_NOTICE_NAME 16
#define SK_NOTICE_TEXT 80
#define SK_NOTICE_BY_KERNEL 1u /* flags: no process sent the signal */
#define SK_NOTICE_CORE_DUMPED 2u

struct sk_notice {
	struct sk_record_head head;
	__u64 job; /* 0: of no job */
	__u32 tid;
	__u32 code; /* signal, Xid, or access: 2 read, 4 write, 1 mknod */
	__u32 from_pid;
	__u32 flags;
	__u32 major; /* of the device; 0 with minor 0: none */
	__u32 minor;
	char name[SK_NOTICE_NAME]; /* of the process, or the device's PCI address */
	char text[SK_NOTICE_TEXT];
};

_Static_assert(sizeof(struct sk_notice) == 152, "no padding in a notice");

#endif
