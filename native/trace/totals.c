/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over a job: what is in the fold and what its living segments count themselves. */
#include "trace/job.h"

#include <string.h>

static uint64_t beyond(uint64_t made, uint64_t kept)
{
	return made > kept ? made - kept : 0;
}

void sk_job_counters(const struct sk_job *job, struct sk_fold_counters *ret)
{
	const struct sk_fold_state *state = job->fold.state;

	*ret = state->retired;
	for (unsigned row = 0; row < SK_FOLD_SEGMENTS; row++)
		if (job->readers[row])
			sk_fold_counters_add(ret, &job->readers[row]->counters);
	ret->loss[SK_LOSS_late_intervals] = state->causes.late_intervals;
	ret->loss[SK_LOSS_broken_spans] = state->causes.broken_spans;
	ret->loss[SK_LOSS_threads_untracked] = state->causes.threads_untracked;
	ret->loss[SK_LOSS_timeline_dropped] += beyond(state->records, SK_EVENTS_CAPACITY);
	ret->loss[SK_LOSS_timeline_spans_dropped] += beyond(state->spans, SK_EVENTS_CAPACITY);
}

static void add_reader(const struct sk_reader *reader, const struct sk_fold_segment *segment,
		       uint64_t kernels[SK_FOLD_NAMES], uint64_t copies[SK_COPY_KINDS][2])
{
	for (unsigned row = 0; row < SK_SEGMENT_ROWS; row++) {
		if (!reader->rows_seen[row])
			continue;
		for (unsigned name = 0; name < SK_SEGMENT_NAMES; name++)
			kernels[segment->names[name]] += reader->counts[row][name];
		for (unsigned kind = 0; kind < SK_COPY_KINDS; kind++) {
			copies[kind][0] += reader->copies[row][kind][0];
			copies[kind][1] += reader->copies[row][kind][1];
		}
	}
}

void sk_job_counts(const struct sk_job *job, uint64_t kernels[SK_FOLD_NAMES],
		   uint64_t copies[SK_COPY_KINDS][2])
{
	const struct sk_fold_state *state = job->fold.state;

	memset(kernels, 0, sizeof(*kernels) * SK_FOLD_NAMES);
	for (unsigned name = 0; name < state->names_used; name++)
		kernels[name] = state->kernels[name].retired;
	for (unsigned kind = 0; kind < SK_COPY_KINDS; kind++) {
		copies[kind][0] = state->copies[kind].retired;
		copies[kind][1] = state->copies[kind].retired_bytes;
	}
	for (unsigned row = 0; row < SK_FOLD_SEGMENTS; row++)
		if (job->readers[row])
			add_reader(job->readers[row], &state->segments[row], kernels, copies);
}

/* Launches whose time is not in the fold although they ended. */
static uint64_t untimed(const struct sk_fold_counters *sum)
{
	const uint64_t *loss = sum->loss;

	return beyond(sum->launches + sum->copies, sum->timed) + loss[SK_LOSS_ring_full] +
	       loss[SK_LOSS_pending_full] + loss[SK_LOSS_failed] + loss[SK_LOSS_unstamped] +
	       loss[SK_LOSS_records_damaged] + loss[SK_LOSS_late_intervals];
}

/* Estimated device time of all kernels, or of all copies. */
static uint64_t total_of(const struct sk_stat *stats, const uint64_t *counts, unsigned rows,
			 unsigned stride)
{
	struct sk_stat_total total;
	uint64_t sum = 0;

	for (unsigned row = 0; row < rows; row++) {
		sk_stat_total(&stats[row], counts[row * stride], &total);
		sum += total.total_ns;
	}
	return sum;
}

static uint64_t part_of(uint64_t whole, uint64_t part, uint64_t parts)
{
	return parts ? (uint64_t)((unsigned __int128)whole * part / parts) : 0;
}

/* The job's estimated totals, divided among devices as the samples are. */
static void estimate_busy(const struct sk_job *job, unsigned device,
			  struct sk_causes_estimate *estimate)
{
	const struct sk_fold_state *state = job->fold.state;
	uint64_t kernels[SK_FOLD_NAMES], copies[SK_COPY_KINDS][2];
	uint64_t kernel_ns = 0, copy_ns = 0;

	sk_job_counts(job, kernels, copies);
	for (unsigned row = 0; row < state->devices_used; row++) {
		kernel_ns += state->devices[row].kernel_ns;
		copy_ns += state->devices[row].copy_ns;
	}
	estimate->kernel_ns = part_of(total_of(state->kernels, kernels, state->names_used, 1),
				      state->devices[device].kernel_ns, kernel_ns);
	estimate->copy_ns = part_of(total_of(state->copies, &copies[0][0], SK_COPY_KINDS, 2),
				    state->devices[device].copy_ns, copy_ns);
}

/* Aggregates of the threads that call devices; of all, where none of those has any. */
static void estimate_host(const struct sk_fold_state *state, bool callers,
			  struct sk_causes_estimate *estimate)
{
	for (unsigned row = 0; row < state->host_used; row++) {
		const struct sk_fold_host *host = &state->host[row];
		uint64_t life = 0;
		bool calls = false;

		for (unsigned t = 0; t < state->causes.threads; t++)
			calls |= state->causes.thread[t].tid == host->tid &&
				 state->causes.thread[t].launched;
		if (callers && !calls)
			continue;
		for (int part = 0; part < 4; part++) {
			estimate->host[part] += host->ns[part];
			life += host->ns[part];
		}
		estimate->has_host = true;
		if (life > estimate->host_longest_ns)
			estimate->host_longest_ns = life;
	}
}

void sk_job_causes(const struct sk_job *job, unsigned device, uint64_t ret[SK_CAUSES],
		   bool *estimated)
{
	const struct sk_fold_state *state = job->fold.state;
	struct sk_causes_estimate estimate = {0};
	struct sk_fold_counters sum;

	sk_job_counters(job, &sum);
	sk_causes_read(&state->causes, device, job->ended || state->finished, ret);
	*estimated = false;
	if (!state->segments_seen) { /* the job may use the device by other means */
		memset(ret, 0, sizeof(*ret) * SK_CAUSES);
		ret[SK_CAUSE_NOT_OBSERVED] = state->causes.frontier_ns - state->causes.origin_ns;
		return;
	}
	if (!state->causes.device[device].used)
		return;
	if (!state->causes.spans_seen) {
		estimate_host(state, true, &estimate);
		if (!estimate.has_host)
			estimate_host(state, false, &estimate);
	}
	if (!untimed(&sum) && !estimate.has_host)
		return;
	*estimated = true;
	estimate.kernel_ns = ret[SK_CAUSE_KERNEL];
	estimate.copy_ns = ret[SK_CAUSE_COPY];
	if (untimed(&sum))
		estimate_busy(job, device, &estimate);
	sk_causes_estimate(&estimate, ret);
}
