/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
 *
 * The kernel types that stoker's BPF programs read, and nothing else.
 *
 * Relied on by every *.bpf.c. Written by hand and never generated from the build host: each field
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
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};

enum {
	BPF_RB_NO_WAKEUP = 1,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* The value is resolved in the running kernel: it says whether the helper exists there. */
enum bpf_func_id {
	BPF_FUNC_task_pt_regs = 175,
};

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
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

struct signal_struct {
	atomic_t live;
	int group_exit_code;
	unsigned int flags;
	struct mm_struct *oom_mm;
};

struct task_struct {
	unsigned int __state; /* since 5.14 */
	unsigned int flags;
	int exit_code;
	unsigned in_iowait : 1;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 start_boottime;
	char comm[16];
	struct signal_struct *signal;
	struct css_set *cgroups;
};

struct task_struct___long_state { /* before 5.14 */
	long state;
};

struct pt_regs {
};

struct pt_regs___x86 {
	unsigned long orig_ax;
};

struct pt_regs___arm64 {
	int syscallno;
};

#pragma clang attribute pop

#endif
