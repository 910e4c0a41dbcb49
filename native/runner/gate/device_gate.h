/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Records of the device gate's maps, shared by the BPF program and native/runner/gate/gate.c.
 */
#ifndef SK_RUNNER_GATE_DEVICE_GATE_H
#define SK_RUNNER_GATE_DEVICE_GATE_H

#include <linux/types.h>

enum {
	SK_GRANTS_MAX = 65536, /* job and device pairs */
	SK_DENIED_MAX = 4096,  /* jobs with refused opens; the oldest make room */
	SK_GATE_LEVELS = 16,   /* depth of cgroups that is searched for a grant */
};

/** stoker_grants: key -> u32 of BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE. */
struct sk_runner_grant_key {
	__u64 cgroup_id; /* inode of the job's cgroup */
	__u32 major;
	__u32 minor;
};

/** stoker_denied: cgroup id -> what was refused, and the last of it. */
struct sk_runner_denied {
	__u64 count;
	__u32 major;
	__u32 minor;
};

_Static_assert(sizeof(struct sk_runner_grant_key) == 16, "no padding in a map key");
_Static_assert(sizeof(struct sk_runner_denied) == 16, "denied");

#endif
