/* SPDX-License-Identifier: Apache-2.0
 *
 * The load of the bench: jobs arrive and leave. Before each arrival, running jobs drawn by chance
 * leave until the arrival would not raise the load above its level. An arrival that does not fit is
 * decided and timed as well, and then cancelled.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/bench/bench_decide.h"
#include "core/ledger/job.h"
#include "core/ledger/node.h"
#include "core/policy/policy.h"
#include "core/policy/rate.h"
#include "core/state/table.h"

#define SK_BENCH_STEP_NS 1000000u
#define SK_BENCH_RUN_NS 1000000000u
#define SK_BENCH_MISSES_MAX 200u /* after so many draws in a row without a fit, it is full */
#define SK_BENCH_EFFECTS (8u * SK_BENCH_BATCH)

struct sk_bench_job {
	uint64_t job;
	uint64_t node; /* of its first task */
	uint64_t milli;
};

/* Running jobs, in two lists: with devices and without. */
struct sk_bench_jobs {
	struct sk_bench_job *at;
	uint32_t count;
	uint32_t level; /* most jobs without devices */
};

struct sk_bench {
	struct sk_core *core;
	const struct sk_bench_plan *plan;
	struct sk_bench_jobs jobs[2];
	struct sk_proposal proposal;
	struct sk_effects effects;
	struct sk_submit asked[SK_BENCH_BATCH];
	uint8_t batch[SK_BENCH_BATCH * sizeof(struct sk_submit)]; /* these as short records */
	uint32_t record;					  /* bytes of each request */
	uint32_t requests_n;					  /* that are drawn from */
	uint64_t used_milli;
	uint64_t now_ns;
	uint64_t chance;
	uint64_t uniques;
	uint64_t propose_ns; /* time of propose and of apply in the last step */
	uint64_t apply_ns;
	uint32_t placed; /* jobs placed in the last step, each as a whole */
	int error;
};

static uint64_t bench_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t bench_draw(struct sk_bench *bench, uint64_t below)
{
	return sk_mix(++bench->chance) % below;
}

static uint32_t bench_ns(uint64_t ns)
{
	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

__attribute__((noinline)) int sk_bench_decision(struct sk_core *core, const void *requests,
						size_t size, uint64_t now_ns, uint64_t seed,
						struct sk_proposal *proposal)
{
	return sk_core_propose(core, requests, size, now_ns, seed, proposal);
}

/* Apply, and do what the scheduler does after every apply. */
static void bench_apply(struct sk_bench *bench, const void *commands, size_t size)
{
	size_t consumed;

	bench->effects.count = 0;
	if (!bench->error)
		bench->error = sk_core_apply(bench->core, commands, size, 0, bench->now_ns,
					     &bench->effects, &consumed);
	if (!bench->error)
		sk_core_settle(bench->core, SK_SETTLE_EACH);
}

/* A run time between one and two seconds, so that jobs of a series change which model is fastest.
 */
static uint64_t bench_run_ns(uint64_t job)
{
	return SK_BENCH_RUN_NS + sk_mix(job) % SK_BENCH_RUN_NS;
}

static void bench_leave(struct sk_bench *bench, bool devices)
{
	struct sk_bench_jobs *jobs = &bench->jobs[devices];
	struct sk_bench_job *gone = &jobs->at[bench_draw(bench, jobs->count)];
	const struct sk_core *core = bench->core;
	uint32_t slot = sk_job_find(core, gone->job), task;

	while (!bench->error && (task = core->jobs[slot].tasks_first)) {
		struct sk_outcome outcome = {
			.header = {sizeof outcome, SK_OUTCOME, 0, sk_core_term(core)},
			.job = gone->job,
			.node = core->nodes[core->tasks[task].node].id,
			.attempt = 1,
			.task = core->tasks[task].task,
			.state = SK_SUCCEEDED,
			.run_ns = bench_run_ns(gone->job),
		};

		bench_apply(bench, &outcome, sizeof outcome);
	}
	bench->used_milli -= gone->milli;
	*gone = jobs->at[--jobs->count];
}

/* Make room for arrivals: `milli` of devices, and `hosts` jobs without devices. */
static void bench_room(struct sk_bench *bench, uint64_t milli, uint32_t hosts)
{
	const struct sk_bench_jobs *host = &bench->jobs[0], *device = &bench->jobs[1];

	while (hosts && host->count && host->count + hosts > host->level)
		bench_leave(bench, false);
	while (milli && device->count && bench->used_milli + milli > bench->plan->fill_milli)
		bench_leave(bench, true);
}

static void bench_came(struct sk_bench *bench, const struct sk_place *place)
{
	struct sk_bench_jobs *jobs = &bench->jobs[place->shares_n != 0];
	uint64_t milli = 0;

	for (uint32_t i = 0; i < place->shares_n; i++)
		milli += place->shares[i].milli;
	bench->used_milli += milli;
	if (place->task) {
		jobs->at[jobs->count - 1].milli += milli;
		return;
	}
	jobs->at[jobs->count++] = (struct sk_bench_job){place->job, place->node, milli};
	bench->placed++;
}

/* Waiting jobs of the last batch leave at once. */
static void bench_withdraw(struct sk_bench *bench)
{
	uint64_t waiting[SK_BENCH_BATCH];
	uint32_t count = 0;

	for (uint32_t i = 0; i < bench->effects.count; i++) {
		const struct sk_effect *effect = &bench->effects.records[i];

		if (effect->kind != SK_EFFECT_STATE)
			continue;
		if (effect->state == SK_PENDING && count < SK_BENCH_BATCH)
			waiting[count++] = effect->job;
		for (uint32_t j = 0; effect->state == SK_STARTING && j < count; j++)
			waiting[j] = waiting[j] == effect->job ? 0 : waiting[j];
	}
	for (uint32_t i = 0; i < count; i++) {
		struct sk_cancel cancel = {
			.header = {sizeof cancel, SK_CANCEL, 0, sk_core_term(bench->core)},
			.job = waiting[i],
		};

		if (waiting[i])
			bench_apply(bench, &cancel, sizeof cancel);
	}
}

/* Decide on the arrivals and commit them, both timed. */
static void bench_step(struct sk_bench *bench, uint32_t count, bool counted)
{
	struct sk_proposal *out = &bench->proposal;
	int (*decide)(struct sk_core *, const void *, size_t, uint64_t, uint64_t,
		      struct sk_proposal *) = counted ? sk_bench_decision : sk_core_propose;
	uint64_t from, decided, done;
	struct sk_header header;

	bench->now_ns += SK_BENCH_STEP_NS;
	bench->placed = 0;
	for (uint32_t i = 0; i < count; i++)
		memcpy(bench->batch + (size_t)i * bench->record, &bench->asked[i], bench->record);
	from = bench_clock();
	bench->error = decide(bench->core, bench->batch, (size_t)count * bench->record,
			      bench->now_ns, bench->chance, out);
	decided = bench_clock();
	bench_apply(bench, out->commands, out->commands_size);
	done = bench_clock();
	bench->propose_ns = decided - from;
	bench->apply_ns = done - decided;
	for (size_t at = 0; !bench->error && at < out->commands_size; at += header.size) {
		memcpy(&header, out->commands + at, sizeof header);
		if (header.kind == SK_PLACE) {
			struct sk_place place;

			memcpy(&place, out->commands + at, sizeof place);
			bench_came(bench, &place);
		}
	}
	if (bench->placed < count)
		bench_withdraw(bench);
}

static const struct sk_request *bench_request(struct sk_bench *bench, uint32_t at)
{
	uint64_t drawn = bench_draw(bench, bench->requests_n);

	memcpy(&bench->asked[at], bench->plan->submits + drawn * bench->record, bench->record);
	return &bench->asked[at].request;
}

/* Milli of devices that all tasks of the job want. */
static uint64_t bench_milli(const struct sk_request *request)
{
	return (uint64_t)request->gpu_milli * request->tasks;
}

/* Draw `count` arrivals and make room for them. */
static void bench_asks(struct sk_bench *bench, uint32_t count)
{
	uint64_t milli = 0;
	uint32_t hosts = 0;

	for (uint32_t at = 0; at < count; at++) {
		const struct sk_request *request = bench_request(bench, at);

		milli += bench_milli(request);
		hosts += !request->gpu_milli;
	}
	bench_room(bench, milli, hosts);
}

static void bench_fill(struct sk_bench *bench)
{
	uint32_t misses = 0;

	while (!bench->error && misses < SK_BENCH_MISSES_MAX &&
	       bench->used_milli < bench->plan->fill_milli) {
		const struct sk_request *request = bench_request(bench, 0);

		if (bench->used_milli + bench_milli(request) > bench->plan->fill_milli) {
			misses++;
			continue;
		}
		bench_step(bench, 1, false);
		if (!bench->placed || request->gpu_milli) /* a job without devices fills nothing */
			misses = bench->placed ? 0 : misses + 1;
	}
	bench->jobs[0].level = bench->jobs[0].count;
}

static void bench_live(struct sk_bench *bench, uint32_t count, struct sk_bench_times *times)
{
	for (uint32_t i = 0; i < count && !bench->error; i++) {
		bench_asks(bench, 1);
		bench_step(bench, 1, times != NULL);
		if (!times)
			continue;
		times->propose[i] = bench_ns(bench->propose_ns);
		times->apply[i] = bench_ns(bench->apply_ns);
		times->placed += bench->placed;
	}
}

static void bench_batches(struct sk_bench *bench, struct sk_bench_times *times)
{
	for (uint32_t i = 0; i < bench->plan->batches && !bench->error; i++) {
		bench_asks(bench, SK_BENCH_BATCH);
		bench_step(bench, SK_BENCH_BATCH, false);
		times->batch_propose[i] = bench_ns(bench->propose_ns);
		times->batch_both[i] = bench_ns(bench->propose_ns + bench->apply_ns);
		times->batches_placed += bench->placed;
	}
}

/* Time requests whose memory no earlier request had, so that no ratings are kept for them. */
static void bench_unique(struct sk_bench *bench, struct sk_bench_times *times)
{
	for (uint32_t i = 0; i < bench->plan->unique && !bench->error; i++) {
		struct sk_request *request = &bench->asked[0].request;

		bench_asks(bench, 1);
		bench->uniques++;
		request->memory_bytes += bench->uniques << 12;
		request->cpu_milli += (uint32_t)(bench->uniques % 16);
		bench_step(bench, 1, false);
		times->unique[i] = bench_ns(bench->propose_ns);
		times->unique_placed += bench->placed;
	}
}

/* Search without the kept ratings: every node is rated for this job. */
static uint64_t bench_rescan(struct sk_core *core, uint32_t slot)
{
	const struct sk_job *job = &core->jobs[slot];
	enum sk_placement how = sk_policy_placement(core, job);
	uint64_t least = (uint64_t)SK_SCORE_NONE << 32;
	uint32_t best = 0;

	memset(core->hints->prepared_as, 0, core->hints->stride);
	for (uint32_t node = sk_node_next(core, 1); node; node = sk_node_next(core, node + 1)) {
		uint64_t rating = (uint64_t)sk_rate(core, job, how, node) << 32;

		if (sk_rate_twice(how) && rating >> 32 != SK_SCORE_NONE)
			rating |= sk_rate(core, job, SK_PLACEMENT_BEST, node);
		if (rating < least) {
			least = rating;
			best = node;
		}
	}
	return best ? core->nodes[best].id : 0;
}

static void bench_naive(struct sk_bench *bench, struct sk_bench_times *times)
{
	for (uint32_t i = 0; i < bench->plan->naive && !bench->error; i++) {
		struct sk_submit *asked = &bench->asked[0];
		uint64_t from, found;
		uint32_t last;

		bench_asks(bench, 1);
		asked->header.term = sk_core_term(bench->core);
		bench_apply(bench, asked, bench->record);
		if (bench->error || !bench->effects.count)
			return;
		last = sk_job_find(bench->core, bench->effects.records[0].job);
		from = bench_clock();
		found = bench_rescan(bench->core, last);
		times->naive[i] = bench_ns(bench_clock() - from);
		bench_withdraw(bench);
		bench_step(bench, 1, false);
		if (bench->placed)
			for (int kind = 0; kind < 2; kind++) {
				const struct sk_bench_jobs *jobs = &bench->jobs[kind];

				times->naive_agrees += kind == (asked->request.gpu_milli != 0) &&
						       jobs->at[jobs->count - 1].node == found;
			}
		else
			times->naive_agrees += !found;
	}
}

static uint64_t bench_clock_cost(void)
{
	uint64_t from = bench_clock();

	for (int i = 0; i < 1000; i++)
		bench_clock();
	return (bench_clock() - from) / 1000;
}

static bool bench_allocate(struct sk_bench *bench)
{
	size_t requests = sizeof bench->batch;
	struct sk_limits limits;

	sk_core_limits(bench->core, &limits);
	for (int kind = 0; kind < 2; kind++)
		bench->jobs[kind].at =
			malloc((limits.jobs + (size_t)1) * sizeof bench->jobs[kind].at[0]);
	bench->proposal.commands_capacity = requests + SK_DECISIONS_BYTES_MAX;
	bench->proposal.commands = malloc(bench->proposal.commands_capacity);
	bench->proposal.rejected_capacity = SK_BENCH_BATCH;
	bench->proposal.rejected = malloc(SK_BENCH_BATCH * sizeof *bench->proposal.rejected);
	bench->effects.capacity = SK_BENCH_EFFECTS;
	bench->effects.records = malloc(SK_BENCH_EFFECTS * sizeof *bench->effects.records);
	return bench->jobs[0].at && bench->jobs[1].at && bench->proposal.commands &&
	       bench->proposal.rejected && bench->effects.records;
}

static void bench_free(struct sk_bench *bench)
{
	free(bench->jobs[0].at);
	free(bench->jobs[1].at);
	free(bench->proposal.commands);
	free(bench->proposal.rejected);
	free(bench->effects.records);
}

static void bench_run(struct sk_bench *bench, struct sk_bench_times *times)
{
	times->clock_ns = bench_clock_cost();
	bench_fill(bench);
	bench_live(bench, bench->plan->warm, NULL);
	times->used_milli = bench->used_milli;
	times->jobs = bench->jobs[0].count + bench->jobs[1].count;
	bench_live(bench, bench->plan->decisions, times);
	bench_batches(bench, times);
	bench_naive(bench, times);
	bench_unique(bench, times);
}

/* Find the size of the records in their first one; false if these are no records of one size. */
static bool bench_records(struct sk_bench *bench)
{
	struct sk_header first;

	if (bench->plan->submits_size < sizeof first)
		return false;
	memcpy(&first, bench->plan->submits, sizeof first);
	bench->record = first.size;
	if (first.size < SK_SUBMIT_LEAST || first.size > sizeof(struct sk_submit) ||
	    bench->plan->submits_size % first.size)
		return false;
	bench->requests_n = (uint32_t)(bench->plan->submits_size / first.size);
	return true;
}

int sk_bench_decide(struct sk_core *core, const struct sk_bench_plan *plan,
		    struct sk_bench_times *times)
{
	struct sk_bench *bench = calloc(1, sizeof *bench);
	int error = -ENOMEM;

	if (!bench)
		return -ENOMEM;
	bench->core = core;
	bench->plan = plan;
	bench->chance = plan->seed;
	if (!bench_records(bench))
		error = -EINVAL;
	else if (bench_allocate(bench)) {
		bench_run(bench, times);
		error = bench->error;
	}
	bench_free(bench);
	free(bench);
	return error;
}
