/* SPDX-License-Identifier: Apache-2.0 */
/* The tick thread: it reads the mode that the agent wants and the lease, then runs the driver's
 * tick.
 *
 * It stops when the process ends, so that no driver is called while it tears itself down.
 */
#include "tracer/parts.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { STACK_BYTES = 128 * 1024, QUIET_TICKS = 50 };

static const uint64_t TICK_NS = 20000000, TICK_QUIET_NS = 100000000, TICK_LEAST_NS = 50000;
static const uint64_t COUNTED_NS = UINT64_C(1000000000) * SK_LEASE_COUNTED_S;

struct wish {
	uint64_t wanted; /* the agent's word; 0: it has written none */
	uint32_t mode;
	uint32_t budget_ppm;
	bool lapsed; /* the lease has ended, not long ago */
};

/* Return what should be in force. Any value that the agent never writes means dormant. */
static struct wish read_wish(uint64_t now_ns)
{
	struct sk_segment_control *control = &sk_tracer->segment->header.control;
	/* Pairs with the agent, which writes the lease before its first wish. */
	uint64_t wanted = atomic_load_explicit(&control->wanted, memory_order_acquire);
	uint64_t lease_ns = atomic_load_explicit(&control->lease_ns, memory_order_relaxed);
	struct wish wish = {wanted, wanted & 0xff, (uint32_t)(wanted >> 8 & 0xffffff), false};

	if (!wanted || !lease_ns)
		return (struct wish){0, sk_tracer->started_mode, SK_TRACER_BUDGET_PPM, false};
	bool seeing = wish.mode == SK_MODE_GOVERNED || wish.mode == SK_MODE_FULL;

	/* An agent that is late must cost no count: a tracer that was told to look goes on
	 * counting. */
	wish.lapsed = seeing && now_ns >= lease_ns && now_ns - lease_ns < COUNTED_NS &&
		      sk_tracer_options.adapter && sk_tracer_options.adapter->counts_after_lease &&
		      sk_tracer->mode == wish.mode;
	if (!seeing || (now_ns >= lease_ns && !wish.lapsed))
		wish.mode = SK_MODE_DORMANT;
	if (!wish.budget_ppm)
		wish.budget_ppm = SK_TRACER_BUDGET_PPM;
	return wish;
}

static bool carry_out(const struct wish *wish, uint64_t now_ns)
{
	if (sk_tracer_options.adapter)
		return sk_tracer_drive_mode(wish->mode, wish->budget_ppm);
	if (wish->mode != sk_tracer->mode)
		sk_tracer_changed(wish->mode, sk_tracer_phase(wish->mode), now_ns, 0);
	return true;
}

static bool is_in_force(const struct wish *wish)
{
	return wish->lapsed == sk_tracer->lapsed &&
	       (wish->lapsed ||
		(wish->mode == sk_tracer->mode && wish->budget_ppm == sk_tracer->budget_ppm));
}

static bool obey(const struct wish *wish, uint64_t now_ns)
{
	if (is_in_force(wish))
		return true;
	if (wish->lapsed ? !sk_tracer_drive_lapse() : !carry_out(wish, now_ns))
		return false;
	sk_tracer->lapsed = wish->lapsed;
	sk_tracer->budget_ppm = wish->budget_ppm;
	return true;
}

static void look_at_control(uint64_t now_ns)
{
	struct sk_segment_header *header = &sk_tracer->segment->header;
	struct wish wish = read_wish(now_ns);

	if (header->stepped_aside)
		return;
	if (!obey(&wish, now_ns)) {
		sk_tracer_add(&header->answer.switches_late, 1);
		return;
	}
	/* A tracer whose lease has ended does not do what the agent wanted: it answers with 0. */
	atomic_store_explicit(&header->answer.applied, wish.lapsed ? 0 : wish.wanted,
			      memory_order_release);
}

static bool tick(void)
{
	uint64_t now = sk_tracer_now();
	bool work = false;

	sk_tracer->tick_at_ns = 0;
	pthread_mutex_lock(&sk_tracer->tick_lock);
	if (!sk_tracer->exiting) {
		look_at_control(now);
		work = sk_tracer_drive_tick(now);
	}
	pthread_mutex_unlock(&sk_tracer->tick_lock);
	return work;
}

static void pause_until_next(bool quiet)
{
	uint64_t length = quiet ? TICK_QUIET_NS : TICK_NS, at = sk_tracer->tick_at_ns;

	if (at) {
		uint64_t now = sk_tracer_now(), until = at > now ? at - now : 0;

		length = until < length ? until : length;
		length = length < TICK_LEAST_NS ? TICK_LEAST_NS : length;
	}
	struct timespec pause = {0, (long)length};

	nanosleep(&pause, NULL);
}

static void *run(void *unused)
{
	int quiet = 0;

	pthread_setname_np(pthread_self(), "stoker-trace");
	while (!sk_tracer->exiting) {
		quiet = tick() ? 0 : quiet + 1;
		pause_until_next(quiet > QUIET_TICKS);
	}
	return NULL;
}

bool sk_tracer_lock_at_exit(void)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 1;
	return !pthread_mutex_timedlock(&sk_tracer->tick_lock, &limit);
}

/* The handler is registered after the drivers were loaded, so it runs before they tear themselves
 * down. */
static void on_exit_of_process(void)
{
	if (!sk_tracer->generation)
		return; /* a forked child that has made no call of its own */
	sk_tracer->exiting = 1;
	if (!sk_tracer_lock_at_exit())
		return;
	/* Launches that have finished are still recorded. The lock stays taken. */
	sk_tracer_drive_exit();
}

void sk_tracer_start_ticks(void)
{
	static bool registered; /* handlers survive a fork */
	pthread_attr_t attributes;
	sigset_t all, before;

	sk_tracer->budget_ppm = SK_TRACER_BUDGET_PPM;
	sk_tracer->ticking = true;
	if (!registered)
		registered = !atexit(on_exit_of_process);
	if (pthread_attr_init(&attributes))
		return;
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	/* Signals go to threads of the application. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	/* Without this thread records wait for the next call or for the end of the process. */
	pthread_create(&sk_tracer->ticks, &attributes, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
}
