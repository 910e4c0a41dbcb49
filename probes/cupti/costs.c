/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of looking at a call of CUDA: learned from samples, and from calls that the tracer
 * makes.
 *
 * Windows are chosen by it. Calls that are timed and calls that are only counted are kept apart.
 * Threads: the tick thread; threads that make calls add to the sums.
 */
#include "cupti.h"

enum {
	CALLBACK_NS = 250,    /* CUPTI's own time for a pair of callbacks, until it is measured */
	INSTRUMENT_NS = 2000, /* the time that a record adds to its call, until it is measured */
	PROBE_CALLS = 128,
	PROBE_ROUNDS = 5,
};

static double callbacks_ns(void)
{
	return sk_cupti->learned.callbacks_ns > 0 ? sk_cupti->learned.callbacks_ns : CALLBACK_NS;
}

static double shortest_clock_ns(void)
{
	uint64_t shortest = UINT64_MAX;

	for (int round = 0; round < PROBE_ROUNDS; round++) {
		uint64_t from_ns = sk_tracer_now(), to_ns = from_ns;

		for (int i = 0; i < PROBE_CALLS; i++)
			to_ns = sk_tracer_now();
		shortest = to_ns - from_ns < shortest ? to_ns - from_ns : shortest;
	}
	return (double)shortest / PROBE_CALLS;
}

/* Return the shortest of some rounds of a call that does nothing. */
static double shortest_call_ns(void)
{
	uint64_t shortest = UINT64_MAX;

	for (int round = 0; round < PROBE_ROUNDS; round++) {
		uint64_t from_ns = sk_tracer_now(), took;
		int version;

		for (int i = 0; i < PROBE_CALLS; i++)
			sk_cupti->cuda.driver_version(&version);
		took = sk_tracer_now() - from_ns;
		shortest = took < shortest ? took : shortest;
	}
	return (double)shortest / PROBE_CALLS;
}

/* Measure CUPTI's time to call back at the beginning and at the end of a call, which cannot be seen
 * from inside of the callbacks: a call of the tracer is made with callbacks and without. This is
 * done once, in the tick thread, after the driver has taken a call of the application and so is up.
 */
static void measure_callbacks(void)
{
	double without, with;

	if (sk_cupti->probed || !sk_cupti->watching || !sk_cupti->cuda.driver_version ||
	    !atomic_load(&sk_cupti->joins.tail))
		return;
	sk_cupti->probed = true;
	sk_cupti->learned.clock_ns = shortest_clock_ns();
	without = shortest_call_ns();
	if (sk_cupti->api.enable_callback(1, sk_cupti->subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
					  CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion))
		return;
	with = shortest_call_ns();
	sk_cupti->api.enable_callback(0, sk_cupti->subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
				      CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion);
	if (with > without)
		sk_cupti->learned.callbacks_ns = with - without;
}

/* The sums of a phase since the latest plan. */
struct sums {
	double calls;
	double own_ns;	    /* of one call */
	double shortest_ns; /* the call by itself */
	bool known;
};

static struct sums take_sums(uint32_t phase)
{
	struct sk_cupti_costs *costs = &sk_cupti->costs[phase];
	double samples = (double)atomic_exchange(&costs->samples, 0);
	double own_ns = (double)atomic_exchange(&costs->own_ns, 0);
	double blocks = (double)atomic_exchange(&costs->blocks, 0);
	double shortest_ns = (double)atomic_exchange(&costs->shortest_ns, 0);

	return (struct sums){
		.calls = (double)atomic_exchange(&costs->calls, 0),
		.own_ns = samples > 0 ? own_ns / samples : 0,
		.shortest_ns = blocks > 0 ? shortest_ns / blocks : 0,
		.known = samples > 0 && blocks > 0,
	};
}

void sk_cupti_learn_from(uint64_t now_ns)
{
	sk_cupti->planned_ns = now_ns;
	sk_cupti->planned_cpu_ns = sk_tracer_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static double less(double value, double by)
{
	return value > by ? value - by : 0;
}

/* Take in what calls have cost since the latest plan. The two phases differ by the length of their
 * calls, because the driver takes longer over a call that is recorded. */
void sk_cupti_learn(uint64_t now_ns)
{
	struct sk_cupti_learned *learned = &sk_cupti->learned;

	measure_callbacks();
	struct sums timed = take_sums(SK_PHASE_TIMED), counted = take_sums(SK_PHASE_COUNTED);
	uint64_t *phase_ns = sk_tracer->driver.phase_ns;
	double timed_ns = (double)phase_ns[SK_PHASE_TIMED];
	double counted_ns = (double)phase_ns[SK_PHASE_COUNTED];
	uint64_t cpu = sk_tracer_clock_ns(CLOCK_PROCESS_CPUTIME_ID),
		 used = cpu - sk_cupti->planned_cpu_ns;
	uint64_t elapsed = now_ns - sk_cupti->planned_ns;
	double threads = elapsed && used > elapsed ? (double)used / (double)elapsed : 1;

	sk_cupti->planned_cpu_ns = cpu;
	sk_cupti->planned_ns = now_ns;
	phase_ns[SK_PHASE_TIMED] = phase_ns[SK_PHASE_COUNTED] = 0;
	if (timed.known)
		learned->timed_call_ns = timed.own_ns + callbacks_ns();
	/* A sample reads the clock twice; one in four calls that are only counted does. */
	if (counted.known)
		learned->counted_call_ns =
			less(counted.own_ns, 1.5 * learned->clock_ns) + callbacks_ns();
	if (timed.known)
		learned->timed_length_ns = timed.shortest_ns;
	if (counted.known)
		learned->counted_length_ns = counted.shortest_ns;
	if (timed_ns > 0)
		learned->rate = timed.calls / timed_ns / threads;
	else if (counted_ns > 0)
		learned->rate = counted.calls / counted_ns / threads;
}

double sk_cupti_timed_ns(void)
{
	const struct sk_cupti_learned *learned = &sk_cupti->learned;
	double call_ns = learned->timed_call_ns > 0 ? learned->timed_call_ns : callbacks_ns();

	if (!learned->timed_length_ns || !learned->counted_length_ns)
		return call_ns + INSTRUMENT_NS;
	return call_ns + less(learned->timed_length_ns, learned->counted_length_ns);
}

struct sk_tracer_call_costs sk_cupti_costs_now(void)
{
	const struct sk_cupti_learned *learned = &sk_cupti->learned;
	double timed_ns = sk_cupti_timed_ns();
	double counted_ns =
		learned->counted_call_ns > 0 ? learned->counted_call_ns : 2 * callbacks_ns();

	return (struct sk_tracer_call_costs){
		.calls_per_ns = learned->rate,
		.timed_ns = timed_ns,
		.counted_ns = counted_ns,
		.switch_ns = sk_cupti->switch_ns,
		.tail_ns = sk_cupti->tail_ns,
	};
}
