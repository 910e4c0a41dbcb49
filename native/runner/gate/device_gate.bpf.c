/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* The device gate: a job opens the device nodes granted to it and the harmless ones, nothing else.
 *
 * It is attached with BPF_F_ALLOW_MULTI, so its refusal is final whatever else is attached, and
 * without a link, so it lives exactly as long as the jobs cgroup. Hook: BPF_CGROUP_DEVICE (open and
 * mknod of character and block devices). Kernel floor: Linux 6.0, which gave this program type
 * bpf_get_current_ancestor_cgroup_id. The gate does not see descriptors that are already open: a
 * caller that revokes a grant must first end the processes that have them. */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "runner/gate/device_gate.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SK_GRANTS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct sk_runner_grant_key);
	__type(value, __u32);
} stoker_grants SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SK_DENIED_MAX);
	__type(key, __u64);
	__type(value, struct sk_runner_denied);
} stoker_denied SEC(".maps");

/* Numbers: Documentation/admin-guide/devices.txt. */
static __always_inline bool is_harmless(__u32 major, __u32 minor)
{
	if (major == 1) /* null, zero, full, random, urandom */
		return minor == 3 || minor == 5 || minor == 7 || minor == 8 || minor == 9;
	if (major == 5) /* tty, ptmx */
		return minor == 0 || minor == 2;
	return major >= 136 && major <= 143; /* pts */
}

static __always_inline bool is_granted(__u32 major, __u32 minor, __u32 access)
{
	struct sk_runner_grant_key key = {.major = major, .minor = minor};

	/* The job's cgroup is an ancestor at a depth that depends on where the mount begins. */
	for (int level = 1; level < SK_GATE_LEVELS; level++) {
		__u32 *granted;

		key.cgroup_id = bpf_get_current_ancestor_cgroup_id(level);
		if (!key.cgroup_id)
			return false;
		granted = bpf_map_lookup_elem(&stoker_grants, &key);
		if (granted)
			return (*granted & access) == access;
	}
	return false;
}

static __always_inline void count_denied(__u32 major, __u32 minor)
{
	__u64 cgroup_id = bpf_get_current_cgroup_id();
	struct sk_runner_denied first = {.count = 1, .major = major, .minor = minor};
	struct sk_runner_denied *seen = bpf_map_lookup_elem(&stoker_denied, &cgroup_id);

	if (!seen) {
		bpf_map_update_elem(&stoker_denied, &cgroup_id, &first, BPF_NOEXIST);
		return;
	}
	__sync_fetch_and_add(&seen->count, 1);
	seen->major = major;
	seen->minor = minor;
}

SEC("cgroup/dev")
int device_gate(struct bpf_cgroup_dev_ctx *ctx)
{
	__u32 type = ctx->access_type & 0xffff;
	__u32 access = ctx->access_type >> 16;

	if (type == BPF_DEVCG_DEV_CHAR && !(access & BPF_DEVCG_ACC_MKNOD) &&
	    (is_harmless(ctx->major, ctx->minor) || is_granted(ctx->major, ctx->minor, access)))
		return 1;
	count_denied(ctx->major, ctx->minor);
	return 0;
}
