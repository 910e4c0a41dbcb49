/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Calls into libraries for GPUs and messages: counts and log2 latencies per process and call,
 * always on, and each call in which a thread waits for other processes.
 *
 * The probes are attached for single processes, so no other process pays. The attach cookie says
 * which call a site stands for, whether it returns, and where its arguments are. A thread's open
 * calls are in its task storage, which goes with the thread. Every loss is counted. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "argument.bpf.h"
#include "records/call.h"
#include "records/collective.h"

char LICENSE[] SEC("license") = "GPL";

/* include/uapi/linux/bpf.h */
#define MAP_PERCPU_HASH 5
#define MAP_PERCPU_ARRAY 6
#define MAP_TASK_STORAGE 29
#define NO_PREALLOC 1
#define STORAGE_CREATE 1

struct open_call {
	__u64 since_ns;
	__u64 call;
};

/* `outer`: the number of open calls with the outermost collective one, 0: none; `made`: where that
 * leaves a new handle. */
struct open_calls {
	__u64 depth;
	__u64 outer;
	__u64 made;
	struct open_call frames[SK_CALL_DEPTH];
};

struct {
	__uint(type, MAP_PERCPU_HASH);
	__uint(map_flags, NO_PREALLOC); /* memory for the existing pairs, on every CPU */
	__uint(max_entries, SK_CALL_KEYS_MAX);
	__type(key, struct sk_call_key);
	__type(value, struct sk_call_times);
} calls SEC(".maps");

struct {
	__uint(type, MAP_TASK_STORAGE);
	__uint(map_flags, NO_PREALLOC);
	__type(key, int);
	__type(value, struct open_calls);
} open SEC(".maps");

struct collective_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* The ring of records, which the loader makes for the first site of a collective. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct collective_ring);
} collectives SEC(".maps");

struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, SK_CALL_LOSSES);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

const struct sk_call_times no_times = {};

static __always_inline int lose(__u32 what)
{
	__u64 *count = bpf_map_lookup_elem(&losses, &what);

	if (count)
		++*count;
	return 0;
}

static __always_inline struct sk_call_times *times_of(struct sk_call_key *key)
{
	struct sk_call_times *times = bpf_map_lookup_elem(&calls, key);

	if (times)
		return times;
	bpf_map_update_elem(&calls, key, &no_times, BPF_NOEXIST);
	return bpf_map_lookup_elem(&calls, key);
}

/* Return the floor of the logarithm, by halving; 0 for 0. */
static __always_inline __u32 log2_of(__u64 value)
{
	__u32 log = 0;

	for (int shift = 32; shift; shift >>= 1) {
		if (value >> shift) {
			value >>= shift;
			log += shift;
		}
	}
	return log < SK_CALL_BUCKETS ? log : SK_CALL_BUCKETS - 1;
}

/* Return how long the thread has waited for a CPU in its life; 0 if the kernel does not keep it. */
static __always_inline __u32 queued_us(void)
{
	struct task_struct___queued *task = (void *)bpf_get_current_task();

	if (!bpf_core_field_exists(task->sched_info))
		return 0;
	return (__u32)(BPF_CORE_READ(task, sched_info.run_delay) / 1000);
}

/* Tell of a call; the stamp is the last thing that is done before others can see the record. */
static __always_inline int tell(const struct sk_collective *about)
{
	struct sk_collective *record = NULL;
	__u64 id = bpf_get_current_pid_tgid();
	__u32 first = 0;
	void *ring = bpf_map_lookup_elem(&collectives, &first);

	if (ring)
		record = bpf_ringbuf_reserve(ring, sizeof(struct sk_collective), 0);
	if (!record)
		return lose(SK_CALL_LOST_RING);
	*record = *about;
	record->pid = id >> 32;
	record->tid = (__u32)id;
	record->queued_us = queued_us();
	record->at_ns = bpf_ktime_get_ns();
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Return the argument that a field of the cookie names; 0 if it names none. */
static __always_inline __u64 named(void *context, __u32 flags, __u32 shift)
{
	__u32 number = flags >> shift & SK_CALL_ARGUMENT;

	return number ? argument(context, number - 1) : 0;
}

static __always_inline void read_unique_id(void *context, struct sk_collective *about)
{
	__u64 at = arguments_in_memory(context), digest = 0xcbf29ce484222325;

	/* The first words hold a random number and the root's address. */
	for (int i = 0; i < 5; i++)
		digest = (digest ^ user_word(at + 8 * i)) * 0x100000001b3;
	about->id = digest ? digest : 1;
	about->size = (__u32)argument(context, 1);
	about->number = (__u32)argument(context, 2);
}

static __always_inline void tell_entry(void *context, __u64 cookie, struct open_calls *here,
				       __u64 depth)
{
	__u32 flags = cookie >> 32;
	struct sk_collective about = {.call = (__u16)cookie, .what = SK_COLLECTIVE_ENTER};

	if (here->outer && here->outer <= depth)
		return;
	about.handle = named(context, flags, SK_CALL_HANDLE_SHIFT);
	about.number = (__u32)named(context, flags, SK_CALL_NUMBER_SHIFT);
	if (flags & SK_CALL_UNIQUE_ID)
		read_unique_id(context, &about);
	here->made = named(context, flags, SK_CALL_MADE_SHIFT);
	here->outer = depth + 1;
	tell(&about);
}

static __always_inline void tell_return(__u64 cookie, struct open_calls *here)
{
	struct sk_collective about = {.call = (__u16)cookie, .what = SK_COLLECTIVE_LEAVE};

	if (here->outer != here->depth + 1) {
		if (here->outer > here->depth) /* it was jumped over */
			here->outer = 0;
		return;
	}
	here->outer = 0;
	about.handle = here->made ? user_word(here->made) : 0;
	tell(&about);
}

static __always_inline int enter(void *context)
{
	__u64 cookie = bpf_get_attach_cookie(context);
	struct sk_call_key key = {
		.pid = bpf_get_current_pid_tgid() >> 32,
		.call = (__u32)cookie,
	};
	struct sk_call_times *times = times_of(&key);
	struct open_calls *here;
	__u64 depth;

	if (!times)
		return lose(SK_CALL_LOST_KEY);
	times->entered++;
	if (cookie >> 32 & SK_CALL_ENTRY_ONLY)
		return 0;
	here = bpf_task_storage_get(&open, bpf_get_current_task_btf(), 0, STORAGE_CREATE);
	depth = here ? here->depth : SK_CALL_DEPTH;
	if (!here || depth >= SK_CALL_DEPTH) {
		if (here) /* frames that were jumped over would fill it for good */
			here->depth = 0;
		return lose(SK_CALL_LOST_FRAME);
	}
	here->frames[depth].call = key.call;
	here->frames[depth].since_ns = bpf_ktime_get_ns();
	here->depth = depth + 1;
	if (cookie >> 32 & SK_CALL_COLLECTIVE)
		tell_entry(context, cookie, here, depth);
	return 0;
}

/* Return the entry time of the innermost open call of this kind; calls open inside it were jumped
 * over. */
static __always_inline __u64 close_frame(struct open_calls *here, __u32 call)
{
	__u64 depth = here->depth;

	for (int i = 0; i < SK_CALL_DEPTH; i++) {
		if (!depth || depth > SK_CALL_DEPTH)
			break;
		depth--;
		if (here->frames[depth & (SK_CALL_DEPTH - 1)].call == call) {
			here->depth = depth;
			return here->frames[depth & (SK_CALL_DEPTH - 1)].since_ns;
		}
	}
	return 0;
}

static __always_inline int leave(void *context)
{
	__u64 now_ns = bpf_ktime_get_ns(), since_ns, took_ns;
	__u64 cookie = bpf_get_attach_cookie(context);
	struct sk_call_key key = {
		.pid = bpf_get_current_pid_tgid() >> 32,
		.call = (__u32)cookie,
	};
	struct open_calls *here = bpf_task_storage_get(&open, bpf_get_current_task_btf(), 0, 0);
	struct sk_call_times *times = bpf_map_lookup_elem(&calls, &key);

	since_ns = here ? close_frame(here, key.call) : 0;
	if (here && since_ns && cookie >> 32 & SK_CALL_COLLECTIVE)
		tell_return(cookie, here);
	if (!times || !since_ns)
		return lose(SK_CALL_STRAY);
	took_ns = now_ns - since_ns;
	times->returned++;
	times->total_ns += took_ns;
	if (took_ns > times->longest_ns)
		times->longest_ns = took_ns;
	times->log2[log2_of(took_ns)]++;
	return 0;
}

SEC("uprobe")
int on_entry(void *context)
{
	return enter(context);
}

SEC("uretprobe")
int on_return(void *context)
{
	return leave(context);
}

/* These programs are for links of many sites (6.6); the loader sets how they are attached. */
SEC("uprobe")
int on_entry_multi(void *context)
{
	return enter(context);
}

SEC("uretprobe")
int on_return_multi(void *context)
{
	return leave(context);
}
