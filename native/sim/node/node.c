/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that dies while it moves a card leaves the card between two times. Then a stretch may
 * count twice and nothing else is wrong, since times are stored last and every value is a number.
 */
#include "sim/node/node.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/card/bounds.h"
#include "sim/card/plant.h"
#include "sim/node/fault.h"

#define LOOK_NS 50000000
#define TAKES_MOST_NS 3600000000000u /* a call */
#define WAIT_NS 2000000 /* period at which a hung call looks whether the fault has ended */

uint64_t sk_sim_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u),
				.tv_nsec = (long)(ns % 1000000000u)};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* When a process dies with the lock the kernel wakes one waiter alone, which may be another thread
 * of that process and die too; so every waiter tries again after a while. */
static int wait_lock(struct sk_sim_node *node)
{
	int got = pthread_mutex_trylock(&node->lock);

	while (got == EBUSY || got == ETIMEDOUT) {
		uint64_t until = sk_sim_clock_ns(CLOCK_MONOTONIC) + LOOK_NS;
		struct timespec at = {.tv_sec = (time_t)(until / 1000000000u),
				      .tv_nsec = (long)(until % 1000000000u)};

		got = pthread_mutex_clocklock(&node->lock, CLOCK_MONOTONIC, &at);
	}
	return got;
}

static void lock(struct sk_sim_node *node)
{
	if (wait_lock(node) == EOWNERDEAD)
		pthread_mutex_consistent(&node->lock);
}

static void move_cards(struct sk_sim_node *node, uint64_t to_ns)
{
	for (uint32_t i = 0; i < sk_sim_node_cards(node); i++)
		sk_sim_card_move(&node->card[i], to_ns);
	node->now_ns = to_ns;
}

/* Run the script up to the present; cards are moved to the time of each fault. */
static void pass(struct sk_sim_node *node, uint64_t to_ns)
{
	if (to_ns < node->now_ns)
		to_ns = node->now_ns;
	if (to_ns > SK_SIM_TIME_MOST_NS)
		to_ns = SK_SIM_TIME_MOST_NS;
	while (node->fault_ns <= to_ns) {
		move_cards(node, node->fault_ns > node->now_ns ? node->fault_ns : node->now_ns);
		sk_sim_fault_happen(node);
	}
	node->now_ns = to_ns;
}

void sk_sim_node_move(struct sk_sim_node *node, uint64_t to_ns)
{
	pass(node, to_ns);
	move_cards(node, node->now_ns);
}

/* After a reboot the machine's clock is behind the node's, and no time passes until it has caught
 * up. */
static uint64_t present_ns(const struct sk_sim_node *node)
{
	uint64_t now = sk_sim_clock_ns(CLOCK_MONOTONIC);

	if (node->clock == SK_SIM_VIRTUAL || now < node->start_ns)
		return node->now_ns;
	return now - node->start_ns;
}

uint64_t sk_sim_node_enter(struct sk_sim_node *node)
{
	lock(node);
	sk_sim_node_move(node, present_ns(node));
	return node->now_ns;
}

uint64_t sk_sim_node_enter_card(struct sk_sim_node *node, uint32_t card)
{
	lock(node);
	pass(node, present_ns(node));
	if (card < sk_sim_node_cards(node))
		sk_sim_card_move(&node->card[card], node->now_ns);
	return node->now_ns;
}

void sk_sim_node_leave(struct sk_sim_node *node)
{
	pthread_mutex_unlock(&node->lock);
}

void sk_sim_node_wait(struct sk_sim_node *node, uint64_t until_ns)
{
	uint32_t told = node->told;
	uint64_t now_ns, left_ns;
	struct timespec left;

	if (node->clock != SK_SIM_VIRTUAL && node->fault_ns < UINT64_MAX - node->start_ns &&
	    node->start_ns + node->fault_ns < until_ns)
		until_ns = node->start_ns + node->fault_ns;
	sk_sim_node_leave(node);
	now_ns = sk_sim_clock_ns(CLOCK_MONOTONIC);
	left_ns = now_ns < until_ns ? until_ns - now_ns : 0;
	left.tv_sec = (time_t)(left_ns / 1000000000u);
	left.tv_nsec = (long)(left_ns % 1000000000u);
	syscall(SYS_futex, &node->told, FUTEX_WAIT, told, &left, NULL, 0);
	sk_sim_node_enter_card(node, UINT32_MAX);
}

void sk_sim_node_advance(struct sk_sim_node *node, uint64_t ns)
{
	lock(node);
	if (node->clock == SK_SIM_VIRTUAL)
		sk_sim_node_move(node, node->now_ns + ns);
	sk_sim_node_leave(node);
}

/* splitmix64, whose constants are those of Steele, Lea and Flood (OOPSLA 2014). */
double sk_sim_node_chance(struct sk_sim_node *node)
{
	uint64_t z = node->chance += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* FNV-1a. */
static uint64_t hash(const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3ull;
	return h;
}

/* Return the slot of a function, or -1 if all are taken; then only the sum counts it. */
static int slot_of(struct sk_sim_node *node, const char *function)
{
	uint32_t at = (uint32_t)(hash(function) % SK_SIM_CALLS);

	for (uint32_t i = 0; i < SK_SIM_CALLS; i++, at = (at + 1) % SK_SIM_CALLS) {
		char *name = node->call[at].name;

		if (!name[0])
			snprintf(name, sizeof(node->call[at].name), "%s", function);
		if (!strncmp(name, function, sizeof(node->call[at].name) - 1))
			return (int)at;
	}
	return -1;
}

static void count(struct sk_sim_node *node, const char *function)
{
	int slot = slot_of(node, function);

	node->calls++;
	if (slot >= 0)
		node->call[slot].calls++;
}

void sk_sim_node_note_not_supported(struct sk_sim_node *node, const char *function)
{
	int slot = slot_of(node, function);

	node->not_supported++;
	if (slot >= 0)
		node->call[slot].not_supported++;
}

void sk_sim_node_not_supported(struct sk_sim_node *node, const char *function)
{
	lock(node);
	count(node, function);
	sk_sim_node_note_not_supported(node, function);
	sk_sim_node_leave(node);
}

/* Return the simulated time that a call takes. */
static uint64_t takes_ns(const struct sk_sim_node *node, const char *function, uint32_t card)
{
	const struct sk_sim_fault *slow = sk_sim_fault_on(node, SK_SIM_FAULT_SLOW, card, function);

	uint64_t ns = slow && slow->value > 0 ? (uint64_t)slow->value : 0;

	if (ns > TAKES_MOST_NS || node->latency_ns > TAKES_MOST_NS)
		return TAKES_MOST_NS;
	return node->latency_ns + ns;
}

/* Let a call take its time: virtual time is advanced, or the caller sleeps without the lock. */
static void take(struct sk_sim_node *node, uint32_t card, uint64_t ns)
{
	if (node->clock == SK_SIM_VIRTUAL) {
		sk_sim_node_move(node, node->now_ns + ns);
		return;
	}
	sk_sim_node_leave(node);
	sleep_ns(ns);
	sk_sim_node_enter_card(node, card);
}

static void hang(struct sk_sim_node *node, uint32_t card)
{
	sk_sim_node_leave(node);
	sleep_ns(WAIT_NS);
	sk_sim_node_enter_card(node, card);
}

static bool dropped(struct sk_sim_node *node, const char *function, uint32_t card)
{
	const struct sk_sim_fault *drop = sk_sim_fault_on(node, SK_SIM_FAULT_DROP, card, function);

	return drop && sk_sim_node_chance(node) * 1000 < (double)drop->value;
}

static enum sk_sim_answer answer(struct sk_sim_node *node, const char *function, uint32_t card,
				 int64_t *error)
{
	const struct sk_sim_fault *fault;

	*error = 0;
	if (sk_sim_fault_on(node, SK_SIM_FAULT_RELOAD, card, function))
		return SK_SIM_ANSWER_RELOADED;
	if (sk_sim_fault_on(node, SK_SIM_FAULT_PERMISSION, card, function))
		return SK_SIM_ANSWER_REFUSED;
	if (card < sk_sim_node_cards(node) && node->card[card].now.state == SK_SIM_LOST)
		return SK_SIM_ANSWER_LOST;
	if (card < sk_sim_node_cards(node) && node->card[card].now.state == SK_SIM_REFUSED)
		return SK_SIM_ANSWER_REFUSED;
	if (sk_sim_fault_on(node, SK_SIM_FAULT_VERSION, card, function))
		return SK_SIM_ANSWER_VERSION;
	fault = sk_sim_fault_on(node, SK_SIM_FAULT_ERROR, card, function);
	if (fault)
		*error = fault->value;
	return fault || dropped(node, function, card) ? SK_SIM_ANSWER_ERROR : SK_SIM_ANSWER_OK;
}

enum sk_sim_answer sk_sim_node_call_enter(struct sk_sim_node *node, const char *function,
					  uint32_t card, int64_t *error)
{
	enum sk_sim_answer given;
	uint64_t ns;

	sk_sim_node_enter_card(node, card);
	count(node, function);
	ns = takes_ns(node, function, card);
	if (ns)
		take(node, card, ns);
	while (sk_sim_fault_on(node, SK_SIM_FAULT_HANG, card, function))
		hang(node, card);
	given = answer(node, function, card, error);
	if (given != SK_SIM_ANSWER_OK)
		sk_sim_node_leave(node);
	return given;
}

enum sk_sim_answer sk_sim_node_call(struct sk_sim_node *node, const char *function, uint32_t card,
				    int64_t *error)
{
	enum sk_sim_answer given = sk_sim_node_call_enter(node, function, card, error);

	if (given == SK_SIM_ANSWER_OK)
		sk_sim_node_leave(node);
	return given;
}
