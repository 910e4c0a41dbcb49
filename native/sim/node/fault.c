/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/node/fault.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/card/request.h"
#include "sim/card/sensor.h"

enum { BEGUN = 1, ENDED = 2 };

static const char *const names[SK_SIM_FAULT_KINDS] = {
	[SK_SIM_FAULT_NONE] = "none",
	[SK_SIM_FAULT_XID] = "xid",
	[SK_SIM_FAULT_ECC] = "ecc",
	[SK_SIM_FAULT_LOST] = "lost",
	[SK_SIM_FAULT_HANG] = "hang",
	[SK_SIM_FAULT_SLOW] = "slow",
	[SK_SIM_FAULT_ERROR] = "error",
	[SK_SIM_FAULT_VERSION] = "version",
	[SK_SIM_FAULT_RELOAD] = "reload",
	[SK_SIM_FAULT_LINK] = "link",
	[SK_SIM_FAULT_HEAT] = "heat",
	[SK_SIM_FAULT_BRAKE] = "brake",
	[SK_SIM_FAULT_STUCK] = "stuck",
	[SK_SIM_FAULT_DROP] = "drop",
	[SK_SIM_FAULT_PERMISSION] = "permission",
	[SK_SIM_FAULT_RECOVERY] = "recovery",
	[SK_SIM_FAULT_PAGES] = "pages",
	[SK_SIM_FAULT_PCIE] = "pcie",
	[SK_SIM_FAULT_RESET] = "reset",
};

const char *sk_sim_fault_name(uint32_t kind)
{
	return kind < SK_SIM_FAULT_KINDS ? names[kind] : NULL;
}

/* Kinds that give single events; the others last for a time. */
static bool gives_events(const struct sk_sim_fault *fault)
{
	return fault->kind == SK_SIM_FAULT_XID || fault->kind == SK_SIM_FAULT_ECC ||
	       fault->kind == SK_SIM_FAULT_PAGES || fault->kind == SK_SIM_FAULT_PCIE ||
	       (fault->kind == SK_SIM_FAULT_LINK && fault->count);
}

static uint64_t count_of(const struct sk_sim_fault *fault)
{
	uint64_t count = fault->count ? fault->count : 1;

	return count < SK_SIM_EVENTS_OF_ONE ? count : SK_SIM_EVENTS_OF_ONE;
}

static uint64_t event_ns(const struct sk_sim_fault *fault, uint64_t number)
{
	uint64_t span = fault->until_ns > fault->from_ns ? fault->until_ns - fault->from_ns : 0;

	return fault->from_ns + (uint64_t)((double)span * (double)number / (double)count_of(fault));
}

static uint64_t next_of(const struct sk_sim_fault *fault)
{
	if (!fault->kind || fault->done & ENDED)
		return UINT64_MAX;
	if (!(fault->done & BEGUN))
		return fault->from_ns;
	if (gives_events(fault))
		return event_ns(fault, fault->given);
	return fault->until_ns ? fault->until_ns : UINT64_MAX;
}

/* Wake all that wait for the node. Its file may be mapped by several processes, so the futex is not
 * a private one. */
static void tell(struct sk_sim_node *node)
{
	node->told++;
	syscall(SYS_futex, &node->told, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void sk_sim_fault_look(struct sk_sim_node *node)
{
	node->fault_ns = UINT64_MAX;
	node->faults_on = 0;
	for (uint32_t i = 0; i < SK_SIM_FAULTS; i++) {
		uint64_t of = next_of(&node->fault[i]);

		if (of < node->fault_ns)
			node->fault_ns = of;
		node->faults_on += node->fault[i].kind && node->fault[i].done == BEGUN;
	}
	tell(node);
}

void sk_sim_fault_event(struct sk_sim_node *node, uint32_t card, uint32_t kind, uint64_t value)
{
	uint64_t number = node->events + 1;

	node->event[number % SK_SIM_EVENTS] = (struct sk_sim_event){
		.number = number,
		.at_ns = node->now_ns,
		.card = card,
		.kind = kind,
		.value = value,
	};
	node->events = number;
	tell(node);
}

static void ecc(struct sk_sim_card *card, int64_t value)
{
	struct sk_sim_now *now = &card->now;

	if (value & 1) {
		now->ecc_uncorrected++;
		now->ecc_uncorrected_total++;
	} else {
		now->ecc_corrected++;
		now->ecc_corrected_total++;
	}
}

/* Xids after which a card refuses work until a reset: those that NVIDIA's catalogue ("Xid Catalog",
 * 2025-10) resolves by RESET_GPU. */
static const uint8_t reset_xids[] = {46,  62,  64,  95,	 109, 110, 119,
				     120, 136, 140, 143, 155, 156, 158};
enum { FELL_OFF_THE_BUS = 79, ASKS_FOR_RESET = 1 };

static void xid(struct sk_sim_card *card, int64_t number)
{
	if (card->model.vendor != SK_SIM_NVIDIA || card->now.state == SK_SIM_LOST)
		return;
	if (number == FELL_OFF_THE_BUS)
		card->now.state = SK_SIM_LOST;
	for (size_t i = 0; i < sizeof(reset_xids); i++) {
		if (number != reset_xids[i])
			continue;
		card->now.state = SK_SIM_NEEDS_RESET;
		card->now.recovery = ASKS_FOR_RESET;
	}
}

static void give(struct sk_sim_node *node, uint32_t index, const struct sk_sim_fault *fault)
{
	struct sk_sim_card *card = &node->card[index];
	uint32_t port = (uint32_t)fault->value % SK_SIM_LINKS;

	switch (fault->kind) {
	case SK_SIM_FAULT_XID:
		xid(card, fault->value);
		break;
	case SK_SIM_FAULT_ECC:
		ecc(card, fault->value);
		break;
	case SK_SIM_FAULT_PAGES: /* a page retired, a row to be remapped at the next reset */
		card->now.retired_pages++;
		card->now.retired_pending = 1;
		card->now.remapped_rows++;
		card->now.remap_pending = 1;
		card->now.remap_failed |= fault->value & 1;
		break;
	case SK_SIM_FAULT_LINK:
		card->now.link_errors[port]++;
		break;
	case SK_SIM_FAULT_PCIE:
		card->now.pcie_replays++;
		break;
	default:
		break;
	}
	sk_sim_fault_event(node, index, fault->kind, (uint64_t)fault->value);
}

/* The driver that comes back is one version newer. */
static void newer_driver(struct sk_sim_card *card)
{
	char *last = strrchr(card->model.driver, '.');
	size_t left =
		last ? sizeof(card->model.driver) - (size_t)(last + 1 - card->model.driver) : 0;

	if (last)
		snprintf(last + 1, left, "%02u", (unsigned int)atoi(last + 1) + 1);
}

static void begin(struct sk_sim_node *node, uint32_t index, const struct sk_sim_fault *fault)
{
	struct sk_sim_card *card = &node->card[index];

	switch (fault->kind) {
	case SK_SIM_FAULT_LOST:
		card->now.state = SK_SIM_LOST;
		break;
	case SK_SIM_FAULT_RELOAD:
		newer_driver(card);
		break;
	case SK_SIM_FAULT_LINK:
		card->now.link_down |= 1u << ((uint32_t)fault->value % SK_SIM_LINKS);
		break;
	case SK_SIM_FAULT_HEAT:
		card->now.ambient_rise_c += (double)fault->value * 1e-3;
		break;
	case SK_SIM_FAULT_BRAKE:
		card->now.brakes++;
		break;
	case SK_SIM_FAULT_STUCK:
		sk_sim_power_freeze(card);
		break;
	case SK_SIM_FAULT_RESET:
		sk_sim_card_reset(card);
		break;
	case SK_SIM_FAULT_RECOVERY:
		card->now.recovery = (uint32_t)fault->value;
		if (fault->value && card->model.vendor == SK_SIM_INTEL &&
		    card->now.state == SK_SIM_OK)
			card->now.state = SK_SIM_NEEDS_RESET;
		sk_sim_fault_event(node, index, fault->kind, (uint64_t)fault->value);
		break;
	default:
		break;
	}
}

static void end(struct sk_sim_node *node, uint32_t index, const struct sk_sim_fault *fault)
{
	struct sk_sim_card *card = &node->card[index];

	switch (fault->kind) {
	case SK_SIM_FAULT_LOST:
		sk_sim_card_reset(card);
		break;
	case SK_SIM_FAULT_LINK:
		card->now.link_down &= ~(1u << ((uint32_t)fault->value % SK_SIM_LINKS));
		break;
	case SK_SIM_FAULT_HEAT:
		card->now.ambient_rise_c -= (double)fault->value * 1e-3;
		break;
	case SK_SIM_FAULT_BRAKE:
		if (card->now.brakes)
			card->now.brakes--;
		break;
	case SK_SIM_FAULT_STUCK:
		sk_sim_power_release(card);
		break;
	case SK_SIM_FAULT_RECOVERY:
		card->now.recovery = 0;
		if (card->now.state == SK_SIM_NEEDS_RESET)
			card->now.state = SK_SIM_OK;
		break;
	default:
		break;
	}
}

typedef void (*sk_sim_fault_deed)(struct sk_sim_node *node, uint32_t index,
				  const struct sk_sim_fault *fault);

static void to_cards(struct sk_sim_node *node, const struct sk_sim_fault *fault,
		     sk_sim_fault_deed deed)
{
	for (uint32_t i = 0; i < sk_sim_node_cards(node); i++)
		if (fault->card == UINT32_MAX || fault->card == i)
			deed(node, i, fault);
}

static void give_due(struct sk_sim_node *node, struct sk_sim_fault *fault)
{
	while (fault->given < count_of(fault) && event_ns(fault, fault->given) <= node->now_ns) {
		to_cards(node, fault, give);
		fault->given++;
	}
	if (fault->given >= count_of(fault))
		fault->done |= ENDED;
}

static void finish(struct sk_sim_node *node, struct sk_sim_fault *fault)
{
	fault->done |= ENDED;
	to_cards(node, fault, end);
	if (fault->kind == SK_SIM_FAULT_RELOAD)
		node->reloads++;
}

void sk_sim_fault_happen(struct sk_sim_node *node)
{
	for (uint32_t i = 0; i < SK_SIM_FAULTS; i++) {
		struct sk_sim_fault *fault = &node->fault[i];

		if (next_of(fault) > node->now_ns)
			continue;
		if (!(fault->done & BEGUN)) {
			fault->done |= BEGUN;
			if (!gives_events(fault))
				to_cards(node, fault, begin);
		}
		if (gives_events(fault))
			give_due(node, fault);
		else if (fault->until_ns && fault->until_ns <= node->now_ns)
			finish(node, fault);
	}
	sk_sim_fault_look(node);
}

int sk_sim_fault_inject(struct sk_sim_node *node, const struct sk_sim_fault *fault)
{
	bool known = fault->kind > SK_SIM_FAULT_NONE && fault->kind < SK_SIM_FAULT_KINDS;
	bool aimed = fault->card == UINT32_MAX || fault->card < sk_sim_node_cards(node);

	if (!known || !aimed || (fault->until_ns && fault->until_ns < fault->from_ns))
		return -EINVAL;
	for (uint32_t i = 0; i < SK_SIM_FAULTS; i++) {
		struct sk_sim_fault *slot = &node->fault[i];

		if (slot->kind && !(slot->done & ENDED))
			continue;
		*slot = *fault;
		slot->done = 0;
		slot->given = 0;
		sk_sim_fault_look(node);
		return (int)i;
	}
	return -ENOSPC;
}

void sk_sim_fault_heal(struct sk_sim_node *node)
{
	for (uint32_t i = 0; i < SK_SIM_FAULTS; i++) {
		struct sk_sim_fault *fault = &node->fault[i];

		if (fault->kind && fault->done == BEGUN && !gives_events(fault))
			finish(node, fault);
		fault->done |= ENDED;
	}
	sk_sim_fault_look(node);
}

const struct sk_sim_fault *sk_sim_fault_on(const struct sk_sim_node *node, uint32_t kind,
					   uint32_t card, const char *function)
{
	for (uint32_t i = 0; node->faults_on && i < SK_SIM_FAULTS; i++) {
		const struct sk_sim_fault *fault = &node->fault[i];

		if (fault->kind != kind || fault->done != BEGUN)
			continue;
		if (fault->card != UINT32_MAX && fault->card != card)
			continue;
		if (!fault->call[0] || strstr(function, fault->call))
			return fault;
	}
	return NULL;
}
