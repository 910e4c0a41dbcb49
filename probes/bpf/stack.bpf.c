/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* The places where threads block: stacks of long waits, kernel and user, with the system call.
 *
 * A stack can only be taken when the thread leaves the CPU, before the length of the wait is known.
 * To keep this cheap, a thread that blocks often has its stack taken at random, and each one stands
 * for as many others. Waits shorter than the threshold are forgotten when they end. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "opt_in.bpf.h"
#include "records/span.h"

char LICENSE[] SEC("license") = "GPL";

const volatile bool switch_says_state = false;
const volatile __u64 shortest_ns = 1000000;

#define WINDOW_NS 100000000ULL
#define WINDOW_STACKS 32 /* at most a few times as many are taken in a window */
#define STACK_TRIES 4

struct sleeper {
	__u64 since_ns; /* 0: it is not watched now */
	__u64 window_ns;
	__u32 blocks; /* in the window */
	__u32 weight;
	struct sk_stack_key place;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct sleeper);
} sleepers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, SK_STACKS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, SK_STACK_DEPTH * sizeof(__u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SK_STACK_WAITS);
	__type(key, struct sk_stack_key);
	__type(value, struct sk_stack_wait);
} stack_waits SEC(".maps");

static const struct sleeper no_sleeper;
static const struct sk_stack_wait no_wait;

static __always_inline struct sleeper *sleeper_of(__u64 key)
{
	struct sleeper *sleeper = bpf_map_lookup_elem(&sleepers, &key);

	if (sleeper)
		return sleeper;
	count_made(SK_PRODUCER_SLEEPER);
	bpf_map_update_elem(&sleepers, &key, &no_sleeper, BPF_NOEXIST);
	sleeper = bpf_map_lookup_elem(&sleepers, &key);
	if (!sleeper)
		count_lost(SK_PRODUCER_SLEEPER);
	return sleeper;
}

/* Return how many waits the one that begins now stands for; 0: it is not taken. */
static __always_inline __u32 drawn(struct sleeper *sleeper, __u64 now)
{
	__u32 weight = 1;

	if (now - sleeper->window_ns > WINDOW_NS) {
		sleeper->window_ns = now;
		sleeper->blocks = 0;
	}
	sleeper->blocks++;
#pragma unroll
	for (int i = 0; i < 16; i++)
		if (sleeper->blocks / WINDOW_STACKS >= weight)
			weight *= 2;
	return bpf_get_prandom_u32() % weight ? 0 : weight;
}

/* The map has one place for a stack, by its hash. If another stack has it, the stack without its
 * innermost frames may find a place; in the kernel those are the probe's own and the scheduler's.
 */
static __always_inline __s32 take_stack(void *ctx, __u64 flags)
{
	long id = -17; /* -EEXIST */

	count_made(SK_PRODUCER_STACK);
#pragma unroll
	for (__u64 skip = 0; skip < STACK_TRIES; skip++)
		if (id == -17)
			id = bpf_get_stackid(ctx, &stacks, flags | skip);
	if (id < 0 && id != -14) /* -EFAULT: it has no such stack */
		count_lost(SK_PRODUCER_STACK);
	return id;
}

static __always_inline __u32 call_of(struct task_struct *task)
{
	long number = -1;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		number = compat_system_call((struct pt_regs *)bpf_task_pt_regs(task));
	return number < 0 ? SK_SPAN_DETAIL_UNKNOWN : number;
}

static __always_inline void blocks(void *ctx, struct task_struct *task, __u64 job)
{
	__u64 key = (__u64)task, now = bpf_ktime_get_ns();
	struct sleeper *sleeper = sleeper_of(key);

	if (!sleeper)
		return;
	sleeper->since_ns = 0;
	sleeper->weight = drawn(sleeper, now);
	if (!sleeper->weight)
		return;
	sleeper->place.job = job;
	sleeper->place.pid = task->tgid;
	sleeper->place.kernel_stack = take_stack(ctx, 0);
	sleeper->place.user_stack = take_stack(ctx, BPF_F_USER_STACK);
	sleeper->place.call = call_of(task);
	sleeper->since_ns = now;
}

SEC("tp_btf/sched_switch")
int on_block(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[1];
	__u32 state = switch_says_state ? (__u32)ctx[3] : compat_task_state(task);
	__u64 key = (__u64)task, job;

	if (ctx[0] || !state || (task->flags & PF_KTHREAD)) /* preempted, or never in user space */
		return 0;
	if (state & TASK_DEAD) {
		bpf_map_delete_elem(&sleepers, &key); /* whatever cgroup it ends in */
		return 0;
	}
	job = opted_in_job(task, SK_OPT_IN_STACKS);
	if (job)
		blocks(ctx, task, job);
	return 0;
}

static __always_inline struct sk_stack_wait *wait_of(struct sk_stack_key *place)
{
	struct sk_stack_wait *wait = bpf_map_lookup_elem(&stack_waits, place);

	count_made(SK_PRODUCER_STACK_WAIT);
	if (!wait) {
		bpf_map_update_elem(&stack_waits, place, &no_wait, BPF_NOEXIST);
		wait = bpf_map_lookup_elem(&stack_waits, place);
	}
	if (!wait)
		count_lost(SK_PRODUCER_STACK_WAIT);
	return wait;
}

SEC("tp_btf/sched_wakeup")
int on_unblock(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	__u64 key = (__u64)task, ns;
	struct sk_stack_wait *wait;
	struct sleeper *sleeper;

	if (!opted_in_job(task, SK_OPT_IN_STACKS))
		return 0;
	sleeper = bpf_map_lookup_elem(&sleepers, &key);
	if (!sleeper || !sleeper->since_ns)
		return 0;
	ns = bpf_ktime_get_ns() - sleeper->since_ns;
	sleeper->since_ns = 0;
	if ((__s64)ns < (__s64)shortest_ns)
		return 0;
	wait = wait_of(&sleeper->place);
	if (!wait)
		return 0;
	__sync_fetch_and_add(&wait->count, 1);
	__sync_fetch_and_add(&wait->weight, sleeper->weight);
	__sync_fetch_and_add(&wait->ns, ns * sleeper->weight);
	if (wait->longest_ns < ns)
		wait->longest_ns = ns;
	return 0;
}
