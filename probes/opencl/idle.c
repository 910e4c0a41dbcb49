/* SPDX-License-Identifier: Apache-2.0 */
/* The idle thread: publishes the finished launches of threads that make no calls, and stands aside
 * when the process ends, so that no driver is called while it tears itself down. */
#include "layer.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 128 * 1024, TICK_MS = 20, TICK_QUIET_MS = 100, QUIET_TICKS = 50 };

static bool has_waiting(const struct sk_thread *thread)
{
	for (unsigned lane = 0; lane < SK_SEGMENT_LANES; lane++)
		if (thread->lanes[lane].head != thread->lanes[lane].tail)
			return true;
	return false;
}

/* A thread that harvested since the last tick looks after itself. Returns true when launches
 * wait, whoever looks after them. */
static bool look_after(struct sk_thread *thread, uint64_t *harvested)
{
	uint64_t now = thread->harvested;
	bool waiting = has_waiting(thread), moved = now != *harvested;

	*harvested = now;
	if (waiting && !moved && sk_harvest_for(thread) &&
	    atomic_load_explicit(&thread->state, memory_order_acquire) == SK_THREAD_LEFT &&
	    !has_waiting(thread))
		sk_thread_free(thread);
	return waiting;
}

static bool tick(uint64_t harvested[SK_SEGMENT_SLOTS])
{
	bool waiting = false;

	pthread_mutex_lock(&layer->idle_lock);
	for (uint32_t index = 0; index < SK_SEGMENT_SLOTS && !layer->exiting; index++) {
		struct sk_thread *thread =
			atomic_load_explicit(&layer->threads[index], memory_order_acquire);

		if (thread)
			waiting |= look_after(thread, &harvested[index]);
	}
	pthread_mutex_unlock(&layer->idle_lock);
	return waiting;
}

static void *run(void *unused)
{
	uint64_t harvested[SK_SEGMENT_SLOTS] = {0};
	int quiet = 0;

	pthread_setname_np(pthread_self(), "stoker-trace");
	while (!layer->exiting) {
		int ms = quiet > QUIET_TICKS ? TICK_QUIET_MS : TICK_MS;
		struct timespec pause = {0, ms * 1000000L};

		nanosleep(&pause, NULL);
		quiet = tick(harvested) ? 0 : quiet + 1;
	}
	return NULL;
}

/* Registered after the drivers were loaded, so it runs before they tear themselves down. */
static void on_exit_of_process(void)
{
	struct timespec limit;

	if (!layer->generation)
		return; /* a forked child that made no call of its own */
	layer->exiting = 1;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 1;
	if (pthread_mutex_timedlock(&layer->idle_lock, &limit))
		return;
	/* What has finished by now is still recorded. The lock stays taken. */
	for (uint32_t index = 0; index < SK_SEGMENT_SLOTS; index++)
		if (layer->threads[index])
			sk_harvest_for(layer->threads[index]);
}

void sk_idle_start(void)
{
	static bool registered; /* handlers survive a fork */
	pthread_attr_t attributes;
	sigset_t all, before;

	if (!registered)
		registered = !atexit(on_exit_of_process);
	if (pthread_attr_init(&attributes))
		return;
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	/* Signals are the application's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	/* Without this thread records only wait for the next call or the end of the process. */
	pthread_create(&layer->idle, &attributes, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
}
