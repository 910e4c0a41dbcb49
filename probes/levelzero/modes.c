/* SPDX-License-Identifier: Apache-2.0 */
/* How much is seen, changed while the job runs: the tracer of launches is switched on and off in
 * the loader's tracing layer. What is off is not called; what remains is the layer's look at its
 * list. */
#include "levelzero/levelzero.h"

_Thread_local bool sk_ze_inside;

static bool sees(uint32_t phase)
{
	return phase == SK_PHASE_TIMED || phase == SK_PHASE_COUNTED;
}

static void tell_oldest(uint64_t ns)
{
	sk_ze_it.told_ns = ns;
	if (!sk_ze_it.waiting && ns)
		sk_ze_it.waiting = sk_tracer_slot();
	if (sk_ze_it.waiting)
		sk_tracer_oldest(sk_ze_it.waiting, 0, ns, SK_NO_DEVICE);
}

/* Set up, and in this process rather than in the one it was forked from. */
static bool is_here(void)
{
	return sk_ze_it.configured && sk_ze_it.generation == sk_tracer->generation;
}

/* From here on no launch is timed unless `phase` says so. Before nothing is seen any more, what
 * lists have in flight is settled: they may be executed again, and their events tell the newest. */
static void set_phase(uint32_t phase)
{
	pthread_mutex_lock(&sk_ze_it.lock);
	sk_ze_it.phase = phase;
	if (!sees(phase))
		sk_ze_settle_lists();
	pthread_mutex_unlock(&sk_ze_it.lock);
}

void sk_ze_enter(uint32_t mode, uint32_t phase, uint64_t chosen_ns)
{
	uint64_t before = sk_tracer_now();
	bool more = phase < sk_ze_it.phase || !sk_ze_it.phase;

	/* What is still in flight from a window before stays the oldest. */
	if (phase == SK_PHASE_TIMED && !sk_ze_it.told_ns)
		tell_oldest(before);
	if (!more)
		set_phase(phase);
	if (sk_ze_it.launching != sees(phase) &&
	    sk_ze_it.call.tracer_enable(sk_ze_it.launches, sees(phase))) {
		sk_tracer_step_aside("the tracing layer would not switch");
		return;
	}
	sk_ze_it.launching = sees(phase);
	if (more)
		set_phase(phase);
	/* The worse of two where they overlap: more is seen from the end of the switch, less from
	 * its beginning. */
	sk_tracer_changed(mode, phase, more ? sk_tracer_now() : before, chosen_ns);
}

bool sk_ze_on_mode(uint32_t mode, uint32_t budget_ppm)
{
	sk_ze_inside = true;
	if (!is_here())
		return false;
	if (mode != sk_tracer->mode)
		sk_ze_enter(mode, sk_tracer_phase(mode), 0);
	return true;
}

static void govern(uint64_t now_ns)
{
	uint64_t chosen_ns;
	uint32_t phase = sk_governed_phase(&sk_ze_it.governed, now_ns, &chosen_ns);

	if (sk_governed_begins(&sk_ze_it.governed, phase, sk_ze_it.phase, chosen_ns))
		sk_ze_enter(SK_MODE_GOVERNED, phase, chosen_ns);
}

static void fit_all(uint64_t now_ns)
{
	pthread_mutex_lock(&sk_ze_it.lock);
	for (uint32_t i = 0; i < sk_ze_it.device_count; i++)
		sk_ze_device_fit(&sk_ze_it.devices[i], now_ns);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

bool sk_ze_on_tick(uint64_t now_ns)
{
	uint64_t from = sk_governed_cpu_ns();

	sk_ze_inside = true;
	if (!is_here() || sk_tracer->segment->header.stepped_aside)
		return false;
	sk_tracer_slot(); /* while there is one: the records of the ticks need it */
	bool launched = sk_governed_note(&sk_ze_it.governed, now_ns, sk_ze_it.phase);

	/* Also while dormant: a counter that wraps must not be lost sight of. */
	fit_all(now_ns);
	if (sk_tracer->mode == SK_MODE_GOVERNED)
		govern(now_ns);
	uint64_t oldest = sk_ze_harvest_all();

	if (oldest && oldest < now_ns)
		tell_oldest(oldest);
	else
		tell_oldest(oldest || sk_ze_it.phase == SK_PHASE_TIMED ? now_ns : 0);
	sk_governed_spent(from);
	return launched || oldest;
}

void sk_ze_on_exit(void)
{
	sk_ze_inside = true;
	if (is_here())
		sk_ze_harvest_all();
	tell_oldest(0);
}
