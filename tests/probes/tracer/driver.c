/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of tracers under an adapter that only notes what it is told, at times that the test
 * chooses. The argument says which case; the exit status is 0 when all checks hold. */
#include "tracer/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum { MS = 1000000, BUDGET_PPM = 10000 };

static const uint64_t SECOND = 1000000000;

/* The behaviour of the adapter, and what the driver told it. */
static struct {
	struct sk_tracer_call_costs costs;
	bool refuses, works;
	uint64_t oldest_ns;
	uint32_t mode, phase;
	unsigned applied, settled, harvested, finished;
	uint64_t watermark_at_apply_ns;
} fake;

static uint64_t watermark_ns(void)
{
	const struct sk_tracer_slot *slot = sk_tracer->driver.waiting;

	return slot ? slot->shared->oldest_ns[0] : 0;
}

static bool is_ready(void)
{
	return true;
}

static bool apply(uint32_t mode, uint32_t phase, uint64_t *ret_at_ns)
{
	fake.watermark_at_apply_ns = watermark_ns();
	if (fake.refuses)
		return false;
	fake.applied++;
	fake.mode = mode;
	fake.phase = phase;
	/* The segment still tells of the window before. */
	CHECK(fake.settled < fake.applied);
	return true;
}

static void settle(void)
{
	fake.settled++;
	CHECK(sk_tracer->segment->header.answer.phase == fake.phase);
}

static struct sk_tracer_call_costs costs(uint64_t now_ns)
{
	return fake.costs;
}

static bool harvest(uint64_t now_ns)
{
	fake.harvested++;
	if (sk_tracer_options.adapter->in_batches)
		sk_tracer_watermark(fake.oldest_ns, now_ns);
	return fake.works;
}

static void finish(void)
{
	fake.finished++;
}

static struct sk_tracer_adapter adapter = {
	.limits = {.period_ns = 1000000000, .period_max_ns = 20000000000, .window_ns = 20000000},
	.planned_percent = 75,
	.whole_percent = 100,
	.is_ready = is_ready,
	.apply = apply,
	.settle = settle,
	.costs = costs,
	.harvest = harvest,
	.finish = finish,
};

/* The test has the lock of the tick thread and makes its calls. */
static void begin(void)
{
	const struct sk_tracer_options options = {.kind = SK_TRACER_OPENCL, .adapter = &adapter};

	CHECK(sk_tracer_prepare(&options) && sk_tracer_ready());
	pthread_mutex_lock(&sk_tracer->tick_lock);
}

static const struct sk_segment_header *header(void)
{
	return &sk_tracer->segment->header;
}

/* Set the cost of timed calls to `parts` of the job's time, and of counted ones to a tenth of it.
 */
static void cost(double parts)
{
	fake.costs = (struct sk_tracer_call_costs){
		.calls_per_ns = 1e-3, .timed_ns = 1e3 * parts, .counted_ns = 1e2 * parts};
}

static uint64_t tick(uint64_t now_ns)
{
	sk_tracer->tick_at_ns = 0;
	CHECK(sk_tracer_drive_tick(now_ns) == fake.works);
	return sk_tracer->tick_at_ns;
}

/* A mode is applied before it is told, and a mode that the adapter refuses is not told at all. */
static void modes(void)
{
	unsigned before;

	begin();
	CHECK(sk_tracer_drive_mode(SK_MODE_FULL, BUDGET_PPM));
	CHECK(fake.applied == 1 && fake.settled == 1 && fake.mode == SK_MODE_FULL);
	CHECK(sk_tracer_mode() == SK_MODE_FULL && header()->answer.phase == SK_PHASE_TIMED);
	CHECK(sk_tracer_drive_mode(SK_MODE_FULL, 2 * BUDGET_PPM) && fake.applied == 1);
	CHECK(sk_tracer_budget() == 2 * BUDGET_PPM);

	fake.refuses = true;
	CHECK(!sk_tracer_drive_mode(SK_MODE_DORMANT, BUDGET_PPM));
	CHECK(sk_tracer_mode() == SK_MODE_FULL && header()->answer.phase == SK_PHASE_TIMED);
	fake.refuses = false;

	CHECK(sk_tracer_drive_lapse() && fake.phase == SK_PHASE_COUNTED);
	CHECK(sk_tracer_mode() == SK_MODE_FULL && fake.applied == 2);
	CHECK(sk_tracer_drive_lapse() && fake.applied == 2); /* calls are only counted already */
	sk_tracer->lapsed = true;
	CHECK(sk_tracer_drive_mode(SK_MODE_FULL, BUDGET_PPM) && fake.phase == SK_PHASE_TIMED);
	before = fake.harvested; /* the thread may have ticked before `begin` took its lock */
	tick(SECOND);
	CHECK(fake.harvested == before + 1);
	sk_tracer_drive_exit();
	CHECK(fake.finished == 1);
}

/* Copy the windows that were told, oldest first; the open one is last. */
static unsigned told(struct sk_window *ret, unsigned most)
{
	unsigned count = (unsigned)header()->windows;

	CHECK(count < most);
	memcpy(ret, sk_tracer->segment->window, count * sizeof(*ret));
	ret[count] = (struct sk_window){.phase = sk_tracer->open_phase,
					.chosen_ns = sk_tracer->open_chosen_ns};
	return count + 1;
}

/* While timing is cheap one window goes on over all periods. As soon as timing is over budget the
 * period ends, and each later window tells the length of the period it was drawn for. When timing
 * is cheap again the window of a whole period is told as one that nothing was drawn for, even if
 * the phase goes on. */
static void periods(void)
{
	struct sk_window windows[SK_SEGMENT_WINDOWS + 1];
	uint64_t now = SECOND, next, began;
	unsigned count;

	begin();
	CHECK(sk_tracer_drive_mode(SK_MODE_GOVERNED, BUDGET_PPM));
	cost(0.001);
	for (int i = 0; i < 100; i++, now += 100 * MS)
		CHECK(tick(now) > now);
	CHECK(fake.applied == 1 && header()->counted_call_ns == 0 && header()->timed_call_ns == 1);

	cost(0.1);
	began = header()->windows;
	next = tick(now); /* the time is in the middle of a period */
	CHECK(header()->windows == began + 1 && header()->timed_call_ns == 100);
	CHECK(sk_tracer->open_chosen_ns && sk_tracer->driver.plan.from_ns == now);
	for (int i = 0; i < 40; i++)
		next = tick(next);
	count = told(windows, SK_SEGMENT_WINDOWS);
	for (unsigned i = 2; i < count; i++)
		CHECK(windows[i].chosen_ns);

	cost(0);
	for (int i = 0; i < 2000 && sk_tracer->open_chosen_ns; i++)
		next = tick(next);
	CHECK(!sk_tracer->open_chosen_ns && sk_tracer->open_phase == SK_PHASE_TIMED);
}

/* A period whose window lies at its very end is followed by a whole one: the phase goes on, but the
 * window must not. */
static void followed(void)
{
	begin();
	struct sk_tracer_plan *plan = &sk_tracer->driver.plan;

	CHECK(sk_tracer_drive_mode(SK_MODE_GOVERNED, BUDGET_PPM));
	cost(0.1);
	tick(SECOND);
	CHECK(!sk_tracer_plan_is_whole(plan));
	plan->timed_to_ns = plan->from_ns + plan->period_ns;
	plan->timed_from_ns = plan->timed_to_ns - MS;
	tick(plan->timed_from_ns);
	CHECK(sk_tracer->open_phase == SK_PHASE_TIMED && sk_tracer->open_chosen_ns);
	uint64_t windows = header()->windows;

	cost(0);
	plan->timed = 0;
	tick(plan->timed_to_ns);
	CHECK(sk_tracer_plan_is_whole(plan) && sk_tracer->open_phase == SK_PHASE_TIMED);
	CHECK(header()->windows == windows + 1 && !sk_tracer->open_chosen_ns);
}

/* A tracer in batches: the reader waits from before timing begins until nothing waits any more. */
static void batches(void)
{
	adapter.in_batches = true;
	begin();
	CHECK(!watermark_ns());
	CHECK(sk_tracer_drive_mode(SK_MODE_FULL, BUDGET_PPM));
	CHECK(fake.watermark_at_apply_ns && fake.watermark_at_apply_ns == watermark_ns());
	fake.oldest_ns = SECOND;
	tick(2 * SECOND);
	CHECK(watermark_ns() == SECOND);
	fake.oldest_ns = 0;
	tick(3 * SECOND);
	CHECK(watermark_ns() == 3 * SECOND); /* launches are timed, so one may have begun by now */
	CHECK(sk_tracer_drive_mode(SK_MODE_DORMANT, BUDGET_PPM));
	tick(4 * SECOND);
	CHECK(!watermark_ns());

	/* Make 1000 launches in 20 ms, for each of which the tracer takes 2000 ns. */
	CHECK(sk_tracer_drive_mode(SK_MODE_FULL, BUDGET_PPM));
	tick(5 * SECOND);
	sk_tracer->driver.meter.timed_launches = sk_tracer->driver.meter.timed_tracer_ns = 0;
	sk_tracer_add(&sk_tracer_slot()->shared->counters.launches, 1000);
	sk_tracer_add(&sk_tracer_slot()->shared->counters.tracer_ns, 2000000);
	fake.works = true;
	tick(5 * SECOND + 20 * MS);
	struct sk_tracer_call_costs metered = sk_tracer_metered_costs(500, 100);

	CHECK(metered.calls_per_ns > 0.9e-5 &&
	      metered.calls_per_ns < 1.1e-5); /* the average moves by a fifth */
	CHECK(metered.timed_ns >= 2500 && metered.timed_ns < 5000 && metered.counted_ns == 100);
	sk_tracer_drive_exit();
	CHECK(!watermark_ns());
}

int main(int count, char **words)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} CASES[] = {{"modes", modes},
		     {"periods", periods},
		     {"followed", followed},
		     {"batches", batches}};

	for (size_t i = 0; count == 2 && i < sizeof(CASES) / sizeof(CASES[0]); i++)
		if (!strcmp(words[1], CASES[i].name)) {
			CASES[i].run();
			_exit(0); /* the lock of the ticks is still held */
		}
	return 2;
}
