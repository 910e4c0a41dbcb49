/* SPDX-License-Identifier: Apache-2.0 */
/* How much is seen, changed while the job runs: two contexts of the profiler that can be started
 * and stopped at any time. With both stopped the runtime calls none of this; what remains is the
 * profiler's own look at its list of contexts. A launch that was enqueued under a context is
 * delivered although the context has been stopped since (the profiler promises it). */
#include "tool.h"

#include <stdio.h>

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
	if (!sk_rocp.waiting && ns)
		sk_rocp.waiting = sk_tracer_slot();
	if (sk_rocp.waiting)
		sk_tracer_oldest(sk_rocp.waiting, 0, ns, SK_NO_DEVICE);
}

void sk_rocp_enter(uint32_t mode, uint32_t phase, uint64_t chosen_ns)
{
	uint64_t before = sk_tracer_now();
	bool more = phase < sk_rocp.phase || !sk_rocp.phase;

	if (phase == SK_PHASE_TIMED && !sk_rocp.timing)
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
	if (!sk_rocp.configured || sk_rocp.finished)
		return false;
	if (mode != sk_tracer->mode || !sk_rocp.phase)
		sk_rocp_enter(mode, sk_tracer_phase(mode), 0);
	return true;
}

static uint64_t launches_now(uint64_t *tracer_ns)
{
	struct sk_segment *segment = sk_tracer->segment;
	uint64_t launches = 0;

	*tracer_ns = 0;
	for (uint32_t i = 0; i < segment->header.slots_used; i++) {
		launches += segment->slots[i].counters.launches;
		launches += segment->slots[i].counters.copies;
		*tracer_ns += segment->slots[i].counters.tracer_ns;
	}
	return launches;
}

/* Launches are counted in both phases that see them, so the rate is known but while blind. */
static bool note_rate(uint64_t now_ns, uint64_t *own_ns)
{
	uint64_t tracer_ns, launches = launches_now(&tracer_ns);
	uint64_t more = launches - sk_rocp.launches_seen;

	*own_ns = launches ? tracer_ns / launches : 0;
	if (sk_rocp.seen_at_ns && now_ns > sk_rocp.seen_at_ns && sees(sk_rocp.phase))
		sk_rocp.launches_per_s =
			0.8 * sk_rocp.launches_per_s +
			0.2e9 * (double)more / (double)(now_ns - sk_rocp.seen_at_ns);
	sk_rocp.launches_seen = launches;
	sk_rocp.seen_at_ns = now_ns;
	return more;
}

static void govern(uint64_t now_ns, uint64_t own_ns)
{
	double rate = sk_rocp.launches_per_s;
	uint32_t budget = sk_tracer->budget_ppm ? sk_tracer->budget_ppm : SK_BUDGET_PPM;
	uint64_t timed_ppm = (uint64_t)(rate * (double)(SK_ROCP_ASSUMED_NS + own_ns) / 1e3);
	uint64_t counted_ppm = (uint64_t)(rate * SK_ROCP_ASSUMED_COUNT_NS / 1e3);
	uint32_t share = sk_windows_share(timed_ppm, budget);
	uint32_t rest = counted_ppm > budget ? SK_PHASE_BLIND : SK_PHASE_COUNTED;
	bool timed = sk_windows_timed(&sk_rocp.windows, now_ns, share);
	uint32_t phase = timed ? SK_PHASE_TIMED : rest;

	if (phase != sk_rocp.phase)
		sk_rocp_enter(SK_MODE_GOVERNED, phase,
			      timed && share < SK_SHARE_WHOLE ? sk_rocp.windows.period_ns : 0);
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
	uint64_t own_ns;

	if (!sk_rocp.configured || sk_rocp.finished || sk_tracer->segment->header.stepped_aside)
		return false;
	bool launched = note_rate(now_ns, &own_ns);

	if (sk_rocp.timing || sk_tracer->mode != SK_MODE_DORMANT)
		sk_rocp_fit(now_ns);
	if (sk_tracer->mode == SK_MODE_GOVERNED)
		govern(now_ns, own_ns);
	return deliver(now_ns) || launched;
}

void sk_rocp_on_exit(void)
{
	if (sk_rocp.configured && !sk_rocp.finished) {
		sk_rocp_fit(sk_tracer_now());
		sk_rocp.call.flush(sk_rocp.buffer);
	}
	tell_oldest(0);
}
