/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of governed tracers and what the fold makes of their windows, in simulated time.
 *
 *     plan plans         compares plans with an oracle that walks through them; exits with 0
 *     plan TRACER JOB    runs 20 seeds of a job under a tracer's limits and costs, a line each:
 * error of the estimated device time, its stated error, cost of looking, all as parts of the truth
 * or of the time
 *
 * Each step of a job makes as many launches as fit into it. The cost of looking makes the host's
 * part of a step longer, as far as the host sets the pace.
 */
#include "tracer/plan.h"
#include "records/segment.h"
#include "trace/statistics/windows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static uint64_t chance = 88172645463325252;

static double random_part(void)
{
	chance ^= chance << 13; /* xorshift64, Marsaglia 2003 */
	chance ^= chance >> 7;
	chance ^= chance << 17;
	return (double)(chance >> 11) / 9007199254740992.0;
}

/* --- plans ------------------------------------------------------------------------------------ */

struct walked {
	double time[4]; /* by phase */
	uint64_t timed_from, timed_to;
};

/* Walk through a period as a simple tracer would, which ignores when it was told to look again. */
static void walk(const struct sk_tracer_plan *windows, uint64_t step, struct walked *ret)
{
	uint64_t from = windows->from_ns, to = from + windows->period_ns, next = 0, unused;
	uint32_t phase = 0;

	*ret = (struct walked){0};
	for (uint64_t at = from; at < to; at += step) {
		uint32_t now = sk_tracer_plan_phase(windows, at, &unused);

		CHECK(unused > at && unused <= to);
		CHECK(at == from || at >= next ||
		      now == phase); /* the phase does not change before `next` */
		CHECK(!sk_tracer_plan_is_over(windows, at));
		if (now == SK_PHASE_TIMED && phase != SK_PHASE_TIMED) {
			CHECK(!ret->timed_from); /* there is one window */
			ret->timed_from = at;
		}
		if (now == SK_PHASE_TIMED)
			ret->timed_to = at + step;
		phase = now;
		next = unused;
	}
	CHECK(sk_tracer_plan_is_over(windows, to));
	for (uint64_t at = from; at < to; at = next) {
		phase = sk_tracer_plan_phase(windows, at, &next);
		ret->time[phase] += (double)(next - at);
	}
}

static void check_one(const struct sk_tracer_plan *windows, const struct sk_tracer_limits *limits,
		      uint64_t mean_ns, const struct walked *walked)
{
	double timed = walked->time[SK_PHASE_TIMED];

	CHECK(windows->period_ns >= mean_ns / 2 - 1);
	CHECK(windows->period_ns <= mean_ns + mean_ns / 2 + 1);
	CHECK(windows->period_ns <= limits->period_max_ns * 3 / 2);
	CHECK(timed >= (double)limits->window_ns / 2 - 1);
	CHECK(timed < (double)windows->period_ns);
	CHECK(sk_tracer_plan_chosen(windows) == windows->period_ns);
}

/* Draw costs and budget, and check what many periods cost together and where windows lie in them.
 */
static void check_plans(void)
{
	struct sk_tracer_limits limits = {.period_ns = (uint64_t)(50 + 1000 * random_part()) * MS,
					  .window_ns = (uint64_t)(1 + 20 * random_part()) * MS};
	struct sk_tracer_costs costs = {.timed = pow(10, 2.5 * random_part() - 2),
					.switch_ns = (uint64_t)(random_part() * 500000),
					.tail_ns = (uint64_t)(random_part() * 2000000)};
	uint32_t budget_ppm = (uint32_t)(1000 + 20000 * random_part());
	double budget = budget_ppm / 1e6, spent = 0, time = 0, bins[4] = {0};
	struct sk_tracer_plan windows;
	uint64_t now = 12345, mean_ns = 0;
	enum { PERIODS = 300 };

	limits.period_max_ns = limits.period_ns * 40;
	costs.counted = costs.timed * 0.3 * random_part();
	sk_tracer_plan_init(&windows, &limits, chance);
	if (costs.timed <= budget) {
		sk_tracer_plan_period(&windows, &costs, budget_ppm, now);
		CHECK(sk_tracer_plan_is_whole(&windows) && !sk_tracer_plan_chosen(&windows));
		return;
	}
	struct walked walked[PERIODS];
	uint64_t lengths[PERIODS], starts[PERIODS];

	for (int i = 0; i < PERIODS; i++) {
		sk_tracer_plan_period(&windows, &costs, budget_ppm, now);
		walk(&windows, windows.period_ns / 997 + 1, &walked[i]);
		lengths[i] = windows.period_ns;
		starts[i] = windows.lead_ns;
		mean_ns += windows.period_ns / PERIODS;
		bool blind = windows.outside == SK_PHASE_BLIND;
		double all = walked[i].time[SK_PHASE_TIMED] +
			     (blind ? walked[i].time[SK_PHASE_COUNTED] : 0);
		double room = (double)windows.period_ns - all;

		if (room > 1)
			bins[(int)(3.999 * ((double)(starts[i] - now)) / room)]++;
		spent += walked[i].time[SK_PHASE_TIMED] * costs.timed + (double)costs.switch_ns +
			 walked[i].time[SK_PHASE_COUNTED] * costs.counted +
			 (double)costs.tail_ns * costs.timed;
		time += (double)windows.period_ns;
		/* A period is blind exactly where counting takes too much of the budget. */
		CHECK(blind == (costs.counted > 0.6 * budget));
		now += windows.period_ns;
		check_one(&windows, &limits, windows.period_ns, &walked[i]);
	}
	CHECK(spent / time <= budget * 1.06 || mean_ns > limits.period_max_ns * 0.9);
	CHECK(spent / time >= budget * 0.55); /* the budget is also used */
	for (int bin = 0; bin < 4; bin++) /* the mean is 75 each, 7.5 is their standard deviation */
		CHECK(bins[bin] > 38 && bins[bin] < 112);
	for (int i = 1; i < PERIODS; i++)
		CHECK(lengths[i] * 4 > lengths[0] && lengths[i] < lengths[0] * 4);
}

static void check_patience(void)
{
	struct sk_tracer_limits limits = {SECOND, 16 * SECOND, MS, 2};
	struct sk_tracer_costs costly = {.timed = 1, .counted = 0.02},
			       far = {.timed = 1, .counted = 0.5}, cheap = {.timed = 1};
	struct sk_tracer_plan windows;

	sk_tracer_plan_init(&windows, &limits, 7);
	for (int i = 0; i < 4; i++) {
		sk_tracer_plan_period(&windows, &costly, 10000, 1 + SECOND * i);
		CHECK(windows.outside == (i < 2 ? SK_PHASE_COUNTED : SK_PHASE_BLIND));
	}
	for (int i = 0; i < 200; i++) /* a cost that has fallen is believed gradually */
		sk_tracer_plan_period(&windows, &cheap, 10000, 5 * SECOND);
	CHECK(windows.outside == SK_PHASE_COUNTED);
	sk_tracer_plan_period(&windows, &costly, 10000, 6 * SECOND);
	CHECK(windows.outside == SK_PHASE_COUNTED);
	sk_tracer_plan_period(&windows, &far, 10000, 6 * SECOND);
	CHECK(windows.outside ==
	      SK_PHASE_BLIND); /* counting that is far over budget is not waited for */
	uint64_t next;

	/* A whole period is judged by its own cost, and not by that of a window. */
	struct sk_tracer_costs sampled = {.timed = 1, .whole = 0.009};

	sk_tracer_plan_init(&windows, &limits, 7);
	sk_tracer_plan_period(&windows, &sampled, 10000, 6 * SECOND);
	CHECK(sk_tracer_plan_is_whole(&windows));
	sampled = (struct sk_tracer_costs){.timed = 0.5, .whole = 1};
	sk_tracer_plan_period(&windows, &sampled, 10000, 6 * SECOND);
	CHECK(!sk_tracer_plan_is_whole(&windows));

	sk_tracer_plan_count(&windows, 7 * SECOND, 50 * MS);
	CHECK(sk_tracer_plan_phase(&windows, 7 * SECOND, &next) == SK_PHASE_COUNTED);
	CHECK(next == 7 * SECOND + 50 * MS && sk_tracer_plan_is_over(&windows, next));
	CHECK(!sk_tracer_plan_is_whole(&windows));
}

/* --- jobs ------------------------------------------------------------------------------------- */

struct tracer {
	const char *name;
	struct sk_tracer_limits limits;
	double timed_ns, counted_ns; /* cost of a launch */
	uint64_t switch_ns, tail_ns;
};

static const struct tracer tracers[] = {
	{"opencl", {125 * MS, 2000 * MS, MS, 7}, 130, 15, 0, 0},
	{"cupti", {SECOND, 16 * SECOND, 10 * MS, 0}, 1500, 400, 300000, 2000000},
	{"rocprofiler", {SECOND, 20 * SECOND, 20 * MS, 0}, 4300, 350, 0, 0},
	{"levelzero", {SECOND, 20 * SECOND, 20 * MS, 0}, 3000, 400, 0, 0},
};

struct job {
	const char *name;
	double gap_ns;	  /* time from launch to launch while nobody looks */
	double slowed;	  /* the part of the cost of looking that makes the job slower */
	double rhythm_ns; /* length of a beat: half of it is three times as slow, with launches
			     twice as long */
	double noise;	  /* noise of the gap from step to step, as a part of it */
	double seconds;
	double unsteady; /* each 100 ms the gap is longer by a chance factor from 1 to this; 0: 1 */
};

static const struct job jobs[] = {
	{"host", 5000, 1, 0, 0.02, 20, 0},	{"device", 5000, 0, 0, 0.02, 20, 0},
	{"slow", 100000, 1, 0, 0.02, 20, 0},	{"fast", 3300, 1, 0, 0.02, 20, 0},
	{"rhythm", 4000, 0, 1e9, 0.02, 100, 0}, {"noisy", 10000, 1, 0, 0.5, 20, 0},
	{"short", 3000, 0, 0, 0.02, 4, 30},
};

struct seen {
	uint64_t cover_ns[SK_COVERS];
	double launches, weighted, busy, all, all_busy, cost_ns;
	struct sk_trace_clusters clusters;
	struct sk_trace_window_sums before, window;
	struct sk_trace_stretch stretch_before;
	double stretch_ns, stretch_launches, tail_ns;
};

static void end_stretch(struct seen *seen)
{
	const struct sk_trace_stretch *before =
		seen->stretch_before.ns ? &seen->stretch_before : NULL;
	struct sk_trace_stretch stretch = {(uint64_t)seen->stretch_ns,
					   (uint64_t)seen->stretch_launches};

	if (!stretch.ns)
		return;
	sk_trace_clusters_add_stretch(&seen->clusters, before, &stretch);
	seen->stretch_before = stretch;
	seen->stretch_ns = seen->stretch_launches = 0;
}

static void take_stretch(struct seen *seen, uint32_t phase, double ns, double launches)
{
	if (phase == SK_PHASE_BLIND) {
		end_stretch(seen);
		seen->tail_ns += ns;
		return;
	}
	seen->tail_ns = 0;
	seen->stretch_ns += ns;
	seen->stretch_launches += launches;
}

/* Take a step of the job as the agent's fold sees it. */
static void take_step(struct seen *seen, uint32_t phase, double ns, double launches, double length)
{
	seen->all += launches;
	seen->all_busy += launches * length;
	seen->cover_ns[phase == SK_PHASE_TIMED	   ? SK_COVER_TIMED
		       : phase == SK_PHASE_COUNTED ? SK_COVER_COUNTED
						   : SK_COVER_BLIND] += (uint64_t)ns;
	take_stretch(seen, phase, ns, launches);
	if (phase != SK_PHASE_BLIND)
		seen->launches += launches;
	if (phase != SK_PHASE_TIMED)
		return;
	seen->weighted += launches;
	seen->busy += launches * length;
	seen->window.busy_ns += (uint64_t)(launches * length);
	seen->window.launches += (uint64_t)launches;
}

static void end_window(struct seen *seen, uint64_t to_ns)
{
	if (seen->window.from_ns) {
		seen->window.to_ns = to_ns;
		sk_trace_clusters_add(&seen->clusters, seen->before.to_ns ? &seen->before : NULL,
				      &seen->window);
		seen->before = seen->window;
	}
	seen->window = (struct sk_trace_window_sums){0};
}

static double unsteady(const struct job *job, double own_ns)
{
	static double factor = 1, until_ns;

	if (job->unsteady <= 0)
		return 1;
	if (own_ns >= until_ns || own_ns < until_ns - 100.0 * MS) {
		factor = pow(job->unsteady, random_part());
		until_ns = own_ns + 100.0 * MS;
	}
	return factor;
}

/* Return the gap at a time of the job, `own_ns`, which passes more slowly while the job is slowed.
 */
static double gap_at(const struct job *job, double own_ns, double *ret_length)
{
	bool slow = job->rhythm_ns > 0 && fmod(own_ns / job->rhythm_ns, 1) < 0.5;

	*ret_length = slow ? 1600 : 800;
	return job->gap_ns * (slow ? 3 : 1) * (1 + job->noise * (2 * random_part() - 1)) *
	       unsteady(job, own_ns);
}

static double cost_of(const struct tracer *tracer, uint32_t phase, bool tail)
{
	if (phase == SK_PHASE_TIMED || tail)
		return tracer->timed_ns;
	return phase == SK_PHASE_COUNTED ? tracer->counted_ns : 0;
}

static void simulate(const struct tracer *tracer, const struct job *job, uint64_t seed, double s)
{
	uint64_t now = SECOND, end = now + (uint64_t)(s * 1e9), next, tail_ns = 0;
	double rate = 1 / job->gap_ns, own_ns = 1e9 * random_part();
	struct sk_tracer_plan windows;
	struct seen seen = {0};

	sk_tracer_plan_init(&windows, &tracer->limits, seed);
	while (now < end) {
		if (sk_tracer_plan_is_over(&windows, now)) {
			struct sk_tracer_costs costs = {.timed = rate * tracer->timed_ns,
							.counted = rate * tracer->counted_ns,
							.switch_ns = tracer->switch_ns,
							.tail_ns = tracer->tail_ns};

			sk_tracer_plan_period(&windows, &costs, 10000, now);
		}
		uint32_t phase = sk_tracer_plan_phase(&windows, now, &next);
		double length, gap = gap_at(job, own_ns, &length);
		double each_ns = cost_of(tracer, phase, now < tail_ns);
		double slower = 1 + job->slowed * each_ns / gap, step = (double)MS * slower;

		step = step < (double)(next - now) ? ceil(step) : (double)(next - now);
		double launches = step / slower / gap;

		if (phase == SK_PHASE_TIMED && sk_tracer_plan_chosen(&windows) &&
		    !seen.window.from_ns)
			seen.window.from_ns = now;
		take_step(&seen, phase, step, launches, length);
		seen.cost_ns += launches * each_ns;
		if (phase != SK_PHASE_BLIND)
			rate += (launches / step - rate) / 32;
		own_ns += step / slower;
		now += (uint64_t)step;
		if (phase == SK_PHASE_TIMED && now == windows.timed_to_ns) {
			end_window(&seen, now);
			tail_ns = now + tracer->tail_ns;
		}
	}
	end_stretch(&seen);
	sk_trace_clusters_add_tail(&seen.clusters, (uint64_t)seen.tail_ns);
	struct sk_trace_launch_costs costs = {(uint32_t)tracer->timed_ns,
					      (uint32_t)tracer->counted_ns};
	double unseen = sk_trace_cover_unseen(seen.cover_ns, (uint64_t)seen.launches,
					      (uint64_t)seen.weighted, &costs);
	double counted = seen.launches * (1 + unseen);
	double estimate = seen.weighted > 0 ? seen.busy / seen.weighted * counted : 0;
	double stated =
		sk_trace_clusters_error(&seen.clusters, seen.weighted, seen.launches, counted);

	printf("%.6f %.6f %.6f\n", estimate / seen.all_busy - 1, stated * estimate / seen.all_busy,
	       seen.cost_ns / (double)(end - SECOND));
}

int main(int count, char **words)
{
	if (count == 2 && !strcmp(words[1], "plans")) {
		for (int i = 0; i < 400; i++)
			check_plans();
		check_patience();
		return 0;
	}
	uint64_t seeds = count == 3 && !strcmp(words[2], "short") ? 200 : 20;

	for (size_t t = 0; count == 3 && t < sizeof(tracers) / sizeof(tracers[0]); t++)
		for (size_t j = 0; j < sizeof(jobs) / sizeof(jobs[0]); j++)
			if (!strcmp(tracers[t].name, words[1]) && !strcmp(jobs[j].name, words[2]))
				for (uint64_t seed = 1; seed <= seeds; seed++)
					simulate(&tracers[t], &jobs[j], seed, jobs[j].seconds);
	return count == 3 ? 0 : 2;
}
