/* SPDX-License-Identifier: Apache-2.0 */
#include "devices/card_reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "devices/card.h"
#include "devices/news.h"

enum {
	NS = 1000000000,
	STACK_BYTES = 1 << 20, /* drivers put their tables on it */
	STOP_NS = 300000000,
	SLACK_NS = 1000000, /* a hundredth of a period */
	TRIES = 5,
};

struct sk_device_reader {
	struct sk_device_card card;
	struct sk_device_record now; /* the thread's alone */
	uint64_t period_ns, phase_ns;
	pthread_t thread;

	pthread_mutex_t lock; /* guards everything down to `level` */
	struct sk_device_record last;
	struct sk_device_moment moment;
	struct sk_device_history history;
	int eventfd;
	uint32_t rest;
	double level[SK_DEVICE_FIELDS];

	_Atomic uint64_t rounds, late, missed, changes, wakeups;
	atomic_bool renew, stopping, over;
};

/* Copy the filled rows of the lists, which have room for more than a card ever lists. */
static void copy_lists(struct sk_device_record *to, const struct sk_device_record *from)
{
	const struct sk_device_field *links = &from->field[SK_DEVICE_LINKS];
	const struct sk_device_field *processes = &from->field[SK_DEVICE_PROCESSES];

	if (!links->code)
		memcpy(to->link, from->link, (size_t)links->value * sizeof(to->link[0]));
	if (!processes->code)
		memcpy(to->process, from->process,
		       (size_t)processes->value * sizeof(to->process[0]));
}

/* --- one round ------------------------------------------------------------------------------ */

static void wake(struct sk_device_reader *reader, uint64_t round, bool changed)
{
	const uint64_t one = 1;

	if (reader->eventfd < 0)
		return;
	if (!changed && round % ((uint64_t)SK_DEVICE_SLOW * reader->rest) &&
	    !sk_device_is_news(&reader->now, &reader->last, reader->level))
		return;
	atomic_fetch_add_explicit(&reader->wakeups, 1, memory_order_relaxed);
	/* The write fails only if the counter is full, and then the listener is awake. */
	if (write(reader->eventfd, &one, sizeof(one)) < 0)
		return;
}

static void publish(struct sk_device_reader *reader, uint64_t round, bool slow)
{
	struct sk_device_record *now = &reader->now;
	bool changed;

	if (!now->energy_ns)
		now->energy_ns = sk_device_clock(CLOCK_MONOTONIC);
	now->field[SK_DEVICE_ENERGY_POWER] = sk_device_history_power(&reader->history, now);
	sk_device_history_add(&reader->history, now, reader->moment.t_ns);
	if (slow)
		sk_device_history_sample(&reader->history, now);
	changed = sk_device_codes_changed(now, &reader->last);
	wake(reader, round, changed);
	if (slow)
		copy_lists(&reader->last, now);
	memcpy(&reader->last, now, offsetof(struct sk_device_record, link));
	if (changed)
		atomic_fetch_add_explicit(&reader->changes, 1, memory_order_relaxed);
	reader->moment.rounds++;
}

static void read_once(struct sk_device_reader *reader)
{
	const struct sk_device_vendor *vendor = reader->card.vendor;
	uint64_t round = atomic_load_explicit(&reader->rounds, memory_order_relaxed);
	bool slow = round % SK_DEVICE_SLOW == 0;

	reader->now.energy_ns = 0;
	vendor->fast(&reader->card, &reader->now);
	if (slow)
		vendor->slow(&reader->card, &reader->now);
	pthread_mutex_lock(&reader->lock);
	reader->moment.t_ns = (int64_t)sk_device_clock(CLOCK_REALTIME);
	if (slow)
		reader->moment.slow_ns = reader->moment.t_ns;
	publish(reader, round, slow);
	pthread_mutex_unlock(&reader->lock);
	atomic_fetch_add_explicit(&reader->rounds, 1, memory_order_relaxed);
}

/* Find the parts of the card if that was requested; false if they were not found. */
static bool is_begun(struct sk_device_reader *reader)
{
	if (!atomic_exchange(&reader->renew, false))
		return true;
	if (!reader->card.vendor->begin(&reader->card))
		return true;
	atomic_store(&reader->renew, true);
	return false;
}

/* --- the thread ----------------------------------------------------------------------------- */

static void *run(void *argument)
{
	struct sk_device_reader *reader = argument;
	uint64_t period = reader->period_ns, now = sk_device_clock(CLOCK_MONOTONIC);
	uint64_t due = now - now % period + period + reader->phase_ns;

	/* One interrupt then wakes all threads that are due at about the same time. */
	prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
	while (!atomic_load(&reader->stopping)) {
		struct timespec at = {(time_t)(due / NS), (long)(due % NS)};

		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
			continue;
		if (sk_device_clock(CLOCK_MONOTONIC) - due > period / 2)
			atomic_fetch_add_explicit(&reader->late, 1, memory_order_relaxed);
		if (is_begun(reader))
			read_once(reader);
		due += period;
		now = sk_device_clock(CLOCK_MONOTONIC);
		if (now > due + period) { /* missed rounds are counted and not made up for */
			uint64_t behind = (now - due) / period;

			atomic_fetch_add_explicit(&reader->missed, behind, memory_order_relaxed);
			due += behind * period;
		}
	}
	reader->card.vendor->end(&reader->card);
	atomic_store(&reader->over, true);
	return NULL;
}

/* --- for any thread ------------------------------------------------------------------------- */

static void empty(struct sk_device_record *record)
{
	for (uint32_t i = 0; i < SK_DEVICE_FIELDS; i++)
		record->field[i] = sk_device_absent(SK_DEVICE_NO_CALL, SK_DEVICE_NOT_READ);
}

static int start_thread(struct sk_device_reader *reader)
{
	pthread_attr_t attributes;
	int failed;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	failed = pthread_create(&reader->thread, &attributes, run, reader);
	pthread_attr_destroy(&attributes);
	return -failed;
}

int sk_device_reader_start(const struct sk_device_vendor *vendor, void *handle, uint64_t period_ns,
			   uint64_t phase_ns, struct sk_device_reader **ret)
{
	struct sk_device_reader *reader;
	int failed;

	if (period_ns < NS / 1000)
		return -EINVAL;
	reader = calloc(1, sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	reader->card.vendor = vendor;
	reader->card.handle = handle;
	atomic_store(&reader->card.doing, -1);
	reader->period_ns = period_ns;
	reader->phase_ns = phase_ns;
	reader->eventfd = -1;
	atomic_store(&reader->renew, true);
	empty(&reader->now);
	empty(&reader->last);
	pthread_mutex_init(&reader->lock, NULL);
	failed = start_thread(reader);
	if (failed) {
		free(reader);
		return failed;
	}
	*ret = reader;
	return 0;
}

void sk_device_reader_stop(struct sk_device_reader *reader)
{
	uint64_t until = sk_device_clock(CLOCK_MONOTONIC) + STOP_NS;
	struct timespec pause = {0, 1000000};

	pthread_mutex_lock(&reader->lock);
	reader->eventfd = -1;
	pthread_mutex_unlock(&reader->lock);
	atomic_store(&reader->stopping, true);
	while (!atomic_load(&reader->over) && sk_device_clock(CLOCK_MONOTONIC) < until)
		nanosleep(&pause, NULL);
	if (!atomic_load(&reader->over)) {
		pthread_detach(reader->thread);
		return;
	}
	pthread_join(reader->thread, NULL);
	pthread_mutex_destroy(&reader->lock);
	free(reader);
}

void sk_device_reader_renew(struct sk_device_reader *reader)
{
	atomic_store(&reader->renew, true);
}

struct sk_device_moment sk_device_reader_copy(struct sk_device_reader *reader,
					      struct sk_device_record *ret)
{
	struct sk_device_moment found;

	pthread_mutex_lock(&reader->lock);
	found = reader->moment;
	memcpy(ret, &reader->last, offsetof(struct sk_device_record, link));
	copy_lists(ret, &reader->last);
	pthread_mutex_unlock(&reader->lock);
	return found;
}

struct sk_device_state sk_device_reader_state(const struct sk_device_reader *reader)
{
	return (struct sk_device_state){
		.doing = atomic_load_explicit(&reader->card.doing, memory_order_acquire),
		.since_ns = atomic_load_explicit(&reader->card.since_ns, memory_order_relaxed),
		.rounds = atomic_load_explicit(&reader->rounds, memory_order_relaxed),
		.late = atomic_load_explicit(&reader->late, memory_order_relaxed),
		.missed = atomic_load_explicit(&reader->missed, memory_order_relaxed),
		.calls = atomic_load_explicit(&reader->card.calls, memory_order_relaxed),
		.changes = atomic_load_explicit(&reader->changes, memory_order_relaxed),
	};
}

uint64_t sk_device_reader_latest(struct sk_device_reader *reader, double ret[SK_DEVICE_FIELDS])
{
	uint64_t rounds;

	pthread_mutex_lock(&reader->lock);
	rounds = reader->moment.rounds;
	for (uint32_t i = 0; i < SK_DEVICE_FIELDS; i++)
		ret[i] = sk_device_number(&reader->last.field[i]);
	pthread_mutex_unlock(&reader->lock);
	return rounds;
}

int sk_device_reader_watch(struct sk_device_reader *reader, int eventfd, uint32_t rest,
			   const double level[SK_DEVICE_FIELDS])
{
	if (!rest)
		return -EINVAL;
	pthread_mutex_lock(&reader->lock);
	reader->eventfd = eventfd;
	reader->rest = rest;
	memcpy(reader->level, level, sizeof(reader->level));
	pthread_mutex_unlock(&reader->lock);
	return 0;
}

uint64_t sk_device_reader_wakeups(const struct sk_device_reader *reader)
{
	return atomic_load_explicit(&reader->wakeups, memory_order_relaxed);
}

uint32_t sk_device_reader_points(struct sk_device_reader *reader, uint32_t field, int64_t since_ns,
				 uint32_t most, int64_t *t_ns, double *values)
{
	uint32_t found;

	pthread_mutex_lock(&reader->lock);
	found = sk_device_history_points(&reader->history, field, since_ns, most, t_ns, values);
	pthread_mutex_unlock(&reader->lock);
	return found;
}

int64_t sk_device_second_ns(const struct sk_device_vendor *vendor, void *handle)
{
	struct sk_device_card card = {.vendor = vendor, .handle = handle};
	struct sk_device_record *record = calloc(1, sizeof(*record));
	int64_t least = INT64_MAX, begun, taken;
	int failed = record ? vendor->begin(&card) : -ENOMEM;

	for (uint32_t i = 0; !failed && i < TRIES; i++) {
		begun = (int64_t)sk_device_clock(CLOCK_THREAD_CPUTIME_ID);
		for (uint32_t k = 0; k < SK_DEVICE_FAST_HZ; k++)
			vendor->fast(&card, record);
		vendor->slow(&card, record);
		taken = (int64_t)sk_device_clock(CLOCK_THREAD_CPUTIME_ID) - begun;
		least = taken < least ? taken : least;
	}
	vendor->end(&card);
	free(record);
	return failed ? failed : least;
}
