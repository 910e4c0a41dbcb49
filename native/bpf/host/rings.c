/* SPDX-License-Identifier: Apache-2.0 */
/* Draining of the rings into memory of one ring's size, and the counters of records that did not
 * fit. See host.h. Programs never wake the reader: it polls. */
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "host_parts.h"

/* A negative answer stops libbpf after this record, which is then consumed. */
static int take(void *context, void *record, size_t size)
{
	struct sk_bpf_drain *drain = context;

	if (size < drain->record_bytes)
		return 0;
	memcpy(drain->records + drain->count * drain->record_bytes, record, drain->record_bytes);
	return ++drain->count < drain->room ? 0 : -ENOBUFS;
}

int sk_bpf_drain_open(struct sk_bpf_drain *drain, int ring_fd)
{
	drain->ring = ring_buffer__new(ring_fd, take, drain, NULL);
	return drain->ring ? 0 : -errno;
}

static void close_span_ring(struct sk_bpf_host *host)
{
	const uint32_t first = 0;

	bpf_map_delete_elem(host->spans_fd, &first);
	ring_buffer__free(host->spans.ring);
	host->spans.ring = NULL;
	sk_bpf_drain_unmake(&host->spans);
}

/* The programs lose spans, and count them, while they find no ring. The mapping of the drain and
 * the table keep the ring after its descriptor is closed. */
int sk_bpf_span_ring_open(struct sk_bpf_host *host)
{
	const uint32_t first = 0;
	int error, fd;

	if (host->spans.ring || host->spans_fd < 0)
		return 0;
	if (!sk_bpf_drain_make(&host->spans, host->options.span_ring_bytes,
			       sizeof(struct sk_job_span)))
		return -ENOMEM;
	fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "span_ring", 0, 0, host->options.span_ring_bytes,
			    NULL);
	error = fd < 0 ? -errno : sk_bpf_drain_open(&host->spans, fd);
	if (!error && bpf_map_update_elem(host->spans_fd, &first, &fd, BPF_ANY))
		error = -errno;
	if (error)
		close_span_ring(host);
	if (fd >= 0)
		close(fd);
	return error;
}

/* The C library keeps what traces of jobs have used, tens of MiB, until it is told to give it back.
 */
bool sk_bpf_host_rest(struct sk_bpf_host *host)
{
	if (!host->spans.ring || host->full_jobs || host->spans.count)
		return !host->spans.ring;
	close_span_ring(host);
	malloc_trim(0);
	return true;
}

static size_t drain(struct sk_bpf_drain *from)
{
	from->count = 0;
	if (from->ring)
		ring_buffer__consume(from->ring);
	return from->count;
}

size_t sk_bpf_host_spans(struct sk_bpf_host *host, const struct sk_job_span **ret)
{
	size_t count = drain(&host->spans);

	sk_bpf_host_expire(host);
	*ret = (const struct sk_job_span *)host->spans.records;
	return count;
}

size_t sk_bpf_host_events(struct sk_bpf_host *host, const struct sk_process_event **ret)
{
	size_t count = drain(&host->events);

	sk_bpf_host_expire(host);
	*ret = (const struct sk_process_event *)host->events.records;
	return count;
}

size_t sk_bpf_host_critical(struct sk_bpf_host *host, const struct sk_notice **ret)
{
	*ret = (const struct sk_notice *)host->critical.records;
	return drain(&host->critical);
}

size_t sk_bpf_host_opens(struct sk_bpf_host *host, const struct sk_notice **ret)
{
	*ret = (const struct sk_notice *)host->opens.records;
	return drain(&host->opens);
}

static void add_counters(int map, struct sk_counter *ret)
{
	int cpus = map < 0 ? 0 : libbpf_num_possible_cpus();
	struct sk_counter values[cpus > 0 ? cpus : 1];

	for (uint32_t producer = 0; cpus > 0 && producer < SK_PRODUCERS; producer++) {
		if (bpf_map_lookup_elem(map, &producer, values))
			continue;
		for (int cpu = 0; cpu < cpus; cpu++) {
			ret[producer].made += values[cpu].made;
			ret[producer].lost += values[cpu].lost;
		}
	}
}

void sk_bpf_host_counters(struct sk_bpf_host *host, struct sk_counter ret[SK_PRODUCERS],
			  uint64_t *ret_expired)
{
	memset(ret, 0, SK_PRODUCERS * sizeof(*ret));
	add_counters(host->counters_fd, ret);
	*ret_expired = host->expired;
}
