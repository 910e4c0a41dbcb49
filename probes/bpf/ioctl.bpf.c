/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Calls of jobs into device drivers: ioctl on character devices, by process and device.
 *
 * Every system call of the machine passes here while this is attached, so it is attached only while
 * a job opts in. The device is read from the caller's own table of files at the call. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "opt_in.bpf.h"
#include "tally.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define TYPE_MASK 0170000
#define TYPE_CHARACTER 0020000

/* The number of ioctl on this machine; set before loading. */
const volatile __u64 ioctl_number = 0;

struct call {
	__u64 since_ns; /* 0: none is open */
	__u64 job;
	__u32 device;
	__u32 padding;
};

struct {
	__uint(type,
	       BPF_MAP_TYPE_LRU_HASH); /* a thread killed in its call leaves its entry behind */
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct call);
} calls SEC(".maps");

/* Read the number of the character device behind a descriptor; false if there is none. */
static __always_inline bool device_behind(struct task_struct *task, __u32 descriptor, __u32 *ret)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd);
	struct file *file = NULL;
	struct inode *inode;

	if (descriptor >= BPF_CORE_READ(table, max_fds))
		return false;
	bpf_probe_read_kernel(&file, sizeof(file), files + descriptor);
	inode = BPF_CORE_READ(file, f_inode);
	if ((BPF_CORE_READ(inode, i_mode) & TYPE_MASK) != TYPE_CHARACTER)
		return false;
	*ret = BPF_CORE_READ(inode, i_rdev);
	return true;
}

/* (struct pt_regs *, long number) */
SEC("tp_btf/sys_enter")
int on_call(__u64 *ctx)
{
	struct task_struct *task;
	struct call call = {0};
	__u64 key;

	if (ctx[1] != ioctl_number)
		return 0;
	task = bpf_get_current_task_btf();
	call.job = opted_in_job(task, SK_OPT_IN_CALLS);
	if (!call.job ||
	    !device_behind(task, compat_argument((struct pt_regs *)ctx[0], 1), &call.device))
		return 0;
	key = bpf_get_current_pid_tgid();
	call.since_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&calls, &key, &call, BPF_ANY);
	return 0;
}

/* (struct pt_regs *, long result) */
SEC("tp_btf/sys_exit")
int on_return(__u64 *ctx)
{
	__u64 key = bpf_get_current_pid_tgid();
	struct sk_tally_key tally = {.what = SK_TALLY_IOCTL, .pid = key >> 32};
	struct call *call;

	if (compat_system_call((struct pt_regs *)ctx[0]) != (long)ioctl_number)
		return 0;
	if (!job_of_typed_task(bpf_get_current_task_btf()))
		return 0;
	call = bpf_map_lookup_elem(&calls, &key);
	if (!call)
		return 0;
	tally.job = call->job;
	tally.detail = call->device;
	tally_add(&tally, since(call->since_ns), 0);
	bpf_map_delete_elem(&calls, &key);
	return 0;
}
