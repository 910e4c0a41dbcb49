/* SPDX-License-Identifier: Apache-2.0 */
/* How much is seen, changed while the job runs: two contexts of the profiler that can be started
 * and stopped at any time. With both stopped the runtime calls none of this; what remains is the
 * profiler's own look at its list of contexts. A launch that was enqueued under a context is
 * delivered although the context has been stopped since (the profiler promises it). */
#include "tool.h"

static bool sees(uint32_t phase)
{
	return phase == SK_PHASE_TIMED || phase == SK_PHASE_COUNTED;
}

static bool set(bool *is_on, bool on, struct sk_rocp_id context)
{
	if (*is_on == on)
		return true;
	if (on ? sk_rocp.call.start(context) : sk_rocp.call.stop(context))
		return false;
	*is_on = on;
	return true;
}

/* Timing last on and first off: what is timed is always counted. */
static bool apply(uint32_t phase)
{
	bool times = phase == SK_PHASE_TIMED;

	if (times)
		return set(&sk_rocp.counting, true, sk_rocp.counts) &&
		       set(&sk_rocp.timing, true, sk_rocp.times);
	return set(&sk_rocp.timing, false, sk_rocp.times) &&
	       set(&sk_rocp.counting, sees(phase), sk_rocp.counts);
}

/* Who still waits for what: nothing that began before `ns` will be told any more. */
static void tell_oldest(uint64_t ns)
{
	sk_rocp.told_ns = ns;
	if (!sk_rocp.waiting && ns)
		sk_rocp.waiting = sk_tracer_slot();
	if (sk_rocp.waiting)
		sk_tracer_oldest(sk_rocp.waiting, 0, ns, SK_NO_DEVICE);
}

void sk_rocp_enter(uint32_t mode, uint32_t phase, uint64_t chosen_ns)
{
	uint64_t before = sk_tracer_now();
	bool more = phase < sk_rocp.phase || !sk_rocp.phase;

	/* What is still in flight from a window before stays the oldest. */
	if (phase == SK_PHASE_TIMED && !sk_rocp.told_ns)
		tell_oldest(before);
	if (!apply(phase)) {
		sk_tracer_step_aside("rocprofiler would not start or stop a context");
		return;
	}
	sk_rocp.phase = phase;
	/* The worse of two where they overlap: more is seen from the end of the switch, less from
	 * its beginning. */
	sk_tracer_changed(mode, phase, more ? sk_tracer_now() : before, chosen_ns);
}

bool sk_rocp_on_mode(uint32_t mode, uint32_t budget_ppm)
{
	if (!sk_rocp_is_here())
		return false;
	if (mode != sk_tracer->mode || !sk_rocp.phase)
		sk_rocp_enter(mode, sk_tracer_phase(mode), 0);
	return true;
}

static void govern(uint64_t now_ns)
{
	uint64_t chosen_ns;
	uint32_t phase = sk_governed_phase(&sk_rocp.governed, now_ns, &chosen_ns);

	if (sk_governed_begins(&sk_rocp.governed, phase, sk_rocp.phase, chosen_ns))
		sk_rocp_enter(SK_MODE_GOVERNED, phase, chosen_ns);
}

/* Hand over what is finished, then say what is not. */
static bool deliver(uint64_t now_ns)
{
	pthread_mutex_lock(&sk_rocp.lock);
	uint64_t oldest = sk_tickets_oldest(&sk_rocp.tickets);

	pthread_mutex_unlock(&sk_rocp.lock);
	if (oldest) {
		sk_rocp.call.flush(sk_rocp.buffer);
		pthread_mutex_lock(&sk_rocp.lock);
		oldest = sk_tickets_oldest(&sk_rocp.tickets);
		pthread_mutex_unlock(&sk_rocp.lock);
	}
	if (oldest && oldest < now_ns)
		tell_oldest(oldest);
	else
		tell_oldest(oldest || sk_rocp.timing ? now_ns : 0);
	return oldest;
}

bool sk_rocp_on_tick(uint64_t now_ns)
{
	uint64_t from = sk_governed_cpu_ns();

	if (!sk_rocp_is_here() || sk_tracer->segment->header.stepped_aside)
		return false;
	bool launched = sk_governed_note(&sk_rocp.governed, now_ns, sk_rocp.phase);

	if (sk_rocp.timing || sk_tracer->mode != SK_MODE_DORMANT)
		sk_rocp_fit(now_ns);
	if (sk_tracer->mode == SK_MODE_GOVERNED)
		govern(now_ns);
	bool waits = deliver(now_ns);

	sk_governed_spent(from);
	return waits || launched;
}

void sk_rocp_on_exit(void)
{
	if (sk_rocp_is_here()) {
		sk_rocp_fit(sk_tracer_now());
		sk_rocp.call.flush(sk_rocp.buffer);
	}
	tell_oldest(0);
}
