/* SPDX-License-Identifier: Apache-2.0 */
/* thread_clock: the clock of a thread over simulated counters and clocks, and over the real ones.
 *
 *     thread_clock simulated    prints a line for each broken rule
 *     thread_clock real         the same against clock_gettime, or "absent" where the counter
 *                               cannot be used
 *
 * The simulated machine knows the true time of every reading. Its counter has any frequency, its
 * clock is slewed, readings are interrupted, and now and then the counter jumps or changes its
 * rate, as it does when a virtual machine moves to another host.
 */
#include "tracer/clock.h"
#include "tracer/thread_clock.h"

#include <stdio.h>
#include <string.h>

enum {
	MACHINES = 2000,
	READINGS = 20000,
	ERROR_NS = 150,
	AFTER_CHANGES_NS = 500,
	REACH_NS = 4000000
};

static uint64_t state = 88172645463325252u;

static uint64_t random_below(uint64_t limit)
{
	state ^= state << 13; /* Marsaglia, Xorshift RNGs, 2003 */
	state ^= state >> 7;
	state ^= state << 17;
	return state % limit;
}

struct machine {
	double true_ns, clock_ns, counts; /* the clock differs from the truth by its slew */
	double per_ns, slew;
	double changed_ns; /* the latest change of the counter's rate or its latest jump */
};

static void pass(struct machine *machine, double ns)
{
	machine->true_ns += ns;
	machine->clock_ns += ns * machine->slew;
	machine->counts += ns * machine->per_ns;
}

/* Return the counts of a nanosecond of some CPU. */
static double any_rate(void)
{
	return 1 + (double)random_below(4000) / 1000;
}

static void disturb(struct machine *machine)
{
	if (random_below(2))
		machine->per_ns = any_rate();
	else
		machine->counts += (double)random_below(UINT64_C(1) << 40);
	machine->changed_ns = machine->true_ns;
}

static uint64_t read_both(struct machine *machine, struct sk_thread_clock *clock)
{
	uint64_t before = (uint64_t)machine->counts;

	pass(machine, 10 + (double)random_below(5));
	uint64_t ns = (uint64_t)machine->clock_ns;

	pass(machine, 10 + (double)random_below(5));
	if (!random_below(50))
		pass(machine, 5000 + (double)random_below(5000000)); /* an interrupt */
	return sk_thread_clock_take(clock, before, ns, (uint64_t)machine->counts);
}

/* Return the number of broken rules. */
static int run(struct machine *machine, bool steady, int *ret_laid_out)
{
	struct sk_thread_clock clock = {.usable = true};
	uint64_t before = 0, error = steady ? ERROR_NS : AFTER_CHANGES_NS;
	int broken = 0;

	for (int i = 0; i < READINGS; i++) {
		pass(machine, random_below(200) ? (double)random_below(3000)
						: (double)random_below(40000000));
		if (!steady && !random_below(5000))
			disturb(machine);
		uint64_t ns, from = (uint64_t)machine->clock_ns;
		bool laid_out = sk_thread_clock_lay_out(&clock, (uint64_t)machine->counts, &ns);

		if (!laid_out)
			ns = read_both(machine, &clock);
		uint64_t to = (uint64_t)machine->clock_ns;
		bool settled = machine->true_ns > machine->changed_ns + REACH_NS;

		*ret_laid_out += laid_out;
		broken += ns < before;
		broken += settled && (ns + error < from || ns > to + error);
		before = ns;
	}
	return broken;
}

static int simulated(void)
{
	int broken = 0, laid_out = 0;

	for (int i = 0; i < MACHINES; i++) {
		struct machine machine = {
			.true_ns = 1e9,
			.clock_ns = 1e9 + (double)random_below(UINT64_C(1) << 50),
			.counts = (double)random_below(UINT64_C(1) << 50),
			.per_ns = any_rate(),
			.slew = 1 + ((double)random_below(1000) - 500) / 1e6,
			.changed_ns = -1e9,
		};
		int wrong = run(&machine, i % 2, &laid_out);

		if (wrong)
			printf("machine %d: %d of %d readings\n", i, wrong, READINGS);
		broken += wrong;
	}
	if (laid_out < MACHINES / 2 * READINGS)
		printf("only %d of %d readings came from the counter\n", laid_out,
		       MACHINES * READINGS);
	return broken > 0;
}

static int real(void)
{
	struct sk_thread_clock clock = {.usable = sk_thread_clock_is_usable()};
	uint64_t end = sk_tracer_clock_ns(CLOCK_MONOTONIC) + 300000000, last = 0, to = 0;
	int readings = 0, laid_out = 0, broken = 0;

	if (!clock.usable) {
		puts("absent");
		return 0;
	}
	for (; to < end; readings++) {
		uint64_t from = sk_tracer_clock_ns(CLOCK_MONOTONIC);
		uint64_t ns = sk_thread_clock_now(&clock);

		to = sk_tracer_clock_ns(CLOCK_MONOTONIC);
		laid_out += clock.latest_ns != ns;
		broken += ns < last || ns + ERROR_NS < from || ns > to + ERROR_NS;
		last = ns;
	}
	if (broken || laid_out < readings / 2)
		printf("%d of %d readings are wrong, %d came from the counter\n", broken, readings,
		       laid_out);
	return broken > 0;
}

int main(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[1], "real") ? real() : simulated();
}
