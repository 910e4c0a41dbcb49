// SPDX-License-Identifier: Apache-2.0
// Making and freeing a host: all memory it will ever use. See host.h.
#include "host.h"
#include "host_state.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static const char *const ids[SK_PROBES] = {
	[SK_PROBE_SWITCH] = "host.sched.switch",	 [SK_PROBE_WAKEUP] = "host.sched.wakeup",
	[SK_PROBE_WAKEUP_NEW] = "host.sched.wakeup_new", [SK_PROBE_SYSCALL] = "host.sched.syscall",
	[SK_PROBE_EXEC] = "host.process.exec",		 [SK_PROBE_FORK] = "host.process.fork",
	[SK_PROBE_EXIT] = "host.process.exit",
};

const char *sk_probe_id(enum sk_probe probe)
{
	return ids[probe];
}

uint64_t sk_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static bool ring_size_fits(uint32_t bytes)
{
	return bytes >= 4096 && bytes <= (1u << 30) && !(bytes & (bytes - 1));
}

static bool options_fit(const struct sk_host_options *options)
{
	return options->threads >= 1 && options->threads <= (1u << 22) && options->jobs >= 1 &&
	       options->jobs <= (1u << 20) && ring_size_fits(options->span_ring_bytes) &&
	       ring_size_fits(options->event_ring_bytes);
}

static bool batch_new(struct sk_batch *batch, uint32_t entries, size_t value_bytes)
{
	batch->room = entries + entries / 4 + 64; /* entries that come while others go */
	batch->keys = calloc(batch->room, sizeof(*batch->keys));
	batch->values = calloc(batch->room, value_bytes);
	return batch->keys && batch->values;
}

/* 8 bytes before each record are the ring's own. */
static bool drain_new(struct sk_drain *drain, uint32_t ring_bytes, size_t record_bytes)
{
	drain->record_bytes = record_bytes;
	drain->room = ring_bytes / (record_bytes + 8);
	drain->records = calloc(drain->room, record_bytes);
	return drain->records;
}

static bool slots_new(struct sk_slots *slots, uint32_t jobs)
{
	uint32_t size = 2 * SK_FULL_JOBS_MAX;

	while (size < 2 * jobs)
		size *= 2;
	slots->mask = size - 1;
	slots->table = calloc(size, sizeof(*slots->table));
	return slots->table;
}

static bool allocate(struct sk_host *host)
{
	const struct sk_host_options *options = &host->options;

	if (!batch_new(&host->thread_batch, options->threads, sizeof(struct sk_thread)) ||
	    !batch_new(&host->job_batch, options->jobs, sizeof(struct sk_job)) ||
	    !drain_new(&host->spans, options->span_ring_bytes, sizeof(struct sk_job_span)) ||
	    !drain_new(&host->events, options->event_ring_bytes, sizeof(struct sk_process_event)) ||
	    !slots_new(&host->slots, host->job_batch.room + host->thread_batch.room))
		return false;
	host->entries = calloc(host->thread_batch.room, sizeof(*host->entries));
	host->order = calloc(host->thread_batch.room, sizeof(*host->order));
	host->readings = calloc(host->slots.mask, sizeof(*host->readings));
	return host->entries && host->order && host->readings;
}

int sk_host_new(const struct sk_host_options *options, struct sk_host **ret)
{
	struct sk_host *host;

	if (!options_fit(options))
		return -EINVAL;
	host = calloc(1, sizeof(*host));
	if (!host)
		return -ENOMEM;
	host->options = *options;
	host->threads_fd = host->jobs_fd = host->modes_fd = -1;
	host->sched_counters = host->process_counters = host->stats_fd = -1;
	if (!allocate(host)) {
		sk_host_free(host);
		return -ENOMEM;
	}
	*ret = host;
	return 0;
}

void sk_host_free(struct sk_host *host)
{
	if (!host)
		return;
	sk_host_detach(host);
	free(host->thread_batch.keys);
	free(host->thread_batch.values);
	free(host->job_batch.keys);
	free(host->job_batch.values);
	free(host->spans.records);
	free(host->events.records);
	free(host->slots.table);
	free(host->entries);
	free(host->order);
	free(host->readings);
	free(host);
}
