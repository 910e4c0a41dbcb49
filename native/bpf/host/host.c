/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a host: all is made and freed here, that for spans with their ring. See host.h. */
#include "host.h"
#include "host_parts.h"
#include "bpf/catalogue/table.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sk_bpf_probe_id(enum sk_bpf_probe probe)
{
	return sk_bpf_row_of(probe)->id;
}

static bool ring_size_fits(uint32_t bytes)
{
	return bytes >= 4096 && bytes <= (1u << 30) && !(bytes & (bytes - 1));
}

static bool options_fit(const struct sk_bpf_host_options *options)
{
	return options->threads >= 1 && options->threads <= (1u << 22) && options->jobs >= 1 &&
	       options->jobs <= (1u << 20) && options->tallies >= 1 &&
	       options->tallies <= (1u << 20) && ring_size_fits(options->span_ring_bytes) &&
	       ring_size_fits(options->event_ring_bytes) &&
	       ring_size_fits(options->notice_ring_bytes) && strlen(options->btf_path) < PATH_MAX;
}

static bool batch_new(struct sk_bpf_batch *batch, uint32_t entries, size_t key_bytes,
		      size_t value_bytes)
{
	batch->room = entries + entries / 4 + 64; /* entries that come while others go */
	batch->key_bytes = key_bytes;
	batch->value_bytes = value_bytes;
	batch->keys = calloc(batch->room, key_bytes);
	batch->values = calloc(batch->room, value_bytes);
	return batch->keys && batch->values;
}

/* The 8 bytes before each record belong to the ring. */
bool sk_bpf_drain_make(struct sk_bpf_drain *drain, uint32_t ring_bytes, size_t record_bytes)
{
	drain->record_bytes = record_bytes;
	drain->room = ring_bytes / (record_bytes + 8);
	drain->records = calloc(drain->room, record_bytes);
	return drain->records;
}

void sk_bpf_drain_unmake(struct sk_bpf_drain *drain)
{
	free(drain->records);
	*drain = (struct sk_bpf_drain){0};
}

static bool slots_new(struct sk_bpf_slots *slots, uint32_t jobs)
{
	uint32_t size = 2 * SK_FULL_JOBS_MAX;

	while (size < 2 * jobs)
		size *= 2;
	slots->mask = size - 1;
	slots->table = calloc(size, sizeof(*slots->table));
	return slots->table;
}

static bool allocate(struct sk_bpf_host *host)
{
	const struct sk_bpf_host_options *options = &host->options;

	if (!batch_new(&host->thread_batch, options->threads, 8, sizeof(struct sk_thread_row)) ||
	    !batch_new(&host->job_batch, options->jobs, 8, sizeof(struct sk_job_row)) ||
	    !batch_new(&host->tally_batch, options->tallies, sizeof(struct sk_tally_key),
		       sizeof(struct sk_tally)) ||
	    !batch_new(&host->wait_batch, SK_STACK_WAITS, sizeof(struct sk_stack_key),
		       sizeof(struct sk_stack_wait)) ||
	    !sk_bpf_drain_make(&host->events, options->event_ring_bytes,
			       sizeof(struct sk_process_event)) ||
	    !sk_bpf_drain_make(&host->critical, options->notice_ring_bytes,
			       sizeof(struct sk_notice)) ||
	    !sk_bpf_drain_make(&host->opens, options->notice_ring_bytes,
			       sizeof(struct sk_notice)) ||
	    !slots_new(&host->slots, host->job_batch.room + host->thread_batch.room))
		return false;
	host->fault_event_room = 2 * (uint32_t)libbpf_num_possible_cpus();
	host->fault_events = calloc(host->fault_event_room, sizeof(*host->fault_events));
	host->entries = calloc(host->thread_batch.room, sizeof(*host->entries));
	host->order = calloc(host->thread_batch.room, sizeof(*host->order));
	host->readings = calloc(host->slots.mask, sizeof(*host->readings));
	return host->fault_events && host->entries && host->order && host->readings;
}

int sk_bpf_host_new(const struct sk_bpf_host_options *options, struct sk_bpf_host **ret)
{
	struct sk_bpf_host *host;

	if (!options_fit(options))
		return -EINVAL;
	host = calloc(1, sizeof(*host));
	if (!host)
		return -ENOMEM;
	host->options = *options;
	host->threads_fd = host->jobs_fd = host->modes_fd = host->spans_fd = -1;
	host->tallies_fd = host->counters_fd = host->stats_fd = -1;
	host->opt_ins_fd = host->stack_waits_fd = host->stacks_fd = -1;
	snprintf(host->btf_path, sizeof(host->btf_path), "%s", options->btf_path);
	host->options.btf_path = host->btf_path;
	if (!allocate(host)) {
		sk_bpf_host_free(host);
		return -ENOMEM;
	}
	*ret = host;
	return 0;
}

static void batch_free(struct sk_bpf_batch *batch)
{
	free(batch->keys);
	free(batch->values);
}

void sk_bpf_host_free(struct sk_bpf_host *host)
{
	if (!host)
		return;
	sk_bpf_host_detach(host);
	batch_free(&host->thread_batch);
	batch_free(&host->job_batch);
	batch_free(&host->tally_batch);
	batch_free(&host->wait_batch);
	sk_bpf_drain_unmake(&host->spans);
	sk_bpf_drain_unmake(&host->events);
	sk_bpf_drain_unmake(&host->critical);
	sk_bpf_drain_unmake(&host->opens);
	free(host->slots.table);
	free(host->fault_events);
	free(host->entries);
	free(host->order);
	free(host->readings);
	free(host);
}
