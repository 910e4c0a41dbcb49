/* SPDX-License-Identifier: Apache-2.0 */
#include "devices/reader.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
	NS = 1000000000,
	STACK_BYTES = 1 << 20, /* drivers put their tables on it */
	STOP_NS = 300000000,
	SLACK_NS = 1000000, /* a hundredth of a period */
	FIELD_TYPE = 24,    /* offsets in nvmlFieldValue_t (nvml.h), and its size */
	FIELD_CODE = 28,
	FIELD_VALUE = 32,
	FIELD_BYTES = 40,
	SAMPLE_BYTES = 16, /* nvmlSample_t: time in us, value */
};

struct sk_reader {
	struct sk_reader_plan plan;
	pthread_t thread;
	pthread_mutex_t lock;	       /* of `last`, rings and `next` */
	struct sk_reader_snapshot now; /* the thread's alone */
	struct sk_reader_snapshot last;
	uint64_t next;
	int64_t at_ns[SK_READER_POINTS];
	uint64_t monotonic_ns[SK_READER_POINTS];
	double ring[SK_READER_TAPS][SK_READER_POINTS];
	struct {
		int64_t at_ns[SK_READER_POINTS];
		double value[SK_READER_POINTS];
		uint64_t next;
	} samples; /* under the lock */
	int bell;  /* these three under the lock as well */
	uint32_t guards, rest;
	struct sk_reader_guard guard[SK_READER_GUARDS];
	_Atomic int32_t doing;
	_Atomic uint64_t since_ns, rounds, late, missed, calls, rings, codes;
	atomic_bool stopping, over;
};

static uint64_t sk_reader_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS + (uint64_t)now.tv_nsec;
}

/* --- one round ------------------------------------------------------------------------------ */

typedef int32_t (*sk_reader_call)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* Arguments of at most 64 bits lie in registers of that size in both ABIs (System V AMD64,
 * AAPCS64), and a function that takes fewer or narrower ones looks at no more than those. */
static void sk_reader_make(struct sk_reader *reader, uint32_t number)
{
	const struct sk_reader_step *step = &reader->plan.step[number];
	sk_reader_call call = (sk_reader_call)(uintptr_t)step->function;
	uint64_t argument[SK_READER_ARGUMENTS] = {0};

	memcpy(&reader->now.memory[step->offset], &reader->plan.memory[step->offset], step->bytes);
	for (uint32_t i = 0; i < step->arguments; i++)
		if (step->inside >> i & 1)
			argument[i] = (uint64_t)(uintptr_t)&reader->now.memory[step->argument[i]];
		else if (step->past >> i & 1)
			argument[i] = sk_reader_clock(CLOCK_REALTIME) / 1000 - step->argument[i];
		else
			argument[i] = step->argument[i];
	atomic_store_explicit(&reader->since_ns, sk_reader_clock(CLOCK_MONOTONIC),
			      memory_order_relaxed);
	atomic_store_explicit(&reader->doing, (int32_t)number, memory_order_release);
	reader->now.code[number] =
		call(argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
	atomic_store_explicit(&reader->doing, -1, memory_order_release);
	atomic_fetch_add_explicit(&reader->calls, 1, memory_order_relaxed);
}

static double sk_reader_field(const uint8_t *at)
{
	uint32_t type;
	int32_t code;
	uint64_t raw;
	double value;

	memcpy(&type, at + FIELD_TYPE, sizeof(type));
	memcpy(&code, at + FIELD_CODE, sizeof(code));
	memcpy(&raw, at + FIELD_VALUE, sizeof(raw));
	memcpy(&value, at + FIELD_VALUE, sizeof(value));
	if (code)
		return NAN;
	switch (type) { /* nvmlValueType_t */
	case 0:
		return value;
	case 1:
		return (uint32_t)raw;
	case 4:
		return (double)(int64_t)raw;
	case 5:
		return (int32_t)raw;
	case 6:
		return (uint16_t)raw;
	default:
		return (double)raw;
	}
}

static double sk_reader_number(const struct sk_reader_tap *tap, const uint8_t *at)
{
	uint16_t half;
	uint32_t word;
	uint64_t whole;
	int32_t sign;
	double real;

	switch (tap->kind) {
	case SK_READER_U16:
		memcpy(&half, at, sizeof(half));
		return tap->gaps && half == UINT16_MAX ? NAN : half;
	case SK_READER_U32:
		memcpy(&word, at, sizeof(word));
		return tap->gaps && word == UINT32_MAX ? NAN : word;
	case SK_READER_U64:
		memcpy(&whole, at, sizeof(whole));
		return tap->gaps && whole == UINT64_MAX ? NAN : (double)whole;
	case SK_READER_I32:
		memcpy(&sign, at, sizeof(sign));
		return sign;
	case SK_READER_F64:
		memcpy(&real, at, sizeof(real));
		return real;
	default:
		return sk_reader_field(at);
	}
}

static double sk_reader_rate(const struct sk_reader *reader, const struct sk_reader_tap *tap)
{
	uint64_t now = reader->next, past = now - tap->lag;
	const double *ring = reader->ring[tap->step];

	if (now < tap->lag)
		return NAN;
	double grown = ring[now % SK_READER_POINTS] - ring[past % SK_READER_POINTS];
	double passed = (double)(reader->monotonic_ns[now % SK_READER_POINTS] -
				 reader->monotonic_ns[past % SK_READER_POINTS]) /
			NS;

	if (tap->offset) {
		ring = reader->ring[tap->offset - 1];
		passed = ring[now % SK_READER_POINTS] - ring[past % SK_READER_POINTS];
	}
	return grown >= 0 && passed > 0 ? grown / passed * tap->scale : NAN;
}

static double sk_reader_tapped(const struct sk_reader *reader, const struct sk_reader_tap *tap)
{
	if (tap->kind == SK_READER_RATE)
		return sk_reader_rate(reader, tap);
	if (reader->now.code[tap->step] || tap->kind == SK_READER_SAMPLES)
		return NAN;
	return sk_reader_number(tap, &reader->now.memory[tap->offset]) * tap->scale;
}

/* Values are of 32 or 64 bits, of which none needs more than 32 (mW). */
static void sk_reader_keep(struct sk_reader *reader, const struct sk_reader_tap *tap)
{
	const uint8_t *at = &reader->now.memory[tap->offset];
	uint64_t *next = &reader->samples.next;
	uint32_t count, value;
	uint64_t us;

	memcpy(&count, &reader->now.memory[tap->lag], sizeof(count));
	for (uint32_t i = 0; i < count && i < SK_READER_SAMPLES_MAX; i++, at += SAMPLE_BYTES) {
		memcpy(&us, at, sizeof(us));
		memcpy(&value, at + sizeof(us), sizeof(value));
		if (*next &&
		    (int64_t)us * 1000 <= reader->samples.at_ns[(*next - 1) % SK_READER_POINTS])
			continue;
		reader->samples.at_ns[*next % SK_READER_POINTS] = (int64_t)us * 1000;
		reader->samples.value[*next % SK_READER_POINTS] = value * tap->scale;
		++*next;
	}
}

static bool sk_reader_applies(const struct sk_reader *reader, const struct sk_reader_guard *guard)
{
	uint64_t now, before;

	if (guard->tap < SK_READER_TAPS)
		return reader->ring[guard->tap][(reader->next - 1) % SK_READER_POINTS] >=
		       guard->level;
	memcpy(&now, &reader->now.memory[guard->offset], sizeof(now));
	memcpy(&before, &reader->last.memory[guard->offset], sizeof(before));
	return !reader->now.code[guard->step] && ((now ^ before) & guard->mask);
}

/* Whoever decides on health is woken by what is news to it, and by nothing else. */
static void sk_reader_ring(struct sk_reader *reader)
{
	const uint64_t one = 1;
	bool news;

	if (reader->bell < 0)
		return;
	/* Now and then a second's readings are news as they are. */
	news = reader->plan.slow &&
	       reader->now.rounds % ((uint64_t)reader->plan.slow * reader->rest) == 0;
	news |= memcmp(reader->now.code, reader->last.code,
		       reader->plan.steps * sizeof(reader->now.code[0])) != 0;
	for (uint32_t i = 0; i < reader->guards && !news; i++)
		news = sk_reader_applies(reader, &reader->guard[i]);
	if (!news)
		return;
	atomic_fetch_add_explicit(&reader->rings, 1, memory_order_relaxed);
	/* One that cannot take more was rung often enough. */
	if (write(reader->bell, &one, sizeof(one)) < 0)
		return;
}

static bool sk_reader_due(const struct sk_reader *reader, const struct sk_reader_step *step)
{
	return reader->now.rounds % step->every == step->turn;
}

/* What was asked for in this round, for whoever reads. */
static void sk_reader_publish(struct sk_reader *reader)
{
	for (uint32_t i = 0; i < reader->plan.steps; i++) {
		const struct sk_reader_step *step = &reader->plan.step[i];

		if (sk_reader_due(reader, step))
			memcpy(&reader->last.memory[step->offset],
			       &reader->now.memory[step->offset], step->bytes);
	}
	if (memcmp(reader->last.code, reader->now.code, sizeof(reader->now.code)))
		atomic_fetch_add_explicit(&reader->codes, 1, memory_order_relaxed);
	memcpy(reader->last.code, reader->now.code, sizeof(reader->now.code));
	reader->last.t_ns = reader->now.t_ns;
	reader->last.rounds = ++reader->now.rounds;
}

static void sk_reader_round(struct sk_reader *reader)
{
	const struct sk_reader_plan *plan = &reader->plan;

	for (uint32_t i = 0; i < plan->steps; i++)
		if (sk_reader_due(reader, &plan->step[i]))
			sk_reader_make(reader, i);
	reader->now.t_ns = (int64_t)sk_reader_clock(CLOCK_REALTIME);
	pthread_mutex_lock(&reader->lock);
	uint64_t place = reader->next % SK_READER_POINTS;

	reader->at_ns[place] = reader->now.t_ns;
	reader->monotonic_ns[place] = sk_reader_clock(CLOCK_MONOTONIC);
	for (uint32_t i = 0; i < plan->taps; i++) {
		const struct sk_reader_tap *tap = &plan->tap[i];

		reader->ring[i][place] = sk_reader_tapped(reader, tap);
		if (tap->kind == SK_READER_SAMPLES && !reader->now.code[tap->step] &&
		    sk_reader_due(reader, &plan->step[tap->step]))
			sk_reader_keep(reader, tap);
	}
	reader->next++;
	sk_reader_ring(reader);
	sk_reader_publish(reader);
	pthread_mutex_unlock(&reader->lock);
	atomic_fetch_add_explicit(&reader->rounds, 1, memory_order_relaxed);
}

static void *sk_reader_run(void *argument)
{
	struct sk_reader *reader = argument;
	uint64_t period = reader->plan.period_ns;

	/* Threads that are due at about the same time are woken by one interrupt: a third less. */
	prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
	uint64_t now = sk_reader_clock(CLOCK_MONOTONIC);
	uint64_t due = now - now % period + period + reader->plan.phase_ns;

	while (!atomic_load(&reader->stopping)) {
		struct timespec at = {(time_t)(due / NS), (long)(due % NS)};

		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
			continue;
		if (sk_reader_clock(CLOCK_MONOTONIC) - due > period / 2)
			atomic_fetch_add_explicit(&reader->late, 1, memory_order_relaxed);
		sk_reader_round(reader);
		due += period;
		now = sk_reader_clock(CLOCK_MONOTONIC);
		if (now > due + period) { /* what was missed is not made up for */
			uint64_t behind = (now - due) / period;

			atomic_fetch_add_explicit(&reader->missed, behind, memory_order_relaxed);
			due += behind * period;
		}
	}
	atomic_store(&reader->over, true);
	return NULL;
}

/* --- the outside ---------------------------------------------------------------------------- */

static bool sk_reader_step_fits(const struct sk_reader_plan *plan,
				const struct sk_reader_step *step)
{
	if (!step->function || step->arguments > SK_READER_ARGUMENTS || step->turn >= step->every ||
	    step->offset + (uint64_t)step->bytes > plan->bytes)
		return false;
	for (uint32_t i = 0; i < step->arguments; i++)
		if (step->inside >> i & 1 && step->argument[i] >= plan->bytes)
			return false;
	return true;
}

static bool sk_reader_tap_fits(const struct sk_reader_plan *plan, uint32_t number)
{
	const struct sk_reader_tap *tap = &plan->tap[number];
	uint32_t bytes = tap->kind == SK_READER_NVML ? FIELD_BYTES : sizeof(uint64_t);

	if (tap->kind == SK_READER_SAMPLES) {
		bytes = SK_READER_SAMPLES_MAX * SAMPLE_BYTES;
		if (tap->lag + sizeof(uint32_t) > plan->bytes)
			return false;
	}

	if (tap->kind == SK_READER_RATE)
		return tap->step < number && tap->offset <= number && tap->lag > 0 &&
		       tap->lag < SK_READER_POINTS;
	return tap->kind < SK_READER_RATE && tap->step < plan->steps &&
	       tap->offset + (uint64_t)bytes <= plan->bytes;
}

static bool sk_reader_plan_fits(const struct sk_reader_plan *plan)
{
	if (!plan->steps || plan->steps > SK_READER_STEPS || plan->taps > SK_READER_TAPS ||
	    plan->bytes > SK_READER_MEMORY || plan->period_ns < NS / 1000)
		return false;
	for (uint32_t i = 0; i < plan->steps; i++)
		if (!sk_reader_step_fits(plan, &plan->step[i]))
			return false;
	for (uint32_t i = 0; i < plan->taps; i++)
		if (!sk_reader_tap_fits(plan, i))
			return false;
	return true;
}

int sk_reader_start(const struct sk_reader_plan *plan, struct sk_reader **ret)
{
	pthread_attr_t attributes;

	if (!sk_reader_plan_fits(plan))
		return -EINVAL;
	struct sk_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	reader->plan = *plan;
	memcpy(reader->now.memory, plan->memory, plan->bytes);
	memcpy(reader->last.memory, plan->memory, plan->bytes);
	reader->bell = -1;
	atomic_store(&reader->doing, -1);
	pthread_mutex_init(&reader->lock, NULL);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	int failed = pthread_create(&reader->thread, &attributes, sk_reader_run, reader);

	pthread_attr_destroy(&attributes);
	if (failed) {
		free(reader);
		return -failed;
	}
	*ret = reader;
	return 0;
}

void sk_reader_stop(struct sk_reader *reader)
{
	uint64_t until = sk_reader_clock(CLOCK_MONOTONIC) + STOP_NS;
	struct timespec pause = {0, 1000000};

	pthread_mutex_lock(&reader->lock);
	reader->bell = -1;
	pthread_mutex_unlock(&reader->lock);
	atomic_store(&reader->stopping, true);
	while (!atomic_load(&reader->over) && sk_reader_clock(CLOCK_MONOTONIC) < until)
		nanosleep(&pause, NULL);
	if (!atomic_load(&reader->over)) {
		pthread_detach(reader->thread);
		return;
	}
	pthread_join(reader->thread, NULL);
	pthread_mutex_destroy(&reader->lock);
	free(reader);
}

struct sk_reader_moment sk_reader_copy(struct sk_reader *reader, int32_t *codes, uint8_t *memory)
{
	pthread_mutex_lock(&reader->lock);
	struct sk_reader_moment found = {reader->last.rounds, reader->last.t_ns};

	memcpy(codes, reader->last.code, reader->plan.steps * sizeof(*codes));
	memcpy(memory, reader->last.memory, reader->plan.bytes);
	pthread_mutex_unlock(&reader->lock);
	return found;
}

struct sk_reader_state sk_reader_state(const struct sk_reader *reader)
{
	return (struct sk_reader_state){
		.doing = atomic_load_explicit(&reader->doing, memory_order_acquire),
		.since_ns = atomic_load_explicit(&reader->since_ns, memory_order_relaxed),
		.rounds = atomic_load_explicit(&reader->rounds, memory_order_relaxed),
		.late = atomic_load_explicit(&reader->late, memory_order_relaxed),
		.missed = atomic_load_explicit(&reader->missed, memory_order_relaxed),
		.calls = atomic_load_explicit(&reader->calls, memory_order_relaxed),
		.codes = atomic_load_explicit(&reader->codes, memory_order_relaxed),
	};
}

uint64_t sk_reader_latest(struct sk_reader *reader, double *ret)
{
	uint64_t rounds;

	pthread_mutex_lock(&reader->lock);
	rounds = reader->next;
	for (uint32_t i = 0; i < reader->plan.taps; i++)
		ret[i] = rounds ? reader->ring[i][(rounds - 1) % SK_READER_POINTS] : NAN;
	pthread_mutex_unlock(&reader->lock);
	return rounds;
}

int sk_reader_watch(struct sk_reader *reader, int eventfd, uint32_t rest, uint32_t guards,
		    const struct sk_reader_guard *guard)
{
	if (guards > SK_READER_GUARDS || !rest)
		return -EINVAL;
	for (uint32_t i = 0; i < guards; i++)
		if (guard[i].tap < SK_READER_TAPS
			    ? guard[i].tap >= reader->plan.taps
			    : guard[i].step >= reader->plan.steps ||
				      guard[i].offset + sizeof(uint64_t) > reader->plan.bytes)
			return -EINVAL;
	pthread_mutex_lock(&reader->lock);
	reader->bell = eventfd;
	reader->rest = rest;
	reader->guards = guards;
	if (guards)
		memcpy(reader->guard, guard, guards * sizeof(*guard));
	pthread_mutex_unlock(&reader->lock);
	return 0;
}

uint64_t sk_reader_rings(const struct sk_reader *reader)
{
	return atomic_load_explicit(&reader->rings, memory_order_relaxed);
}

uint32_t sk_reader_points(struct sk_reader *reader, uint32_t tap, int64_t since_ns, uint32_t most,
			  int64_t *t_ns, double *values)
{
	bool samples = reader->plan.tap[tap].kind == SK_READER_SAMPLES;
	const int64_t *at_ns = samples ? reader->samples.at_ns : reader->at_ns;
	const double *ring = samples ? reader->samples.value : reader->ring[tap];
	uint32_t found = 0;

	pthread_mutex_lock(&reader->lock);
	uint64_t end = samples ? reader->samples.next : reader->next;
	uint64_t first = end > SK_READER_POINTS ? end - SK_READER_POINTS : 0;

	if (most < end - first)
		first = end - most;
	for (uint64_t i = first; i < end; i++) {
		uint64_t place = i % SK_READER_POINTS;

		if (at_ns[place] <= since_ns || isnan(ring[place]))
			continue;
		t_ns[found] = at_ns[place];
		values[found++] = ring[place];
	}
	pthread_mutex_unlock(&reader->lock);
	return found;
}
