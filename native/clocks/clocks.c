/* SPDX-License-Identifier: Apache-2.0 */
/* Bracketed readings of the system's clocks. */
#include "clocks/clocks.h"

#include <stddef.h>
#include <time.h>

enum { READINGS = 16 };

static uint64_t read_posix(clockid_t id)
{
	struct timespec time;

	clock_gettime(id, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t sk_clock_monotonic(void)
{
	return read_posix(CLOCK_MONOTONIC);
}

bool sk_clock_bracket(bool (*read)(void *state, uint64_t *ret), void *state, unsigned tries,
		      struct sk_clock_pair *ret)
{
	ret->error_ns = UINT64_MAX;
	for (unsigned i = 0; i < tries; i++) {
		uint64_t clock_ns, before = sk_clock_monotonic();

		if (!read(state, &clock_ns))
			return false;
		/* Half of the bracket, and 1 because both of its ends are cut to whole ns. */
		uint64_t error = (sk_clock_monotonic() - before) / 2 + 1;

		if (error < ret->error_ns)
			*ret = (struct sk_clock_pair){before + error - 1, clock_ns, error};
	}
	return ret->error_ns != UINT64_MAX;
}

struct posix {
	clockid_t id;
};

static bool read_one(void *state, uint64_t *ret)
{
	*ret = read_posix(((struct posix *)state)->id);
	return true;
}

#if defined(__x86_64__)
static uint64_t count_ticks(void)
{
	uint32_t low, high;

	/* Read after the loads before it and before the loads after it. */
	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}
#elif defined(__aarch64__)
static uint64_t count_ticks(void)
{
	uint64_t ticks;

	__asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(ticks)::"memory");
	return ticks;
}
#else
static uint64_t count_ticks(void)
{
	return 0;
}
#endif

static bool read_ticks(void *state, uint64_t *ret)
{
	uint64_t hz = *(const uint64_t *)state;

	*ret = (uint64_t)((unsigned __int128)count_ticks() * 1000000000 / hz);
	return true;
}

bool sk_clock_read(enum sk_clock_source source, const struct sk_clock_ticks *ticks, unsigned tries,
		   struct sk_clock_pair *ret)
{
	static const clockid_t IDS[] = {CLOCK_REALTIME, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME};

	if (source == SK_CLOCK_TICKS) {
		uint64_t hz = ticks->hz;

		return hz && sk_clock_bracket(read_ticks, &hz, tries, ret);
	}
	struct posix clock = {IDS[source]};

	return sk_clock_bracket(read_one, &clock, tries, ret);
}

#if defined(__x86_64__)
#include <cpuid.h>

/* Intel SDM volume 2, CPUID: leaf 80000007H EDX bit 8; AMD APM volume 3 says the same. */
static bool is_invariant(void)
{
	uint32_t a, b, c, d = 0;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
}

/* Return the rate that CPUID states, or 0. Leaf 15H has the crystal's rate and the ratio of the
 * counter to it; leaf 40000010H has the counter's kHz as VMware and KVM give it. */
static uint64_t said_hz(void)
{
	uint32_t a = 0, b = 0, c = 0, d = 0;

	if (__get_cpuid(0x15, &a, &b, &c, &d) && a && b && c)
		return (uint64_t)c * b / a;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 31))
		return 0;
	__cpuid(0x40000000, a, b, c, d);
	if (a < 0x40000010 || a > 0x400000ff)
		return 0;
	__cpuid(0x40000010, a, b, c, d);
	return (uint64_t)a * 1000;
}

static const char NAME[] = "TSC";
#elif defined(__aarch64__)
static bool is_invariant(void)
{
	return true; /* the architecture says so of the generic timer */
}

static uint64_t said_hz(void)
{
	uint64_t hz;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
	return hz;
}

static const char NAME[] = "CNTVCT";
#else
static bool is_invariant(void)
{
	return false;
}

static uint64_t said_hz(void)
{
	return 0;
}

static const char NAME[] = "ticks";
#endif

/* Measure the rate over 20 ms. Read as if a tick were a nanosecond, the readings are raw counts. */
static uint64_t measured_hz(void)
{
	uint64_t one_to_one = 1000000000;
	struct sk_clock_pair from, to;
	struct timespec pause = {0, 20000000};

	sk_clock_bracket(read_ticks, &one_to_one, READINGS, &from);
	nanosleep(&pause, NULL);
	sk_clock_bracket(read_ticks, &one_to_one, READINGS, &to);
	return (uint64_t)((unsigned __int128)(to.clock_ns - from.clock_ns) * 1000000000 /
			  (to.at_ns - from.at_ns));
}

void sk_clock_ticks_find(struct sk_clock_ticks *ret)
{
	*ret = (struct sk_clock_ticks){.name = NAME};
	if (!is_invariant()) {
		ret->why = "the processor's counter does not run at one rate (not invariant)";
		return;
	}
	ret->hz = said_hz();
	ret->measured = !ret->hz;
	if (!ret->hz)
		ret->hz = measured_hz();
	if (!ret->hz)
		ret->why = "the processor's counter stands still";
}

void sk_clock_table_refresh(struct sk_clock_table *table)
{
	if (!table->ticks.name)
		sk_clock_ticks_find(&table->ticks);
	for (unsigned source = 0; source < SK_CLOCK_SOURCES; source++) {
		struct sk_clock_pair pair;

		if (sk_clock_read(source, &table->ticks, READINGS, &pair))
			sk_clock_fit_add(&table->fits[source], &pair);
	}
}

const char *sk_clock_name(enum sk_clock_source source)
{
	static const char *const NAMES[] = {"REALTIME", "MONOTONIC_RAW", "BOOTTIME", NAME};

	return source < SK_CLOCK_SOURCES ? NAMES[source] : "";
}
