/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches held by the word in a segment: a loop that launches nothing, linked to the tracer. Its
 * argument says which case; exit status 0 when all of it was so.
 */
#include "tracer/tracer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static const uint64_t SECOND = 1000000000;

static struct sk_segment_header *header(void)
{
	return &sk_tracer->segment->header;
}

static struct sk_tracer_slot *told_slot;
static uint64_t told, told_from, told_to, told_calling;

static void on_throttled(struct sk_tracer_slot *slot, uint64_t from_ns, uint64_t to_ns)
{
	told++;
	told_slot = slot;
	told_from = from_ns;
	told_to = to_ns;
	told_calling = slot->shared->calling_ns;
}

static void begin(bool holds)
{
	const struct sk_tracer_options options = {.kind = SK_TRACER_OPENCL,
						  .slot_bytes = sizeof(struct sk_tracer_slot),
						  .wakes = true,
						  .on_throttled = on_throttled,
						  .throttles = holds};

	CHECK(sk_tracer_prepare(&options) && sk_tracer_ready());
	CHECK(header()->holds == holds);
}

static void hold(uint32_t share, uint64_t until_ns)
{
	header()->hold = sk_throttle_word(share, until_ns);
}

/* In each period exactly the share is open, the rest waits for the next, and nothing for longer. */
static void words(void)
{
	const uint64_t at = 77 * (uint64_t)SK_THROTTLE_PERIOD_NS;

	for (uint32_t share = 1; share < SK_THROTTLE_WHOLE; share++) {
		uint64_t word = sk_throttle_word(share, at + SECOND / 2);
		uint64_t open_ns = share * (uint64_t)SK_THROTTLE_PERIOD_NS / SK_THROTTLE_WHOLE;

		CHECK(sk_throttle_share(word) == share);
		CHECK(!sk_throttle_opens(word, at) && !sk_throttle_opens(word, at + open_ns - 1));
		CHECK(sk_throttle_opens(word, at + open_ns + 1) == at + SK_THROTTLE_PERIOD_NS);
		CHECK(!sk_throttle_opens(word, at + SECOND / 2));
	}
	CHECK(!sk_throttle_word(0, at + SECOND) &&
	      !sk_throttle_word(SK_THROTTLE_WHOLE, at + SECOND));
	CHECK(!sk_throttle_word(UINT32_MAX, at + SECOND));
	srand(5);
	for (int i = 0; i < 2000000; i++) {
		uint64_t near = at + (uint64_t)(rand() % 3) * SECOND - SECOND;
		uint64_t noise = (uint64_t)rand() << 33 ^ (uint64_t)rand() << 11 ^ (uint64_t)rand();
		uint64_t word = i % 2 ? noise : near + noise % SECOND;
		uint64_t now = at + (uint64_t)rand() % SK_THROTTLE_PERIOD_NS;
		uint64_t opens = sk_throttle_opens(word, now);

		CHECK(!opens || (opens > now && opens - now <= SK_THROTTLE_PERIOD_NS));
		CHECK(!opens || (opens <= sk_throttle_until(word) &&
				 sk_throttle_until(word) - now <= (uint64_t)SK_THROTTLE_VALID_NS));
	}
}

/* Launches at any moment of the period; how many were let in without a wait outside of a window. */
static unsigned launch(unsigned count)
{
	unsigned outside = 0;

	for (unsigned i = 0; i < count; i++) {
		uint64_t before = header()->held, word = header()->hold;

		usleep(500 + (unsigned)rand() % 4000);
		uint64_t from = sk_tracer_now();

		sk_tracer_throttle();
		uint64_t now = sk_tracer_now();

		/* Was it pre-empted in between, then a whole window may have passed. */
		if (header()->held == before && now - from < 1000000)
			outside += sk_throttle_opens(word, from) && sk_throttle_opens(word, now);
	}
	return outside;
}

static void half(void)
{
	unsigned outside = 0;

	begin(true);
	CHECK(!launch(20) && !header()->held);
	for (int i = 0; i < 20; i++) { /* as the agent renews it */
		hold(SK_THROTTLE_WHOLE / 2, sk_tracer_now() + SECOND);
		outside += launch(5);
	}
	CHECK(!outside);
	CHECK(header()->held > 5 && header()->held <= 100);
	CHECK(header()->held_ns > header()->held * 1000);
	header()->hold = 0;
	uint64_t held = header()->held;

	CHECK(!launch(20) && header()->held == held);
	CHECK(!told); /* while dormant */
}

/* The tracer reports each wait of a watched thread, and the reader knows of it meanwhile; also a
 * wait inside another call. */
static void watched(void)
{
	begin(true);
	hold(1, sk_tracer_now() + SECOND);
	uint64_t from = sk_tracer_now();

	while (header()->held < 5)
		sk_tracer_throttle();
	CHECK(told == 5 && told_slot == sk_tracer_slot());
	CHECK(told_from > from && told_from < told_to && told_to <= sk_tracer_now());
	CHECK(told_calling == told_from && !told_slot->shared->calling_ns);
	told_slot->shared->calling_ns = from;
	hold(1, sk_tracer_now() + SECOND);
	while (header()->held < 7)
		sk_tracer_throttle();
	CHECK(told == 7 && told_calling == from && told_slot->shared->calling_ns == from);
	header()->hold = 0;
	CHECK(!launch(5) && told == 7);
}

/* Nobody renews the word: what it held goes on when it is over, and for good. */
static void gone(void)
{
	begin(true);
	uint64_t until = sk_tracer_now() + SECOND * 3 / 10;

	hold(1, until);
	while (sk_tracer_now() < until)
		sk_tracer_throttle();
	uint64_t held = header()->held;

	CHECK(held > 1 && held < 1000);
	for (int i = 0; i < 100000; i++)
		sk_tracer_throttle();
	CHECK(header()->held == held);
}

static void on_signal(int number)
{
}

/* Words that no agent writes, all the time; signals; errno stays the caller's; a forked child. */
static void hostile(void)
{
	const uint64_t open[] = {UINT64_MAX, SK_THROTTLE_WHOLE - 1, UINT64_C(1) << 63,
				 1,	     SK_THROTTLE_WHOLE,	    UINT64_MAX - 1023};
	struct itimerval often = {{0, 700}, {0, 700}};

	begin(true);
	for (unsigned i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
		header()->hold = open[i];
		sk_tracer_throttle();
	}
	hold(1, sk_tracer_now() + 3 * SECOND); /* further ahead than any word may be */
	sk_tracer_throttle();
	CHECK(!header()->held);
	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &often, NULL);
	/* A call right after a wait may fall into the open window, and is not held then. */
	uint64_t deadline = sk_tracer_now() + 10 * SECOND;

	while (header()->held <= 5) {
		hold(1, sk_tracer_now() + SECOND);
		errno = 4711;
		sk_tracer_throttle();
		CHECK(errno == 4711);
		CHECK(sk_tracer_now() < deadline);
	}
	often = (struct itimerval){0};
	setitimer(ITIMER_REAL, &often, NULL);
	/* A period each, and what a busy machine takes to wake it. */
	CHECK(header()->held_ns < 10 * SECOND);
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		sk_tracer_throttle(); /* it has no segment, and none of its parent's */
		_exit(0);
	}
	int status;

	CHECK(waitpid(child, &status, 0) == child && !status);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	if (!strcmp(argv[1], "words"))
		words();
	else if (!strcmp(argv[1], "half"))
		half();
	else if (!strcmp(argv[1], "watched"))
		watched();
	else if (!strcmp(argv[1], "gone"))
		gone();
	else
		hostile();
	return 0;
}
