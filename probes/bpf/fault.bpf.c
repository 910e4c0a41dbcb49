/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Page faults of jobs as they happen: their number by mode, and the time on a CPU that they take.
 *
 * Every fault of the machine passes here while this is attached, so it is attached only while a job
 * opts in. A fault begins at the tracepoint and ends at the kernel's software event of page faults,
 * which counts handled ones: mm_account_fault() of mm/memory.c. A fault that is not handled (it
 * becomes a signal, or an error of a system call) has no end and takes no time here. The time to
 * enter the kernel and to leave it lies outside both. It is added as the loader measured it, scaled
 * to the CPU's present speed: a constant piece of work, the gauge, is timed now and then. The clock
 * is the thread's own time on CPU, so no fault contains waiting. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "opt_in.bpf.h"
#include "interval.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* The loader's own thread, while it measures the time outside. */
volatile __u32 measured_tid = 0;
volatile __u64 measured_since_ns = 0;
volatile __u64 measured_ns = 0;
volatile __u64 measured_faults = 0;
volatile __u64 measured_gauge_ns = 0; /* the mean, after the newest fault */

/* The time of each fault before its begin and after its end, and the gauge meanwhile; written by
 * the loader. */
volatile __u64 outside_ns = 0;
volatile __u64 outside_gauge_ns = 0;

#define GAUGE_EVERY 8
#define GAUGE_PARTS 16 /* the mean moves by this part of each reading's distance from it */
#define GAUGE_MOST 4   /* times the loader's measurement; a longer reading was an interrupt */

struct gauge {
	__u64 faults;
	__u64 mean; /* in GAUGE_PARTS of a ns; 0: not read yet */
	__u64 outside_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gauge);
} gauges SEC(".maps");

/* The map stays empty: looking it up is the gauge's work. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u64);
} nothing SEC(".maps");

static __always_inline __u64 read_gauge(void)
{
	__u64 from = bpf_ktime_get_ns(), key = from;

	bpf_map_lookup_elem(&nothing, &key);
	key++;
	bpf_map_lookup_elem(&nothing, &key);
	return bpf_ktime_get_ns() - from;
}

/* A third of the time outside is the same on a CPU that shares its core as on one that does not;
 * the rest scales with the gauge. Both were measured on loaded and idle CPUs. */
static __always_inline __u64 outside_now(__u64 mean)
{
	__u64 base = outside_gauge_ns * GAUGE_PARTS;

	return base ? outside_ns * (base + 2 * mean) / (3 * base) : outside_ns;
}

static __always_inline void turn_gauge(struct gauge *gauge)
{
	__u64 ns = read_gauge(), most = outside_gauge_ns * GAUGE_MOST;

	if (most && ns > most)
		ns = most;
	if (gauge->mean)
		gauge->mean += ns - gauge->mean / GAUGE_PARTS;
	else
		gauge->mean = ns * GAUGE_PARTS;
	gauge->outside_ns = outside_now(gauge->mean);
}

static __always_inline struct gauge *gauge_here(void)
{
	__u32 zero = 0;
	struct gauge *gauge = bpf_map_lookup_elem(&gauges, &zero);

	if (gauge && gauge->faults++ % GAUGE_EVERY == 0)
		turn_gauge(gauge);
	return gauge;
}

/* Return the running thread's entry if its job, which is not 0, opted in. */
static __always_inline struct sk_thread_row *asking_thread(__u64 job)
{
	__u32 *wanted = bpf_map_lookup_elem(&opt_ins, &job);
	__u64 key = bpf_get_current_task();

	return wanted && (*wanted & SK_OPT_IN_FAULTS) ? bpf_map_lookup_elem(&threads, &key) : NULL;
}

static __always_inline bool measured(struct task_struct *task)
{
	return measured_tid && task->pid == (int)measured_tid;
}

static __always_inline __u64 time_on_cpu(const struct sk_thread_row *thread, __u64 now)
{
	__u64 open = now > thread->since_ns ? now - thread->since_ns : 0;

	return thread->times.ns[SK_SPAN_ON_CPU - 1] + open;
}

/* A long time without faults is closed here, so that it is not mixed with the faults that begin
 * now. */
static __always_inline void begin_fault(struct sk_thread_row *thread, __u64 now)
{
	__u64 quiet = thread->handled_to_ns;

	if (thread->state != SK_SPAN_ON_CPU)
		return;
	if (quiet < thread->since_ns)
		quiet = thread->since_ns;
	if (now > quiet + SK_APART_NS) {
		part_from_faults(thread, now, true);
		enter_state(thread, thread->tid, now, SK_SPAN_ON_CPU, SK_SPAN_DETAIL_UNKNOWN, true);
	}
	thread->fault_since_ns = time_on_cpu(thread, now);
}

/* The clock is read first, because the rest belongs to the fault. The loader's thread is treated
 * like a job's. */
SEC("tp_btf/page_fault_user")
int on_user_fault(__u64 *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 job = job_of_typed_task(task);
	struct sk_thread_row *thread = job || measured(task) ? asking_thread(job) : NULL;

	if (thread) {
		thread->times.user_faults++;
		begin_fault(thread, now);
	} else if (!job && measured(task)) {
		measured_since_ns = now;
	}
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int on_kernel_fault(__u64 *ctx)
{
	__u64 now = bpf_ktime_get_ns(), job = job_of_typed_task(bpf_get_current_task_btf());
	struct sk_thread_row *thread = job ? asking_thread(job) : NULL;

	if (thread) {
		thread->times.kernel_faults++;
		begin_fault(thread, now);
	}
	return 0;
}

static __always_inline void end_fault(struct sk_thread_row *thread)
{
	__u64 now = bpf_ktime_get_ns(), ns = time_on_cpu(thread, now);
	struct gauge *gauge = gauge_here();

	ns = ns > thread->fault_since_ns ? ns - thread->fault_since_ns : 0;
	ns += gauge ? gauge->outside_ns : 0;
	thread->times.handling_ns += ns;
	thread->handled_ns += ns;
	thread->handled_to_ns = now;
	thread->fault_since_ns = 0;
}

static __always_inline void end_measured(void)
{
	struct gauge *gauge;

	measured_ns += bpf_ktime_get_ns() - measured_since_ns;
	measured_faults += 1;
	measured_since_ns = 0;
	gauge = gauge_here();
	if (gauge)
		measured_gauge_ns = gauge->mean / GAUGE_PARTS;
}

SEC("perf_event")
int on_fault_handled(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 job = job_of_typed_task(task);
	struct sk_thread_row *thread = job || measured(task) ? asking_thread(job) : NULL;

	if (thread && thread->fault_since_ns)
		end_fault(thread);
	else if (!job && measured(task) && measured_since_ns)
		end_measured();
	return 0;
}
