/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulation's C core under sanitizers, and what only C can do: die with the lock held.
 *
 * Invariant: it prints what it did, and aborts on the first wrong value.
 */
#include <assert.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/node/fault.h"
#include "sim/node/node.h"
#include "sim/card/partition.h"
#include "sim/card/request.h"
#include "sim/card/sensor.h"

static uint64_t state;

static uint64_t dice(uint64_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % below;
}

static double share(void)
{
	return (double)dice(1001) / 1000;
}

static struct sk_sim_model model_of(uint32_t i)
{
	struct sk_sim_model model = {
		.vendor = 1 + i % 3,
		.driver = "1.2.3",
		.links = i % 2 ? 18 : 0,
		.link_gb_s = 25,
		.pcie_gen = 1 + i % 6,
		.pcie_width = 16,
		.memory_bytes = 1ull << 36,
		.clock_min_mhz = 200 + (uint32_t)dice(500),
		.clock_max_mhz = 1980,
		.clock_step_mhz = 1 + (uint32_t)dice(60),
		.limit_min_mw = 100000,
		.limit_default_mw = 300000,
		.limit_max_mw = 700000,
		.target_c = 85,
		.slowdown_c = 92,
		.shutdown_c = 97,
	};

	model.physics = (struct sk_sim_physics){
		.idle_w = 60 * share(),
		.dynamic_w = 800 * share(),
		.exponent = 2 + share(),
		.leakage_w = 30 * share(),
		.leakage_per_c = 0.01,
		.thermal_c_per_w = 0.02 + 0.2 * share(),
		.capacity_j_per_c = 10 + 1000 * share(),
		.ambient_c = 40 * share(),
		.fan_min = 0.3 + 0.7 * share(),
		.limiter_s = 0.001 + 0.2 * share(),
		.memory_w = 150 * share(),
	};
	model.sensor = (struct sk_sim_sensor){
		.period_ns = 1000000 + dice(100000000),
		.window_ns = dice(2000000000),
		.sampled_ns = dice(100000000),
		.delay_ns = dice(300000000),
		.gain = 1,
		.energy_period_ns = 100000 + dice(100000000),
		.temperature_period_ns = 100000 + dice(500000000),
	};
	return model;
}

static void whole(const struct sk_sim_card *card)
{
	const struct sk_sim_now *now = &card->now;

	assert(isfinite(now->die_c) && isfinite(now->memory_c) && isfinite(now->energy_j));
	assert(now->power_w >= 0 && now->fan >= 0 && now->fan <= 1);
	assert(now->clock_mhz >= card->model.clock_min_mhz);
	assert(now->clock_mhz <= card->model.clock_max_mhz);
	assert(now->busy >= 0 && now->busy <= 1 && now->throughput <= 1);
	assert(card->history_next < SK_SIM_HISTORY && card->history_count <= SK_SIM_HISTORY);
	sk_sim_power_mw(card);
	sk_sim_power_instant_mw(card);
	assert(sk_sim_busy_percent(card) <= 100);
}

static void act(struct sk_sim_node *node)
{
	struct sk_sim_card *card = &node->card[dice(node->cards)];
	struct sk_sim_fault fault = {
		.kind = (uint32_t)dice(SK_SIM_FAULT_KINDS + 1),
		.card = dice(4) ? (uint32_t)dice(node->cards) : UINT32_MAX,
		.from_ns = node->now_ns + dice(5000000000),
		.value = (int64_t)dice(20000) - 100,
		.count = dice(50),
	};
	struct sk_sim_process process = {.pid = 1 + (int32_t)dice(40),
					 .memory_bytes = dice(1 << 30)};

	fault.until_ns = dice(2) ? fault.from_ns + dice(3000000000) : 0;
	switch (dice(7)) {
	case 0:
	case 1:
		card->load = (struct sk_sim_load){share() * (double)dice(2), share(), share()};
		break;
	case 2:
		sk_sim_card_limit(card, (uint32_t)dice(800000));
		break;
	case 3:
		sk_sim_card_lock(card, (uint32_t)dice(2000), (uint32_t)dice(2500));
		break;
	case 4:
		if (fault.kind != SK_SIM_FAULT_HANG && fault.kind != SK_SIM_FAULT_SLOW)
			sk_sim_fault_inject(node, &fault);
		break;
	case 5:
		if (!sk_sim_card_join(card, &process) && dice(2))
			sk_sim_card_part(card, process.pid);
		break;
	default:
		if (!dice(20))
			sk_sim_fault_heal(node);
		sk_sim_card_reset(card);
	}
}

static void fuzz(uint64_t seed, int rounds)
{
	static struct sk_sim_model models[4];
	static struct sk_sim_node node;
	int64_t error;

	state = seed;
	for (uint32_t i = 0; i < 4; i++)
		models[i] = model_of(i);
	if (sk_sim_node_init(&node, models, 4, seed)) {
		puts("refused");
		return;
	}
	for (int i = 0; i < rounds; i++) {
		act(&node);
		sk_sim_node_advance(&node, dice(10) ? dice(500000000) : dice(100000000000));
		sk_sim_node_call(&node, "call", (uint32_t)dice(5), &error);
		for (uint32_t k = 0; k < 4; k++)
			whole(&node.card[k]);
	}
	printf("fuzzed %d\n", rounds);
}

/* The queries that drivers make of a card. */
static void use(const struct sk_sim_card *card)
{
	for (uint32_t age = 0; age < 3; age++)
		if (sk_sim_sample(card, age))
			sk_sim_sample_mw(card, sk_sim_sample(card, age));
	sk_sim_power_mw(card);
	sk_sim_power_instant_mw(card);
	sk_sim_busy_percent(card);
	sk_sim_memory_busy_percent(card);
	sk_sim_fan_percent(card);
	sk_sim_temperature_mc(card);
	sk_sim_memory_temperature_mc(card);
	for (uint32_t i = 0; i < SK_SIM_PARTITIONS; i++)
		sk_sim_partition_busy(card, &card->partition[i]);
	for (uint32_t size = 0; size < SK_SIM_SIZES; size++)
		sk_sim_partition_room(card, size);
}

/* Dies in the middle of a move, with the lock held. */
static void die(const char *path)
{
	struct sk_sim_node *node;

	assert(!sk_sim_node_open(path, &node));
	sk_sim_node_enter(node);
	node->card[0].now.die_c += 1;
	raise(SIGKILL);
}

static void *wait_for_it(void *node)
{
	sk_sim_node_enter(node);
	return NULL;
}

/* Dies with the lock held while threads of its own wait for it. */
static void die_waited_for(const char *path, int threads)
{
	struct sk_sim_node *node;
	pthread_t thread;

	assert(!sk_sim_node_open(path, &node));
	sk_sim_node_enter(node);
	while (threads--)
		pthread_create(&thread, NULL, wait_for_it, node);
	usleep(30000);
	puts("held");
	fflush(stdout);
	usleep(100000);
	raise(SIGKILL);
}

static void calls(const char *path, int count)
{
	struct sk_sim_node *node;
	int64_t error;
	char name[16];

	assert(!sk_sim_node_open(path, &node));
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "call%d", i % 7);
		assert(sk_sim_node_call(node, name, 0, &error) == SK_SIM_ANSWER_OK);
		sk_sim_node_not_supported(node, "absent");
		sk_sim_node_enter(node);
		whole(&node->card[0]);
		sk_sim_node_leave(node);
	}
	sk_sim_node_close(node);
	printf("called %d\n", count);
}

static uint64_t any(void)
{
	static const uint64_t edges[] = {0,
					 1,
					 5,
					 19,
					 511,
					 512,
					 INT32_MAX,
					 UINT32_MAX,
					 1ull << 32,
					 1ull << 62,
					 INT64_MAX,
					 UINT64_MAX,
					 0x3ff0000000000000, /* 1.0, infinity, not a number */
					 0x7ff0000000000000,
					 0x7ff8000000000000,
					 0x4141414141414141};
	uint64_t picked = dice(sizeof(edges) / sizeof(edges[0]) + 2);

	if (picked < sizeof(edges) / sizeof(edges[0]))
		return edges[picked];
	return dice(1ull << 31) << 33 ^ dice(1ull << 31) << 11 ^ dice(1 << 11);
}

/* Anything into a node but for what it is known by, its lock, and what lets calls hang, or take
 * their time, as they are told to. */
static void damage(const char *path, uint64_t seed)
{
	struct sk_sim_node *node;
	size_t first = offsetof(struct sk_sim_node, clock), header = sizeof(*node) - first;
	size_t card = offsetof(struct sk_sim_card, history);
	uint32_t count, vendor;

	assert(!sk_sim_node_open(path, &node));
	state = seed;
	count = node->cards;
	vendor = node->card[0].model.vendor;
	header -= sizeof(node->card);
	for (uint64_t i = 0, most = 8u << dice(8); i < most; i++) {
		char *in_card = (char *)&node->card[dice(count)] + dice(card / 8) * 8;
		char *at = dice(3) ? in_card : (char *)node + first + dice(header / 8) * 8;
		uint64_t value = any();

		memcpy(at, &value, sizeof(value));
	}
	for (uint32_t i = 0; i < count; i++) { /* else nobody would have a card */
		node->card[i].model.vendor = vendor;
		node->card[i].now.state = SK_SIM_OK;
	}
	for (uint32_t i = 0; i < SK_SIM_FAULTS; i++)
		if (node->fault[i].kind == SK_SIM_FAULT_HANG ||
		    node->fault[i].kind == SK_SIM_FAULT_SLOW)
			node->fault[i].kind = SK_SIM_FAULT_ECC;
	node->clock = SK_SIM_VIRTUAL;
	node->latency_ns = dice(1000000);
	node->cards = dice(2) ? UINT32_MAX : count;
	for (int i = 0; i < 200; i++) {
		int64_t error;

		sk_sim_node_call(node, "call", (uint32_t)any(), &error);
		sk_sim_node_enter(node);
		for (uint32_t k = 0; k < sk_sim_node_cards(node); k++)
			use(&node->card[k]);
		sk_sim_node_leave(node);
	}
	sk_sim_node_close(node);
	printf("damaged by %d\n", (int)seed);
}

int main(int argc, char **argv)
{
	assert(argc == 4);
	if (!strcmp(argv[1], "fuzz"))
		fuzz(strtoull(argv[2], NULL, 10), atoi(argv[3]));
	else if (!strcmp(argv[1], "die"))
		die(argv[2]);
	else if (!strcmp(argv[1], "die-waited-for"))
		die_waited_for(argv[2], atoi(argv[3]));
	else if (!strcmp(argv[1], "damage"))
		damage(argv[2], strtoull(argv[3], NULL, 10));
	else
		calls(argv[2], atoi(argv[3]));
	return 0;
}
