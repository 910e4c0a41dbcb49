/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and pruning the tables of threads and jobs. See host.h.
 *
 * The kernel changes an entry while it is copied. All its counters only grow, so two equal copies
 * were the entry's value at one moment: each thread is read again until that holds. If that moment
 * lies inside a transition whose CPU was preempted, the entry's `sequence` is odd.
 *
 * A thread that ends during the reading moves into its job's sum. Then the job's `begun` after the
 * reading differs from its `ended` before it, and the whole reading is taken again. Entries that
 * still changed at the last try are reported. */
#include <errno.h>
#include <string.h>

#include "host_parts.h"
#include "bpf/kernel/now.h"
#include "bpf/threads/times.h"

#define TRIES 4
#define EXPIRE_AFTER_NS UINT64_C(1000000000)
#define EXPIRE_LOOK_NS UINT64_C(250000000)

int sk_bpf_batch_read(int map, struct sk_bpf_batch *batch)
{
	uint32_t token = 0;
	bool first = true;

	batch->count = 0;
	while (batch->count < batch->room) {
		uint32_t count = batch->room - batch->count;
		int error = bpf_map_lookup_batch(
			map, first ? NULL : &token, &token,
			(char *)batch->keys + batch->count * batch->key_bytes,
			(char *)batch->values + batch->count * batch->value_bytes, &count, NULL);

		if (error && errno != ENOENT)
			return -errno;
		batch->count += count;
		if (error)
			return 0;
		first = false;
	}
	return -ENOSPC;
}

/* Interrupts and faults are counted one by one, each by itself: they may grow meanwhile. */
#define SETTLES offsetof(struct sk_thread_row, times.irq_ns)

/* Return true when `entry` is the thread's state at one moment; false when the thread is gone. */
static bool settle(int map, struct sk_bpf_thread_entry *entry, uint64_t *unsettled)
{
	struct sk_thread_row again;

	for (int i = 0; i < TRIES; i++) {
		if (bpf_map_lookup_elem(map, &entry->key, &again))
			return false;
		if (!memcmp(&again, &entry->thread, SETTLES) && again.sequence % 2 == 0)
			return entry->thread.state != 0;
		entry->thread = again;
	}
	*unsettled += 1;
	return entry->thread.state != 0;
}

static struct sk_bpf_job_reading *reading_of(struct sk_bpf_host *host, uint64_t job)
{
	uint32_t before = host->slots.count, at = sk_bpf_slots_add(&host->slots, job);

	if (at == SK_SLOT_NONE)
		return NULL;
	if (host->slots.count != before)
		host->readings[at] = (struct sk_bpf_job_reading){.job = job};
	return &host->readings[at];
}

static int read_jobs(struct sk_bpf_host *host, uint64_t job)
{
	struct sk_job_row *values = host->job_batch.values;

	if (job) {
		*(uint64_t *)host->job_batch.keys = job;
		host->job_batch.count = 1;
		return bpf_map_lookup_elem(host->jobs_fd, &job, values) ? -errno : 0;
	}
	return sk_bpf_batch_read(host->jobs_fd, &host->job_batch);
}

static int start_reading(struct sk_bpf_host *host, uint64_t job)
{
	const struct sk_job_row *values = host->job_batch.values;
	const uint64_t *keys = host->job_batch.keys;
	int error = read_jobs(host, job);

	sk_bpf_slots_clear(&host->slots);
	if (error == -ENOENT && job)
		host->job_batch.count = 0;
	else if (error)
		return error;
	for (uint32_t i = 0; i < host->job_batch.count; i++) {
		struct sk_bpf_job_reading *reading = reading_of(host, keys[i]);

		if (reading)
			reading->value = values[i];
	}
	return 0;
}

/* Copy the requested threads into `entries`; a thread without room still counts. */
static int read_threads(struct sk_bpf_host *host, uint64_t job, uint32_t *ret)
{
	const struct sk_thread_row *values = host->thread_batch.values;
	const uint64_t *keys = host->thread_batch.keys;
	int error = sk_bpf_batch_read(host->threads_fd, &host->thread_batch);

	*ret = 0;
	if (error)
		return error;
	for (uint32_t i = 0; i < host->thread_batch.count; i++) {
		struct sk_bpf_thread_entry *entry = &host->entries[*ret];
		struct sk_bpf_job_reading *reading;
		uint64_t unsettled = 0;

		if (job && values[i].job != job)
			continue;
		entry->key = keys[i];
		entry->thread = values[i];
		if (!settle(host->threads_fd, entry, &unsettled))
			continue;
		reading = reading_of(host, entry->thread.job);
		if (!reading)
			continue;
		reading->unsettled += unsettled;
		reading->count++;
		*ret += 1;
	}
	return 0;
}

/* Mark jobs with threads that ended during the reading: they may be missing from it or be in it
 * twice in part, because their job's sum is not made in one step. */
static int compare_ended(struct sk_bpf_host *host, uint64_t job, bool *ret_settled)
{
	const struct sk_job_row *values = host->job_batch.values;
	const uint64_t *keys = host->job_batch.keys;
	int error = read_jobs(host, job);

	*ret_settled = true;
	if (error)
		return error == -ENOENT ? 0 : error;
	for (uint32_t i = 0; i < host->job_batch.count; i++) {
		struct sk_bpf_job_reading *reading = reading_of(host, keys[i]);

		if (!reading || values[i].begun <= reading->value.ended)
			continue;
		reading->unsettled += values[i].begun - reading->value.ended;
		*ret_settled = false;
	}
	return 0;
}

/* Sort threads by job and add them, with their open intervals, to their job. */
static void add_up(struct sk_bpf_host *host, uint32_t threads, uint64_t now_ns)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < host->slots.count; i++) {
		host->readings[i].first = first;
		first += host->readings[i].count;
		host->readings[i].count = 0;
	}
	for (uint32_t i = 0; i < threads; i++) {
		struct sk_thread_row *thread = &host->entries[i].thread;
		struct sk_bpf_job_reading *reading = reading_of(host, thread->job);

		sk_bpf_thread_close(thread, now_ns);
		sk_bpf_times_add(&reading->value.times, &thread->times);
		host->order[reading->first + reading->count++] = i;
	}
}

int sk_bpf_host_read(struct sk_bpf_host *host, uint64_t job, struct sk_bpf_reading *ret)
{
	bool settled = false;
	uint32_t threads = 0;

	sk_bpf_opt_in_look(host);
	*ret = (struct sk_bpf_reading){.asked_ns = sk_bpf_now_ns()};
	ret->now_ns = ret->asked_ns;
	if (host->threads_fd < 0)
		return 0;
	for (int i = 0; i < TRIES && !settled; i++) {
		int error = start_reading(host, job);

		error = error ? error : read_threads(host, job, &threads);
		/* Taken before the comparison: a thread that ends after it is assumed to be there
		 * until now. */
		ret->now_ns = sk_bpf_now_ns();
		error = error ? error : compare_ended(host, job, &settled);
		if (error)
			return error;
	}
	add_up(host, threads, ret->now_ns);
	ret->jobs = host->readings;
	ret->job_count = host->slots.count;
	ret->threads = host->entries;
	ret->order = host->order;
	return 0;
}

static uint32_t mode_of(const struct sk_bpf_host *host, uint64_t job)
{
	uint32_t mode;

	return bpf_map_lookup_elem(host->modes_fd, &job, &mode) ? 0 : mode;
}

static void count_full(struct sk_bpf_host *host, uint32_t before, uint32_t after)
{
	host->full_jobs += (after == SK_JOB_FULL) - (uint64_t)(before == SK_JOB_FULL);
	sk_bpf_host_publish_full(host);
}

int sk_bpf_host_follow(struct sk_bpf_host *host, uint64_t job, bool full)
{
	uint32_t mode = full ? SK_JOB_FULL : SK_JOB_KEPT, before;
	int error;

	if (host->modes_fd < 0)
		return 0;
	error = full ? sk_bpf_span_ring_open(host) : 0;
	if (error)
		return error;
	before = mode_of(host, job);
	if (full && before != SK_JOB_FULL && host->full_jobs >= SK_FULL_JOBS_MAX)
		return -ENOSPC;
	if (bpf_map_update_elem(host->modes_fd, &job, &mode, BPF_ANY))
		return errno == E2BIG ? -ENOSPC : -errno;
	count_full(host, before, mode);
	return 0;
}

static int forget_threads(struct sk_bpf_host *host, uint64_t job)
{
	const struct sk_thread_row *values = host->thread_batch.values;
	const uint64_t *keys = host->thread_batch.keys;
	int error = sk_bpf_batch_read(host->threads_fd, &host->thread_batch);

	for (uint32_t i = 0; !error && i < host->thread_batch.count; i++)
		if (values[i].job == job)
			bpf_map_delete_elem(host->threads_fd, &keys[i]);
	return error;
}

int sk_bpf_host_unfollow(struct sk_bpf_host *host, uint64_t job)
{
	struct sk_job_row value;
	int error = 0;

	if (host->modes_fd < 0)
		return 0;
	count_full(host, mode_of(host, job), 0);
	bpf_map_delete_elem(host->modes_fd, &job);
	sk_bpf_host_opt_in(host, job, 0);
	if (bpf_map_lookup_elem(host->jobs_fd, &job, &value))
		return 0;
	if (value.alive)
		error = forget_threads(host, job);
	bpf_map_delete_elem(host->jobs_fd, &job);
	host->jobs_at_scan -= host->jobs_at_scan > 0;
	sk_bpf_host_sweep_tallies(host);
	return error;
}

static bool expirable(const struct sk_bpf_host *host, uint64_t key, const struct sk_job_row *job,
		      uint64_t now_ns)
{
	return !job->alive && now_ns > job->last_ns + EXPIRE_AFTER_NS && !mode_of(host, key);
}

void sk_bpf_host_expire(struct sk_bpf_host *host)
{
	const struct sk_job_row *values = host->job_batch.values;
	const uint64_t *keys = host->job_batch.keys;
	struct sk_counter counters[SK_PRODUCERS];
	uint64_t now = sk_bpf_now_ns(), before = host->expired, ignored, made;

	if (host->jobs_fd < 0 || now < host->looked_ns + EXPIRE_LOOK_NS)
		return;
	host->looked_ns = now;
	sk_bpf_host_counters(host, counters, &ignored);
	made = counters[SK_PRODUCER_JOB].made;
	if (host->jobs_at_scan + (made - host->made_at_scan) < host->options.jobs / 4 * 3)
		return;
	if (sk_bpf_batch_read(host->jobs_fd, &host->job_batch))
		return;
	host->jobs_at_scan = host->job_batch.count;
	host->made_at_scan = made;
	for (uint32_t i = 0; i < host->job_batch.count; i++) {
		if (!expirable(host, keys[i], &values[i], now))
			continue;
		if (bpf_map_delete_elem(host->jobs_fd, &keys[i]))
			continue;
		host->expired++;
		host->jobs_at_scan--;
	}
	if (host->expired != before)
		sk_bpf_host_sweep_tallies(host);
}
