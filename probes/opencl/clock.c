/* SPDX-License-Identifier: Apache-2.0 */
/* Device stamps on CLOCK_MONOTONIC.
 *
 * A driver takes its stamps from a clock that it does not name. The queued stamp is taken inside of
 * the enqueue call, so it is of that clock of the system by which it lies within the call. The
 * clock is then compared with CLOCK_MONOTONIC once a second, by readings of one between two of the
 * other, which gives offset and drift (PoCL stamps with CLOCK_MONOTONIC_RAW). Where no clock of the
 * system fits, as on a GPU with a clock of its own, the call itself is the bracket: its middle is
 * taken for the stamp, half its length is the error, and the shortest call counts.
 */
#include "layer.h"

#include <string.h>
#include <time.h>

static const uint64_t SECOND = 1000000000;

enum { READINGS = 8, MISSES_MAX = 8, SLACK_NS = 1000 };

static const struct {
	clockid_t id;
	const char *name;
} CLOCKS[] = {
	{CLOCK_MONOTONIC, "CLOCK_MONOTONIC"},
	{CLOCK_MONOTONIC_RAW, "CLOCK_MONOTONIC_RAW"},
	{CLOCK_REALTIME, "CLOCK_REALTIME"},
	{CLOCK_BOOTTIME, "CLOCK_BOOTTIME"},
};

enum { CLOCK_COUNT = sizeof(CLOCKS) / sizeof(CLOCKS[0]) };

struct reading {
	uint64_t at_ns; /* reading of the other clock */
	int64_t offset_ns;
	uint64_t error_ns;
};

/* Return the closest of several bracketed readings. */
static struct reading compare(clockid_t id)
{
	struct reading best = {.error_ns = UINT64_MAX};

	for (int i = 0; i < READINGS; i++) {
		uint64_t before = sk_tracer_now(), other = sk_tracer_clock_ns(id),
			 after = sk_tracer_now();
		uint64_t error = (after - before + 1) / 2;

		if (error < best.error_ns)
			best = (struct reading){other, (int64_t)(before + error - other), error};
	}
	return best;
}

/* The values that a reader takes together. */
struct mapping {
	int32_t id;
	uint64_t reference_ns;
	int64_t offset_ns;
	int64_t drift_ppb;
};

static inline struct mapping load(struct sk_cl_clock *clock)
{
	struct mapping mapping;
	uint32_t version;

	do {
		/* Pairs with the release of an even version in `store`. */
		version = atomic_load_explicit(&clock->version, memory_order_acquire);
		mapping = (struct mapping){clock->id, clock->reference_ns, clock->offset_ns,
					   clock->drift_ppb};
		atomic_thread_fence(memory_order_acquire);
	} while (version % 2 ||
		 version != atomic_load_explicit(&clock->version, memory_order_relaxed));
	return mapping;
}

static inline uint64_t apply(const struct mapping *mapping, uint64_t raw_ns)
{
	int64_t since = (int64_t)(raw_ns - mapping->reference_ns);
	/* Drift beyond the next refresh is not extrapolated: it would be a guess. */
	int64_t drift = since > -(int64_t)(10 * SECOND) && since < (int64_t)(10 * SECOND)
				? since * mapping->drift_ppb / (int64_t)SECOND
				: 0;

	return raw_ns + (uint64_t)(mapping->offset_ns + drift);
}

/* Called with `changing` held. */
static void store(struct sk_cl_clock *clock, const struct mapping *mapping)
{
	atomic_fetch_add_explicit(&clock->version, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	clock->id = mapping->id;
	clock->reference_ns = mapping->reference_ns;
	clock->offset_ns = mapping->offset_ns;
	clock->drift_ppb = mapping->drift_ppb;
	atomic_fetch_add_explicit(&clock->version, 1, memory_order_release);
}

/* Tell the segment's reader how the stamps are mapped. */
static void publish(unsigned device, const char *name, uint64_t error_ns, uint64_t now_ns)
{
	struct sk_cl_clock *clock = &sk_cl->clocks[device];

	clock->error_ns = error_ns;
	clock->refreshed_ns = now_ns;
	sk_tracer_clock(device, name, clock->offset_ns, clock->drift_ppb, error_ns);
}

/* Return the clock of the system by which `raw_ns` lies within the call. */
static int find_clock(uint64_t raw_ns, uint64_t from_ns, uint64_t to_ns, struct reading *ret)
{
	for (int i = 0; i < CLOCK_COUNT; i++) {
		struct reading reading = compare(CLOCKS[i].id);
		uint64_t stamp = raw_ns + (uint64_t)reading.offset_ns;

		if (stamp + SLACK_NS < from_ns || stamp > to_ns + SLACK_NS)
			continue;
		*ret = reading;
		return i;
	}
	return -1;
}

static void choose(unsigned device, uint64_t raw_ns, uint64_t from_ns, uint64_t to_ns)
{
	struct reading reading;
	int found = find_clock(raw_ns, from_ns, to_ns, &reading);
	struct mapping mapping = {.id = SK_CL_CLOCK_BY_CALLS, .reference_ns = raw_ns};
	uint64_t error = (to_ns - from_ns + 1) / 2;
	const char *name = "device, by calls";

	if (found >= 0) {
		mapping.id = found + 1;
		mapping.reference_ns = reading.at_ns;
		mapping.offset_ns = reading.offset_ns;
		error = reading.error_ns;
		name = CLOCKS[found].name;
	} else {
		mapping.offset_ns = (int64_t)(from_ns + (to_ns - from_ns) / 2 - raw_ns);
	}
	store(&sk_cl->clocks[device], &mapping);
	publish(device, name, error, to_ns);
}

static uint64_t distance(int64_t a, int64_t b)
{
	return a > b ? (uint64_t)(a - b) : (uint64_t)(b - a);
}

/* Compare with the chosen clock once more; the change of the offset since is the drift. */
static void refresh_chosen(unsigned device, const struct mapping *old, uint64_t now_ns)
{
	struct sk_cl_clock *clock = &sk_cl->clocks[device];
	struct reading reading = compare(CLOCKS[old->id - 1].id);
	int64_t elapsed = (int64_t)(reading.at_ns - old->reference_ns);
	struct mapping mapping = {old->id, reading.at_ns, reading.offset_ns, 0};
	uint64_t predicted = apply(old, reading.at_ns) - reading.at_ns;
	uint64_t residual = distance((int64_t)predicted, reading.offset_ns) + reading.error_ns;
	uint64_t error = clock->error_ns;

	if (elapsed > 0 && elapsed < (int64_t)(60 * SECOND)) {
		mapping.drift_ppb =
			(reading.offset_ns - old->offset_ns) * (int64_t)SECOND / elapsed;
		error = residual > error ? residual : error;
	}
	store(clock, &mapping);
	publish(device, CLOCKS[old->id - 1].name, error, now_ns);
}

/* A shorter call is a closer bracket. After ten seconds any call is better than an old one. */
static void refresh_by_call(unsigned device, const struct mapping *old, uint64_t raw_ns,
			    uint64_t from_ns, uint64_t to_ns)
{
	struct sk_cl_clock *clock = &sk_cl->clocks[device];
	uint64_t error = (to_ns - from_ns + 1) / 2;
	bool is_old = to_ns > clock->refreshed_ns + 10 * SECOND;

	if (error >= clock->error_ns && !is_old)
		return;
	struct mapping mapping = {.id = old->id,
				  .reference_ns = raw_ns,
				  .offset_ns = (int64_t)(from_ns + (to_ns - from_ns) / 2 - raw_ns)};
	store(clock, &mapping);
	publish(device, "device, by calls", error, to_ns);
}

static void change(unsigned device, uint64_t raw_ns, uint64_t from_ns, uint64_t to_ns)
{
	struct sk_cl_clock *clock = &sk_cl->clocks[device];
	struct mapping old = load(clock);

	if (old.id == SK_CL_CLOCK_UNKNOWN)
		choose(device, raw_ns, from_ns, to_ns);
	else if (old.id == SK_CL_CLOCK_BY_CALLS)
		refresh_by_call(device, &old, raw_ns, from_ns, to_ns);
	else
		refresh_chosen(device, &old, to_ns);
}

/* A stamp outside of its call shows that the choice of the clock was wrong, or that the call was
 * moved. */
static void note_miss(unsigned device)
{
	struct sk_cl_clock *clock = &sk_cl->clocks[device];
	const struct mapping none = {.id = SK_CL_CLOCK_UNKNOWN};

	atomic_fetch_add_explicit(&sk_tracer->segment->header.clock_mismatches, 1,
				  memory_order_relaxed);
	if (++clock->misses < MISSES_MAX)
		return;
	clock->misses = 0;
	store(clock, &none);
}

static bool is_due(const struct sk_cl_clock *clock, int32_t id, uint64_t from_ns, uint64_t to_ns)
{
	if (id == SK_CL_CLOCK_UNKNOWN)
		return true;
	if (id == SK_CL_CLOCK_BY_CALLS && to_ns - from_ns < 2 * clock->error_ns)
		return true;
	return to_ns > clock->refreshed_ns + (id == SK_CL_CLOCK_BY_CALLS ? 10 : 1) * SECOND;
}

/* Refresh the mapping once a second, or when a stamp does not fit, and return the mapping to use.
 */
static struct mapping learn(unsigned device, uint64_t raw_ns, uint64_t from_ns, uint64_t to_ns,
			    bool missed, bool due)
{
	struct sk_cl_clock *clock = &sk_cl->clocks[device];

	/* Another thread is refreshing it; the old mapping serves once more. */
	if (!atomic_flag_test_and_set_explicit(&clock->changing, memory_order_acquire)) {
		if (missed)
			note_miss(device);
		if (due)
			change(device, raw_ns, from_ns, to_ns);
		if (!missed)
			clock->misses = 0;
		atomic_flag_clear_explicit(&clock->changing, memory_order_release);
	}
	return load(clock);
}

struct sk_cl_stamps sk_cl_clock_place(unsigned device, const struct sk_cl_stamps *raw,
				      uint64_t from_ns, uint64_t to_ns)
{
	struct sk_cl_clock *clock = &sk_cl->clocks[device];
	struct mapping mapping = load(clock);
	uint64_t stamp = apply(&mapping, raw->queued_ns), slack = SLACK_NS + clock->error_ns;
	bool missed = mapping.id != SK_CL_CLOCK_UNKNOWN &&
		      (stamp + slack < from_ns || stamp > to_ns + slack);
	bool due = is_due(clock, mapping.id, from_ns, to_ns);

	if (missed || due) {
		mapping = learn(device, raw->queued_ns, from_ns, to_ns, missed, due);
		stamp = apply(&mapping, raw->queued_ns);
	}
	uint64_t start = apply(&mapping, raw->start_ns);

	return (struct sk_cl_stamps){stamp, start, start + (raw->end_ns - raw->start_ns)};
}
