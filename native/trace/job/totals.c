/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over a job: the fold and the own counters of living segments. */
#include "trace/job/job_parts.h"

#include <math.h>
#include <string.h>

static uint64_t beyond(uint64_t made, uint64_t kept)
{
	return made > kept ? made - kept : 0;
}

void sk_trace_job_counters(const struct sk_trace_job *job, struct sk_trace_fold_counters *ret)
{
	const struct sk_trace_fold_state *state = job->fold.state;

	*ret = state->retired;
	for (unsigned row = 0; row < SK_FOLD_SEGMENTS; row++)
		if (job->readers[row]) {
			sk_trace_fold_counters_add(ret, &job->readers[row]->counters);
			ret->host_records += state->segments[row].host_records;
		}
	ret->loss[SK_LOSS_late_intervals] = state->causes.late_intervals;
	ret->loss[SK_LOSS_late_waits] = state->causes.late_waits;
	ret->loss[SK_LOSS_broken_spans] = state->causes.broken_spans;
	ret->loss[SK_LOSS_threads_untracked] = state->causes.threads_untracked;
	ret->loss[SK_LOSS_timeline_dropped] += beyond(state->records, SK_EVENTS_CAPACITY);
	ret->loss[SK_LOSS_timeline_spans_dropped] += beyond(state->spans, SK_EVENTS_CAPACITY);
}

static void add_reader(const struct sk_trace_reader *reader,
		       const struct sk_trace_fold_segment *segment, struct sk_trace_job_counts *ret)
{
	double unseen = sk_trace_job_unseen(reader, segment);

	for (unsigned row = 0; row < SK_SEGMENT_ROWS; row++) {
		if (!reader->rows_seen[row])
			continue;
		for (unsigned name = 0; name < SK_SEGMENT_NAMES; name++) {
			ret->kernels[segment->names[name]] += reader->counts[row][name];
			ret->kernels_unseen[segment->names[name]] +=
				unseen * (double)reader->counts[row][name];
		}
		for (unsigned kind = 0; kind < SK_COPY_KINDS; kind++) {
			ret->copies[kind] += reader->copies[row][kind][0];
			ret->bytes[kind] += reader->copies[row][kind][1];
			ret->copies_unseen[kind] += unseen * (double)reader->copies[row][kind][0];
		}
	}
}

double sk_trace_job_unseen(const struct sk_trace_reader *reader,
			   const struct sk_trace_fold_segment *segment)
{
	return sk_trace_cover_unseen(segment->cover_ns,
				     reader->counters.launches + reader->counters.copies,
				     segment->weighted, &reader->costs);
}

void sk_trace_job_counts(const struct sk_trace_job *job, struct sk_trace_job_counts *ret)
{
	const struct sk_trace_fold_state *state = job->fold.state;

	memset(ret, 0, sizeof(*ret));
	for (unsigned name = 0; name < state->names_used; name++) {
		ret->kernels[name] = state->kernels[name].retired;
		ret->kernels_unseen[name] = state->kernels[name].retired_unseen;
	}
	for (unsigned kind = 0; kind < SK_COPY_KINDS; kind++) {
		ret->copies[kind] = state->copies[kind].retired;
		ret->bytes[kind] = state->copies[kind].retired_bytes;
		ret->copies_unseen[kind] = state->copies[kind].retired_unseen;
	}
	for (unsigned row = 0; row < SK_FOLD_SEGMENTS; row++)
		if (job->readers[row])
			add_reader(job->readers[row], &state->segments[row], ret);
}

/* Return the launches that ended but whose time is not in the fold. */
static uint64_t untimed(const struct sk_trace_fold_counters *sum)
{
	const uint64_t *loss = sum->loss;

	return beyond(sum->launches + sum->copies, sum->timed) + loss[SK_LOSS_ring_full] +
	       loss[SK_LOSS_pending_full] + loss[SK_LOSS_failed] + loss[SK_LOSS_unstamped] +
	       loss[SK_LOSS_records_damaged] + loss[SK_LOSS_late_intervals];
}

double sk_trace_job_window_error_ns(const struct sk_trace_job_sums *sums, double total_ns)
{
	return fmin(sums->window_error * total_ns, fmax(sums->untimed_ns, total_ns));
}

void sk_trace_job_row(const struct sk_trace_job_sums *sums, const struct sk_trace_stat *stat,
		      uint64_t count, double unseen, struct sk_trace_job_row *ret)
{
	struct sk_trace_stat_total total;
	double error;

	sk_trace_stat_total(stat, count + (uint64_t)(unseen + 0.5), &total);
	/* Launches of one window are alike, so they show less than as many chosen one by one. */
	error = total.estimate ? sk_trace_job_window_error_ns(sums, (double)total.total_ns) : 0;
	if (total.estimate && !total.timed) /* nothing shows how long a launch is */
		error = sums->untimed_ns;
	error = error > (double)total.error_ns ? error : (double)total.error_ns;
	*ret = (struct sk_trace_job_row){
		.count = count,
		.unseen = (uint64_t)(unseen + 0.5),
		.timed = total.timed,
		.total_ns = total.total_ns,
		.error_ns = (uint64_t)error + stat->missing_ns,
		.estimate = total.estimate || stat->missing_ns,
	};
}

static void add_row(struct sk_trace_job_sums *sums, bool copy, const struct sk_trace_stat *stat,
		    uint64_t count, double unseen, double squares[2])
{
	struct sk_trace_job_row row;

	sk_trace_job_row(sums, stat, count, unseen, &row);
	sums->ns[copy] += row.total_ns;
	squares[copy] += (double)row.error_ns * (double)row.error_ns;
}

/* Return the uncertainty that windows alone leave, as a part of all device time. */
static double window_error(const struct sk_trace_job *job, const struct sk_trace_job_counts *counts)
{
	const struct sk_trace_fold_state *state = job->fold.state;
	double timed = 0, counted = 0, unseen = 0;
	struct sk_trace_clusters clusters;

	sk_trace_job_clusters(job, &clusters);
	for (unsigned row = 0; row < state->processes_used; row++)
		timed += (double)state->processes[row].weighted;
	for (unsigned name = 0; name < state->names_used; name++) {
		counted += (double)counts->kernels[name];
		unseen += counts->kernels_unseen[name];
	}
	for (unsigned kind = 0; kind < SK_COPY_KINDS; kind++) {
		counted += (double)counts->copies[kind];
		unseen += counts->copies_unseen[kind];
	}
	return sk_trace_clusters_error(&clusters, timed, counted, counted + unseen);
}

/* Return the time in which processes' launches were counted alone or not seen, on all devices. */
static double untimed_ns(const struct sk_trace_fold_state *state)
{
	double sum = 0;

	for (unsigned row = 0; row < state->processes_used; row++)
		sum += (double)state->processes[row].cover_ns[SK_COVER_COUNTED] +
		       (double)state->processes[row].cover_ns[SK_COVER_BLIND];
	return sum * (state->devices_used ? state->devices_used : 1);
}

void sk_trace_job_sums(const struct sk_trace_job *job, struct sk_trace_job_sums *ret)
{
	const struct sk_trace_fold_state *state = job->fold.state;
	struct sk_trace_job_counts *counts = &ret->counts;
	double squares[2] = {0, 0};

	memset(ret, 0, sizeof(*ret));
	sk_trace_job_counts(job, counts);
	ret->window_error = window_error(job, counts);
	ret->untimed_ns = untimed_ns(state);
	for (unsigned name = 0; name < state->names_used; name++)
		add_row(ret, false, &state->kernels[name], counts->kernels[name],
			counts->kernels_unseen[name], squares);
	for (unsigned kind = 0; kind < SK_COPY_KINDS; kind++)
		add_row(ret, true, &state->copies[kind], counts->copies[kind],
			counts->copies_unseen[kind], squares);
	for (int copy = 0; copy < 2; copy++) {
		double error = sqrt(squares[copy]);
		double window = sk_trace_job_window_error_ns(ret, (double)ret->ns[copy]);

		/* Random errors partly cancel; those of windows do not. */
		ret->error_ns[copy] = error > window ? error : window;
	}
}

static uint64_t part_of(uint64_t whole, uint64_t part, uint64_t parts)
{
	return parts ? (uint64_t)((unsigned __int128)whole * part / parts) : 0;
}

/* Divide the job's estimated total of kernels or copies among devices as the samples are; as busy
 * time, which is less where launches overlap. */
static uint64_t busy_of(const struct sk_trace_job *job, unsigned device, bool copy,
			uint64_t seen_ns, struct sk_trace_job_causes *ret,
			const struct sk_trace_job_sums *sums)
{
	const struct sk_trace_fold_device *row = &job->fold.state->devices[device];
	uint64_t all = 0, ns;

	for (unsigned each = 0; each < job->fold.state->devices_used; each++)
		all += job->fold.state->devices[each].weighted_ns[copy];
	ns = part_of(sums->ns[copy], row->weighted_ns[copy], all);
	if (all)
		ret->error_ns += (uint64_t)(sums->error_ns[copy] * (double)row->weighted_ns[copy] /
					    (double)all);
	/* Where each launch of a window was timed, their overlap is known. */
	if (row->weighted_ns[copy] == row->busy_ns[copy] && seen_ns < row->busy_ns[copy])
		ns = part_of(ns, seen_ns, row->busy_ns[copy]);
	return ns;
}

/* Add up the aggregates of threads that call devices; of all threads, if none of those has any. */
static void estimate_host(const struct sk_trace_fold_state *state, bool callers,
			  struct sk_trace_causes_estimate *estimate)
{
	for (unsigned row = 0; row < state->host_used; row++) {
		const struct sk_trace_fold_host *host = &state->host[row];
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

/* Read the host's totals where there are no spans. */
static void ask_host(const struct sk_trace_fold_state *state,
		     struct sk_trace_causes_estimate *estimate)
{
	if (state->causes.spans_seen)
		return;
	estimate_host(state, true, estimate);
	if (!estimate->has_host)
		estimate_host(state, false, estimate);
	estimate->held_ns = state->events[SK_KIND_HELD - SK_KIND_BARRIER].ns;
}

static void estimate_causes(const struct sk_trace_job *job, unsigned device, bool all_timed,
			    uint64_t window_ns, struct sk_trace_causes_estimate *estimate,
			    struct sk_trace_job_causes *ret)
{
	const struct sk_trace_fold_device *row = &job->fold.state->devices[device];
	struct sk_trace_job_sums sums;

	ret->estimate = true;
	estimate->kernel_ns = ret->ns[SK_CAUSE_KERNEL];
	estimate->copy_ns = ret->ns[SK_CAUSE_COPY];
	if (!all_timed) {
		sk_trace_job_sums(job, &sums);
		estimate->kernel_ns =
			busy_of(job, device, false, ret->ns[SK_CAUSE_KERNEL], ret, &sums);
		estimate->copy_ns = busy_of(job, device, true, ret->ns[SK_CAUSE_COPY], ret, &sums);
	}
	estimate->by_window = estimate->unseen_ns > 0;
	for (int copy = 0; copy < 2; copy++)
		estimate->missed_ns += row->weighted_ns[copy] - row->busy_ns[copy];
	sk_trace_causes_estimate(estimate, ret->ns);
	ret->error_ns = ret->error_ns < window_ns ? ret->error_ns : window_ns;
}

void sk_trace_job_causes(const struct sk_trace_job *job, unsigned device,
			 struct sk_trace_job_causes *ret)
{
	const struct sk_trace_fold_state *state = job->fold.state;
	const struct sk_trace_causes_device *seen = &state->causes.device[device];
	uint64_t window = state->causes.frontier_ns - state->causes.origin_ns;
	struct sk_trace_causes_estimate estimate = {.unseen_ns = seen->unseen_ns,
						    .hidden_ns = seen->hidden_ns};
	struct sk_trace_fold_counters sum;

	memset(ret, 0, sizeof(*ret));
	if (!state->segments_seen) { /* the job may use the device without a tracer */
		ret->ns[SK_CAUSE_NOT_OBSERVED] = window;
		return;
	}
	sk_trace_job_counters(job, &sum);
	sk_trace_causes_read(&state->causes, device, job->ended || state->finished, ret->ns);
	ret->estimate = sk_trace_job_fill_missing(job, device, ret->ns);
	ret->observed_ns = window - seen->unseen_ns - seen->hidden_ns;
	if (seen->used)
		ask_host(state, &estimate);
	bool all_timed = !untimed(&sum) && !seen->unseen_ns;

	if ((seen->used && !all_timed) || seen->unseen_ns || estimate.has_host)
		estimate_causes(job, device, all_timed, window, &estimate, ret);
}

void sk_trace_job_process(const struct sk_trace_job *job, unsigned index,
			  struct sk_trace_job_process *ret)
{
	const struct sk_trace_fold_state *state = job->fold.state;
	const struct sk_trace_fold_process *row = &state->processes[index];
	double unseen = (double)row->unseen;

	*ret = (struct sk_trace_job_process){
		.launches = row->launches, .copies = row->copies, .tracer_ns = row->tracer_ns};
	for (unsigned s = 0; s < state->segments_used; s++) {
		const struct sk_trace_fold_counters *more;

		if (!job->readers[s] || state->segments[s].process != index)
			continue;
		more = &job->readers[s]->counters;
		ret->launches += more->launches;
		ret->copies += more->copies;
		ret->tracer_ns += more->tracer_ns;
		unseen += sk_trace_job_unseen(job->readers[s], &state->segments[s]) *
			  (double)(more->launches + more->copies);
	}
	ret->unseen = (uint64_t)(unseen + 0.5);
	uint64_t all = ret->launches + ret->copies + ret->unseen;

	ret->estimate = all != row->weighted;
	for (int copy = 0; copy < 2; copy++) {
		const struct sk_trace_stat_sums sums[SK_STAT_DRAWS] = {
			[SK_STAT_WHOLE] = {row->weighted - row->drawn,
					   row->weighted_ns[copy] - row->drawn_ns[copy]},
			[SK_STAT_DRAWN] = {row->drawn, row->drawn_ns[copy]}};

		ret->ns[copy] = sk_trace_stat_scale(sums, all);
	}
}
