/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of the clock and the counter that belong together, and the scale between the two; see
 * thread_clock.h. */
#include "tracer/thread_clock.h"

#include "tracer/clock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const uint64_t REACH = 1 << 21; /* counts; between half a millisecond and one */
static const uint64_t APART =
	256; /* counts; the two of a reading that took longer may be far apart */
static const uint64_t BASE_LEAST = 1 << 24, BASE_MOST = UINT64_C(1) << 31;
static const uint64_t SURPRISE_NS = 200;

bool sk_thread_clock_is_usable(void)
{
	static const char FILE_NAME[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char name[8] = "";
	int permitted = 0, file = open(FILE_NAME, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return false;
	ssize_t length = read(file, name, sizeof(name));

	close(file);
	return length == 4 && !memcmp(name, "tsc\n", 4) &&
	       !prctl(PR_GET_TSC, &permitted, 0, 0, 0) && permitted == PR_TSC_ENABLE;
}

/* Return whether the counter has run at another rate or has jumped since the latest reading, or may
 * have done so because that is long ago. */
static bool is_surprise(const struct sk_thread_clock *clock, uint64_t count, uint64_t ns)
{
	uint64_t passed = count - clock->count;

	if (passed >= BASE_MOST / 2)
		return true;
	if (!clock->scale)
		return false;
	uint64_t expected = clock->ns + (passed * clock->scale >> 32);
	uint64_t off = expected > ns ? expected - ns : ns - expected;

	return off > SURPRISE_NS + ((ns - clock->ns) >> 14);
}

static void set_base(struct sk_thread_clock *clock, uint64_t count, uint64_t ns)
{
	clock->base_count = count;
	clock->base_ns = ns;
}

/* Measure the scale from a reading that is some milliseconds old, and a second at most. The first
 * scale serves only to notice a surprise; it is trusted once it was measured again. */
static void learn(struct sk_thread_clock *clock, uint64_t count, uint64_t ns)
{
	uint64_t passed = count - clock->base_count;
	bool first = !clock->scale;

	if (clock->base_ns && passed < BASE_LEAST)
		return;
	if (clock->base_ns && passed <= BASE_MOST) {
		clock->scale = ((ns - clock->base_ns) << 32) / passed;
		clock->trusted = !first;
	}
	if (first || passed > BASE_MOST)
		set_base(clock, count, ns);
}

/* Return the latest time that may have been returned. */
static uint64_t latest(const struct sk_thread_clock *clock)
{
	uint64_t laid_out = clock->reach ? clock->ns + (clock->reach * clock->scale >> 32) : 0;

	return laid_out > clock->latest_ns ? laid_out : clock->latest_ns;
}

uint64_t sk_thread_clock_take(struct sk_thread_clock *clock, uint64_t before, uint64_t ns,
			      uint64_t after)
{
	uint64_t count = before + (after - before) / 2, least = latest(clock);

	clock->latest_ns = ns > least ? ns : least;
	clock->reach = 0;
	/* Neither a time before one that was returned nor two readings with an interrupt between
	 * them can be laid out from; the next call reads again. */
	if (ns < least || after - before > APART)
		return clock->latest_ns;
	if (is_surprise(clock, count, ns)) {
		clock->scale = clock->base_ns = 0;
		clock->trusted = false;
	}
	learn(clock, count, ns);
	clock->count = count;
	clock->ns = ns;
	clock->reach = clock->trusted ? REACH : 0;
	return ns;
}

uint64_t sk_thread_clock_read(struct sk_thread_clock *clock)
{
	if (!clock->usable)
		return sk_tracer_clock_ns(CLOCK_MONOTONIC);
	uint64_t before = sk_thread_clock_count();
	uint64_t ns = sk_tracer_clock_ns(CLOCK_MONOTONIC);

	return sk_thread_clock_take(clock, before, ns, sk_thread_clock_count());
}
