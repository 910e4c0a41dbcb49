/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * One accessor for each field that kernels name differently.
 *
 * Each looks the field up in the running kernel's BTF and never checks a version; the branch that
 * does not apply is removed when the program is loaded.
 */
#ifndef SK_BPF_KERNEL_COMPAT_BPF_H
#define SK_BPF_KERNEL_COMPAT_BPF_H

/* include/linux/sched.h; stable since 2.6 except where noted */
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_DEAD 0x0080
#define TASK_NOLOAD 0x0400 /* an idle kernel-side wait, not I/O */
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000 /* 6.4 */
#define PF_KTHREAD 0x00200000
#define SIGNAL_GROUP_EXIT 0x00000004

/* Return the id of the cgroup that is `cgroup`'s ancestor at `level`, which must not be below it.
 */
static __always_inline __u64 compat_ancestor_id(struct cgroup *cgroup, __u32 level)
{
	struct cgroup *ancestor = NULL;
	__u64 id = 0;

	if (bpf_core_field_exists(cgroup->ancestors)) {
		void *at = (void *)cgroup + bpf_core_field_offset(cgroup->ancestors);

		bpf_probe_read_kernel(&ancestor, sizeof(ancestor), at + level * sizeof(void *));
		return BPF_CORE_READ(ancestor, kn, id);
	}
	struct cgroup___ids *old = (void *)cgroup;
	void *at = (void *)cgroup + bpf_core_field_offset(old->ancestor_ids);

	bpf_probe_read_kernel(&id, sizeof(id), at + level * sizeof(id));
	return id;
}

/* Return the state in which a task leaves the CPU, where sched_switch does not say. It may be
 * stale. */
static __always_inline __u32 compat_task_state(struct task_struct *task)
{
	struct task_struct___long_state *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ(old, state);
}

/* Return whether a task is inside a stall for memory as PSI counts it; false where PSI is not
 * built. */
static __always_inline bool compat_memory_stall(struct task_struct *task)
{
	struct task_struct___psi *psi = (void *)task;

	if (bpf_core_field_exists(psi->in_memstall))
		return BPF_CORE_READ_BITFIELD(psi, in_memstall);
	return false;
}

/* Return the argument of a system call at its entry; `number` is 1 or 2. */
static __always_inline __u64 compat_argument(struct pt_regs *regs, int number)
{
	struct pt_regs___x86 *x86 = (void *)regs;
	struct pt_regs___arm64 *arm64 = (void *)regs;

	if (bpf_core_field_exists(x86->orig_ax))
		return number == 1 ? BPF_CORE_READ(x86, di) : BPF_CORE_READ(x86, si);
	if (bpf_core_field_exists(arm64->syscallno))
		return number == 1 ? BPF_CORE_READ(arm64, regs[0]) : BPF_CORE_READ(arm64, regs[1]);
	return 0;
}

/* Return the system call a task is in, or -1: a fault, an interrupt, or an unknown machine. */
static __always_inline long compat_system_call(struct pt_regs *regs)
{
	struct pt_regs___x86 *x86 = (void *)regs;
	struct pt_regs___arm64 *arm64 = (void *)regs;

	if (bpf_core_field_exists(x86->orig_ax))
		return x86->orig_ax;
	if (bpf_core_field_exists(arm64->syscallno))
		return arm64->syscallno;
	return -1;
}

#endif
