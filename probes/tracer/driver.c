/* SPDX-License-Identifier: Apache-2.0 */
/* Modes, phases and windows of every tracer; adapter.h says what an adapter adds to them. */
#include "tracer/parts.h"

enum { METERED_LAUNCHES = 1 << 14 /* the tracer's own cost is averaged over them */ };

/* Weight of the latest tick in the average of the launches per second. */
static const double LATEST = 0.2;

static const struct sk_tracer_adapter *adapter(void)
{
	return sk_tracer_options.adapter;
}

uint32_t sk_tracer_budget(void)
{
	return sk_tracer->budget_ppm ? sk_tracer->budget_ppm : SK_TRACER_BUDGET_PPM;
}

/* --- watermark -------------------------------------------------------------------------------- */

static void tell_oldest(uint64_t ns)
{
	struct sk_tracer_driver *driver = &sk_tracer->driver;

	driver->oldest_ns = ns;
	if (!driver->waiting && ns)
		driver->waiting = sk_tracer_slot();
	if (driver->waiting)
		sk_tracer_oldest(driver->waiting, 0, ns, SK_NO_DEVICE);
}

void sk_tracer_watermark(uint64_t oldest_ns, uint64_t now_ns)
{
	bool is_timing = sk_tracer->driver.phase == SK_PHASE_TIMED;

	if (oldest_ns && oldest_ns < now_ns)
		tell_oldest(oldest_ns);
	else
		tell_oldest(oldest_ns || is_timing ? now_ns : 0);
}

/* --- phase ------------------------------------------------------------------------------------ */

/* `period_ns`: start of the period whose plan draws this window; 0 when nothing is drawn. */
static bool enter(uint32_t mode, uint32_t phase, uint64_t period_ns)
{
	struct sk_tracer_driver *driver = &sk_tracer->driver;
	uint64_t before_ns = sk_tracer_now(), at_ns = 0;
	bool sees_more = !driver->phase || phase < driver->phase;

	/* Calls that are still in flight from an earlier window stay the oldest. */
	if (adapter()->in_batches && phase == SK_PHASE_TIMED && !driver->oldest_ns)
		tell_oldest(before_ns);
	if (!adapter()->apply(mode, phase, &at_ns))
		return false;
	/* Where windows overlap the worse one counts: more is seen from the end of the switch, less
	 * from its beginning. */
	if (!at_ns)
		at_ns = sees_more ? sk_tracer_now() : before_ns;
	driver->phase = phase;
	driver->told_period_ns = period_ns;
	sk_tracer_changed(mode, phase, at_ns, period_ns ? driver->plan.period_ns : 0);
	if (adapter()->settle)
		adapter()->settle();
	return true;
}

bool sk_tracer_enter(uint32_t mode)
{
	sk_tracer_plan_init(&sk_tracer->driver.plan, &adapter()->limits, sk_tracer_now());
	return enter(mode, sk_tracer_phase(mode), 0);
}

bool sk_tracer_drive_mode(uint32_t mode, uint32_t budget_ppm)
{
	if (!adapter()->is_ready())
		return false;
	sk_tracer->budget_ppm = budget_ppm;
	if (mode == sk_tracer->mode && !sk_tracer->lapsed)
		return true; /* the next plan goes by the new budget */
	return sk_tracer_enter(mode) || sk_tracer->segment->header.stepped_aside;
}

bool sk_tracer_drive_lapse(void)
{
	const struct sk_tracer_driver *driver = &sk_tracer->driver;

	if (!adapter()->is_ready())
		return false;
	return (driver->phase == SK_PHASE_COUNTED && !driver->told_period_ns) ||
	       enter(sk_tracer_mode(), SK_PHASE_COUNTED, 0);
}

/* --- budget ----------------------------------------------------------------------------------- */

/* Tell the cost of looking at a call, which estimates of unseen times need. */
static void tell_costs(const struct sk_tracer_call_costs *costs)
{
	struct sk_segment_header *header = &sk_tracer->segment->header;

	atomic_store_explicit(&header->timed_call_ns, (uint32_t)costs->timed_ns,
			      memory_order_relaxed);
	atomic_store_explicit(&header->counted_call_ns, (uint32_t)costs->counted_ns,
			      memory_order_relaxed);
}

static void begin_period(uint64_t now_ns)
{
	struct sk_tracer_plan *plan = &sk_tracer->driver.plan;
	struct sk_tracer_call_costs call = adapter()->costs(now_ns);
	const struct sk_tracer_costs costs = {.timed = call.calls_per_ns * call.timed_ns,
					      .whole = call.calls_per_ns * call.whole_ns,
					      .counted = call.calls_per_ns * call.counted_ns,
					      .switch_ns = call.switch_ns,
					      .tail_ns = call.tail_ns};
	uint64_t budget_ppm = (uint64_t)sk_tracer_budget() * adapter()->planned_percent / 100;

	tell_costs(&call);
	if (call.learn_ns)
		sk_tracer_plan_count(plan, now_ns, call.learn_ns);
	else
		sk_tracer_plan_period(plan, &costs, (uint32_t)budget_ppm, now_ns);
}

static bool is_over_budget(uint64_t now_ns)
{
	if (adapter()->is_over_budget)
		return adapter()->is_over_budget(now_ns);
	if (!sk_tracer_plan_is_whole(&sk_tracer->driver.plan))
		return false;
	struct sk_tracer_call_costs call = adapter()->costs(now_ns);
	double most = sk_tracer_budget() / 1e6 * adapter()->whole_percent / 100;

	tell_costs(&call);
	return call.calls_per_ns * (call.whole_ns > 0 ? call.whole_ns : call.timed_ns) > most;
}

/* The segment states each window with the period that drew it, so a new period begins a new window
 * even if the phase stays the same. Periods that are timed whole draw none and are one window. */
static void govern(uint64_t now_ns)
{
	struct sk_tracer_driver *driver = &sk_tracer->driver;
	struct sk_tracer_plan *plan = &driver->plan;
	uint64_t next_ns, period_ns;
	uint32_t phase;

	if (!plan->limits.period_ns) /* the tracer was governed from its start */
		sk_tracer_plan_init(plan, &adapter()->limits, now_ns);
	if (sk_tracer_plan_is_over(plan, now_ns) || is_over_budget(now_ns))
		begin_period(now_ns);
	phase = sk_tracer_plan_phase(plan, now_ns, &next_ns);
	period_ns = sk_tracer_plan_chosen(plan) ? plan->from_ns : 0;
	if (phase != driver->phase || period_ns != driver->told_period_ns)
		enter(SK_MODE_GOVERNED, phase, period_ns);
	sk_tracer->tick_at_ns = next_ns;
}

/* --- meter ------------------------------------------------------------------------------------ */

struct sk_tracer_call_costs sk_tracer_metered_costs(double timed_ns, double counted_ns)
{
	const struct sk_tracer_meter *meter = &sk_tracer->driver.meter;
	double own_ns = meter->timed_launches
				? (double)meter->timed_tracer_ns / (double)meter->timed_launches
				: 0;

	return (struct sk_tracer_call_costs){.calls_per_ns = meter->per_s / 1e9,
					     .timed_ns = timed_ns + own_ns,
					     .counted_ns = counted_ns};
}

static void meter_own(struct sk_tracer_meter *meter, uint64_t launches, uint64_t tracer_ns)
{
	meter->timed_launches += launches;
	meter->timed_tracer_ns += tracer_ns;
	if (meter->timed_launches > METERED_LAUNCHES) {
		meter->timed_launches /= 2;
		meter->timed_tracer_ns /= 2;
	}
}

/* Take in the launches since the latest tick. While nothing is seen the last rate is kept. Ticks
 * are part of the tracer's own cost: they are long only while there are records. */
static bool meter_launches(uint64_t passed_ns)
{
	struct sk_tracer_driver *driver = &sk_tracer->driver;
	struct sk_tracer_meter *meter = &driver->meter;
	uint64_t tracer_ns, launches = sk_tracer_launches(&tracer_ns);
	uint64_t more = launches - meter->launches;

	if (driver->phase == SK_PHASE_TIMED)
		meter_own(meter, more, tracer_ns - meter->tracer_ns);
	if (passed_ns && sk_tracer_sees(driver->phase))
		meter->per_s = (1 - LATEST) * meter->per_s +
			       LATEST * 1e9 * (double)more / (double)passed_ns;
	meter->launches = launches;
	meter->tracer_ns = tracer_ns;
	return more;
}

void sk_tracer_spent(uint64_t from_cpu_ns)
{
	struct sk_tracer_slot *slot = sk_tracer_slot();

	if (slot)
		sk_tracer_add(&slot->shared->counters.tracer_ns,
			      sk_tracer_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from_cpu_ns);
}

/* --- ticks ------------------------------------------------------------------------------------ */

static void pass_time(uint64_t now_ns)
{
	struct sk_tracer_driver *driver = &sk_tracer->driver;
	uint64_t passed_ns =
		driver->ticked_ns && now_ns > driver->ticked_ns ? now_ns - driver->ticked_ns : 0;

	driver->phase_ns[driver->phase] += passed_ns;
	driver->ticked_ns = now_ns;
}

static bool tick(uint64_t now_ns)
{
	pass_time(now_ns);
	if (sk_tracer->mode == SK_MODE_GOVERNED && !sk_tracer->lapsed &&
	    !sk_tracer->segment->header.stepped_aside)
		govern(now_ns);
	return adapter()->harvest(now_ns);
}

static bool tick_in_batches(uint64_t now_ns)
{
	uint64_t from_cpu_ns = sk_tracer_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint64_t ticked_ns = sk_tracer->driver.ticked_ns;

	if (sk_tracer->segment->header.stepped_aside)
		return false;
	sk_tracer_slot(); /* taken while there is one: records of ticks need it */
	bool launched = meter_launches(ticked_ns && now_ns > ticked_ns ? now_ns - ticked_ns : 0);
	bool works = tick(now_ns);

	sk_tracer_spent(from_cpu_ns);
	return works || launched;
}

bool sk_tracer_drive_tick(uint64_t now_ns)
{
	if (!adapter() || !adapter()->is_ready())
		return false;
	return adapter()->in_batches ? tick_in_batches(now_ns) : tick(now_ns);
}

void sk_tracer_drive_exit(void)
{
	if (!adapter())
		return;
	if (adapter()->is_ready())
		adapter()->finish();
	if (adapter()->in_batches)
		tell_oldest(0);
}
