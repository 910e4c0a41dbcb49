/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
 *
 * The kernel types that stoker's BPF programs read, and nothing else.
 *
 * Written by hand and never generated from the build host: each field
 * is found by name in the running kernel's BTF when the object is loaded (CO-RE), so order, size
 * and the fields left out do not matter. Names with ___ are older or other forms of one type;
 * kernel_compat.bpf.h alone chooses between them. Nothing here depends on x86 but pt_regs, whose
 * arm64 form stands beside it.
 */
#ifndef STOKER_VMLINUX_H
#define STOKER_VMLINUX_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

/* include/uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};

enum {
	BPF_F_NO_PREALLOC = 1,
};

enum {
	BPF_F_USER_STACK = 256,
};

enum {
	BPF_RB_NO_WAKEUP = 1,
};

enum {
	BPF_DEVCG_ACC_MKNOD = 1,
	BPF_DEVCG_ACC_READ = 2,
	BPF_DEVCG_ACC_WRITE = 4,
};

struct bpf_cgroup_dev_ctx {
	__u32 access_type; /* access << 16 | type */
	__u32 major;
	__u32 minor;
};

enum {
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* The value is resolved in the running kernel: it says whether the helper exists there. */
enum bpf_func_id {
	BPF_FUNC_task_pt_regs = 175,
	BPF_FUNC_get_retval = 186,
};

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup_root;

struct cgroup {
	struct cgroup_subsys_state self;
	struct cgroup_root *root;
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[]; /* since 6.1 */
};

struct cgroup___ids { /* before 6.1 */
	__u64 ancestor_ids[0];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

typedef struct {
	int counter;
} atomic_t;

struct mm_struct {
};

struct k_sigaction___handler {
	void *handler; /* of the `struct sigaction` inside: its first field on 64-bit machines */
};

struct k_sigaction {
};

struct sighand_struct {
	struct k_sigaction action[64];
};

struct kernel_siginfo {
	int si_code;
};

struct inode {
	unsigned short i_mode;
	__u32 i_rdev;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bio {
	struct blkcg_gq *bi_blkg;
};

struct request {
	unsigned int cmd_flags;
	unsigned int __data_len;
	struct bio *bio;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	struct sock_cgroup_data sk_cgrp_data;
};

struct sk_buff {
	unsigned int len;
};

struct kobject {
	const char *name;
};

struct device {
	struct kobject kobj;
};

struct pci_dev {
	struct device dev;
};

struct thermal_zone_device {
	int id;
	int temperature;
};

struct thermal_cooling_device {
	int id;
};

struct drm_sched_fence;

struct drm_sched_job {
	struct drm_sched_fence *s_fence;
};

struct signal_struct {
	atomic_t live;
	int group_exit_code;
	unsigned int flags;
	struct mm_struct *oom_mm;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct task_struct {
	unsigned int __state; /* since 5.14 */
	unsigned int flags;
	int exit_code;
	unsigned in_iowait : 1;
	struct sched_entity se;
	int pid;
	int tgid;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 start_boottime;
	char comm[16];
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct files_struct *files;
	struct css_set *cgroups;
};

struct sched_info {
	unsigned long long run_delay;
};

struct task_struct___queued { /* CONFIG_SCHED_INFO */
	struct sched_info sched_info;
};

struct task_struct___psi { /* CONFIG_PSI */
	unsigned in_memstall : 1;
};

struct task_struct___long_state { /* before 5.14 */
	long state;
};

struct pt_regs {
};

struct pt_regs___x86 {
	unsigned long r9;
	unsigned long r8;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long sp;
};

struct pt_regs___arm64 {
	unsigned long regs[31];
	unsigned long sp;
	int syscallno;
};

#pragma clang attribute pop

#endif
