/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* The states of a job's threads: on CPU, runnable, blocked, in I/O.
 *
 * Every thread is in exactly one state from the event that first showed it to its last switch. Each
 * transition closes one interval and opens the next, so times and spans have neither gap nor
 * overlap. Threads outside the jobs cgroup cost a few plain loads. The hooks run under the run
 * queue's lock, so no call here may wake a task. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "tally.bpf.h"
#include "interval.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* True if sched_switch hands the state over (5.18), and if system calls are recorded. */
const volatile bool switch_says_state = false;
const volatile bool read_system_call = false;

/* Jobs followed in full, counted by the loader. With 0 no thread's job is looked up. */
volatile __u64 full_jobs = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct sk_job_row);
} jobs SEC(".maps");

/* New entries are copied from these: both are larger than a program's stack would bear. */
static const struct sk_thread_row no_thread;
static const struct sk_job_row no_job;

/* Add an ended thread to its job. It is not static, so that the verifier checks it once and not on
 * every path that leads here. */
__noinline int fold(struct sk_thread_row *thread)
{
	struct sk_job_row *job;

	if (!thread)
		return 0;
	count_made(SK_PRODUCER_ENDED);
	job = bpf_map_lookup_elem(&jobs, &thread->job);
	if (!job) {
		count_lost(SK_PRODUCER_ENDED);
		return 0;
	}
	__sync_fetch_and_add(&job->begun, 1);
	for (int i = 0; i < SK_SPAN_STATES; i++)
		__sync_fetch_and_add(&job->times.ns[i], thread->times.ns[i]);
	for (int i = 0; i < SK_DELAY_BUCKETS; i++)
		if (thread->times.delays[i])
			__sync_fetch_and_add(&job->times.delays[i], thread->times.delays[i]);
	__sync_fetch_and_add(&job->times.switches, thread->times.switches);
	__sync_fetch_and_add(&job->times.wakeups, thread->times.wakeups);
	__sync_fetch_and_add(&job->times.fault_ns, thread->times.fault_ns);
	__sync_fetch_and_add(&job->times.memory_ns, thread->times.memory_ns);
	__sync_fetch_and_add(&job->times.minor_faults, thread->times.minor_faults);
	__sync_fetch_and_add(&job->times.major_faults, thread->times.major_faults);
	__sync_fetch_and_add(&job->times.stolen_ns, thread->times.stolen_ns);
	__sync_fetch_and_add(&job->times.irq_ns, thread->times.irq_ns);
	__sync_fetch_and_add(&job->times.softirq_ns, thread->times.softirq_ns);
	__sync_fetch_and_add(&job->times.user_faults, thread->times.user_faults);
	__sync_fetch_and_add(&job->times.kernel_faults, thread->times.kernel_faults);
	__sync_fetch_and_add(&job->times.handling_ns, thread->times.handling_ns);
	raise_to(&job->times.longest_delay_ns, thread->times.longest_delay_ns);
	job->last_ns = thread->since_ns;
	return 0;
}

/* Move an ended thread from the table into its job, so that totals stay exact. The job's `begun`
 * grows before the move and `ended` after it, which shows a reader of both that one is under way.
 */
static __always_inline void move_to_job(struct sk_thread_row *thread, __u64 key)
{
	__u64 id = thread->job;
	struct sk_job_row *job;

	fold(thread);
	bpf_map_delete_elem(&threads, &key);
	job = bpf_map_lookup_elem(&jobs, &id);
	if (job) {
		__sync_fetch_and_add(&job->ended, 1);
		__sync_fetch_and_add(&job->alive, -1);
	}
}

static __always_inline bool join_job(__u64 id, __u64 now)
{
	struct sk_job_row *job = bpf_map_lookup_elem(&jobs, &id);

	if (!job) {
		count_made(SK_PRODUCER_JOB);
		bpf_map_update_elem(&jobs, &id, &no_job, BPF_NOEXIST);
		job = bpf_map_lookup_elem(&jobs, &id);
	}
	if (!job) {
		count_lost(SK_PRODUCER_JOB);
		return false;
	}
	__sync_fetch_and_add(&job->alive, 1);
	job->last_ns = now;
	return true;
}

static __always_inline void leave_job(__u64 id)
{
	struct sk_job_row *job = bpf_map_lookup_elem(&jobs, &id);

	if (job)
		__sync_fetch_and_add(&job->alive, -1);
}

/* Make the entry of a thread seen for the first time, or for the first time in this job. */
static __noinline struct sk_thread_row *
enter(struct sk_thread_row *thread, struct task_struct *task, __u64 job, __u64 now, __u16 state)
{
	__u64 key = (__u64)task;

	if (thread) {
		enter_state(thread, thread->tid, now, thread->state, thread->detail, full_jobs);
		move_to_job(thread, key);
	}
	if (!join_job(job, now))
		return NULL;
	count_made(SK_PRODUCER_THREAD);
	bpf_map_update_elem(&threads, &key, &no_thread, BPF_NOEXIST);
	thread = bpf_map_lookup_elem(&threads, &key);
	if (!thread) {
		count_lost(SK_PRODUCER_THREAD);
		leave_job(job);
		return NULL;
	}
	thread->job = job;
	thread->seen_ns = now;
	thread->since_ns = now;
	thread->tid = task->pid;
	thread->detail = SK_SPAN_DETAIL_UNKNOWN;
	thread->minor_seen = task->min_flt;
	thread->major_seen = task->maj_flt;
	thread->state = state;
	return thread;
}

/* Return the entry of a job's task, made in `state` if there is none yet; NULL: no room, and
 * counted. */
static __always_inline struct sk_thread_row *thread_of(struct task_struct *task, __u64 job,
						       __u64 now, __u16 state)
{
	__u64 key = (__u64)task;
	struct sk_thread_row *thread = bpf_map_lookup_elem(&threads, &key);

	if (thread && thread->job == job)
		return thread;
	return enter(thread, task, job, now, state);
}

static __always_inline __u16 state_left_in(struct task_struct *task, __u32 state)
{
	if (!state)
		return SK_SPAN_RUNNABLE;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		return SK_SPAN_BLOCKED_IO;
	if ((state & TASK_UNINTERRUPTIBLE) && !(state & TASK_NOLOAD))
		return SK_SPAN_BLOCKED_IO;
	return SK_SPAN_BLOCKED;
}

/* The system call in which it blocks; NO_CALL: a fault or an interrupt; UNKNOWN_CALL: not known. */
#define NO_CALL (-1)
#define UNKNOWN_CALL (-2)

static __always_inline long call_of(struct task_struct *task, __u16 state)
{
	if (!read_system_call || state < SK_SPAN_BLOCKED)
		return UNKNOWN_CALL;
	if (task->flags & (PF_IO_WORKER | PF_USER_WORKER | PF_KTHREAD))
		return UNKNOWN_CALL; /* never entered from user space */
	if (!full_jobs && state == SK_SPAN_BLOCKED)
		return UNKNOWN_CALL; /* no span would show it */
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return compat_system_call((struct pt_regs *)bpf_task_pt_regs(task));
	return UNKNOWN_CALL;
}

static __always_inline __u16 detail_of(long call)
{
	return call < 0 || call > SK_SPAN_DETAIL_UNKNOWN ? SK_SPAN_DETAIL_UNKNOWN : call;
}

/* A task waits for a page or for memory only if it leaves the CPU in I/O or uninterruptibly. */
static __always_inline __u32 waits_of(struct task_struct *task, __u16 state, long call)
{
	__u32 waits = 0;

	if (state == SK_SPAN_BLOCKED_IO && call == NO_CALL)
		waits |= SK_WAIT_FAULT;
	if (state >= SK_SPAN_BLOCKED && compat_memory_stall(task))
		waits |= SK_WAIT_MEMORY;
	return waits;
}

/* The kernel counts every fault; adding the counts up as the thread leaves costs the fault nothing.
 */
static __always_inline void add_faults(struct sk_thread_row *thread, struct task_struct *task)
{
	__u64 minor = task->min_flt, major = task->maj_flt;

	thread->times.minor_faults += minor - thread->minor_seen;
	thread->times.major_faults += major - thread->major_seen;
	thread->minor_seen = minor;
	thread->major_seen = major;
}

/* Handle a task's last switch. The table is read in any case, as the task may have left its job's
 * cgroup. */
static __noinline int end_thread(struct task_struct *task, __u64 job, __u64 now)
{
	__u64 key = (__u64)task;
	struct sk_thread_row *thread = bpf_map_lookup_elem(&threads, &key);

	if (!thread)
		return 0;
	if (thread->job == job) {
		part_from_stolen(thread, task->se.sum_exec_runtime, now, full_jobs);
		enter_state(thread, thread->tid, now, thread->state, thread->detail, full_jobs);
		add_faults(thread, task);
		if (full_jobs)
			write_span(thread, thread->since_ns, SK_SPAN_GONE);
	}
	move_to_job(thread, key);
	return 0;
}

static __always_inline void leave_cpu(struct task_struct *task, __u64 job, __u64 now, __u32 left)
{
	struct sk_thread_row *thread = thread_of(task, job, now, SK_SPAN_ON_CPU);
	__u16 state = state_left_in(task, left);
	long call = call_of(task, state);

	if (!thread)
		return;
	part_from_faults(thread, now, full_jobs);
	part_from_stolen(thread, task->se.sum_exec_runtime, now, full_jobs);
	enter_state(thread, task->pid, now, state,
		    full_jobs ? detail_of(call) : SK_SPAN_DETAIL_UNKNOWN, full_jobs);
	thread->waits = waits_of(task, state, call);
	add_faults(thread, task);
}

static __always_inline void take_cpu(struct task_struct *task, __u64 job, __u64 now)
{
	struct sk_thread_row *thread = thread_of(task, job, now, SK_SPAN_ON_CPU);
	__u64 delay;

	if (!thread)
		return;
	if (thread->state == SK_SPAN_RUNNABLE) {
		delay = now > thread->since_ns ? now - thread->since_ns : 0;
		thread->times.delays[bucket_of(delay) % SK_DELAY_BUCKETS]++;
		if (delay > thread->times.longest_delay_ns)
			thread->times.longest_delay_ns = delay;
	}
	thread->times.switches++;
	enter_state(thread, task->pid, now, SK_SPAN_ON_CPU, SK_SPAN_DETAIL_UNKNOWN, full_jobs);
	thread->ran_ns = task->se.sum_exec_runtime;
	thread->taken_ns = now;
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	__u64 from = job_of_typed_task(prev), to = job_of_typed_task(next), now;
	__u32 state = switch_says_state ? (__u32)ctx[3] : compat_task_state(prev);
	bool dead = !ctx[0] && (state & TASK_DEAD);

	if (!from && !to && !dead)
		return 0;
	now = bpf_ktime_get_ns();
	if (dead)
		end_thread(prev, from, now);
	else if (from)
		leave_cpu(prev, from, now, ctx[0] ? 0 : state); /* ctx[0]: preempted */
	if (to)
		take_cpu(next, to, now);
	return 0;
}

static __always_inline int seen_wakeup(struct task_struct *task)
{
	bool running = (__u64)task == bpf_get_current_task();
	__u64 job = job_of_typed_task(task), now;
	struct sk_thread_row *thread;

	if (!job)
		return 0;
	now = bpf_ktime_get_ns();
	thread = thread_of(task, job, now, running ? SK_SPAN_ON_CPU : SK_SPAN_RUNNABLE);
	if (!thread)
		return 0;
	thread->times.wakeups++;
	if (thread->state >= SK_SPAN_BLOCKED)
		enter_state(thread, task->pid, now, SK_SPAN_RUNNABLE, SK_SPAN_DETAIL_UNKNOWN,
			    full_jobs);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int on_wakeup(__u64 *ctx)
{
	return seen_wakeup((struct task_struct *)ctx[0]);
}

/* This hook runs in the thread that made the new one. */
SEC("tp_btf/sched_wakeup_new")
int on_wakeup_new(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	__u64 key = (__u64)task;
	struct sk_thread_row *thread;

	seen_wakeup(task);
	thread = full_jobs && job_of_typed_task(task) ? bpf_map_lookup_elem(&threads, &key) : NULL;
	if (thread)
		write_span(thread, (__u32)bpf_get_current_pid_tgid(), SK_SPAN_MADE);
	return 0;
}
