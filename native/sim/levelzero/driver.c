/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles and the gate of every call. A handle is the address of a place in a table, so that other
 * addresses are refused. Sysman needs ZES_ENABLE_SYSMAN=1 at zeInit or zesInit, as in real drivers.
 */
#include "sim/levelzero/driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) const char stoker_sim_driver[] = "SIM levelzero";

static struct {
	struct sk_sim_node *node;
	bool sysman;
	uint32_t count;
	uint8_t index[SK_SIM_CARDS]; /* place -> card of the node */
	char driver;
	char device[SK_SIM_CARDS];
	char part[SK_SIM_CARDS][SK_ZE_KINDS][SK_SIM_LINKS];
} ze;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

struct sk_sim_node *sk_ze_node(void)
{
	return ze.node;
}

uint32_t sk_ze_count(void)
{
	return ze.count;
}

struct sk_sim_card *sk_ze_card(uint32_t place)
{
	return &ze.node->card[ze.index[place]];
}

uint32_t sk_ze_place(const struct sk_sim_card *card)
{
	uint32_t place = 0;

	while (place < ze.count && sk_ze_card(place) != card)
		place++;
	return place;
}

void *sk_ze_device(uint32_t place)
{
	return &ze.device[place];
}

void *sk_ze_driver(void)
{
	return &ze.driver;
}

uint64_t sk_ze_now_us(void)
{
	return ze.node->now_ns / 1000;
}

bool sk_ze_may_set(void)
{
	return geteuid() == 0 || ze.node->open;
}

bool sk_ze_device_place(const void *device, uint32_t *ret)
{
	const char *at = device;

	if (at < ze.device || at >= ze.device + ze.count)
		return false;
	*ret = (uint32_t)(at - ze.device);
	return true;
}

/* Parts lie in one block, so that card, kind and number follow from the offset. */
static bool part_place(const void *part, enum sk_ze_kind kind, uint32_t *place, uint32_t *number)
{
	const char *first = &ze.part[0][0][0], *at = part;
	size_t offset = (size_t)(at - first);

	if (at < first || offset >= sizeof(ze.part))
		return false;
	*place = (uint32_t)(offset / sizeof(ze.part[0]));
	*number = (uint32_t)(offset % sizeof(ze.part[0][0]));
	return offset / sizeof(ze.part[0][0]) % SK_ZE_KINDS == kind && *place < ze.count;
}

static uint32_t result_of(enum sk_sim_answer answer, int64_t error)
{
	switch (answer) {
	case SK_SIM_ANSWER_OK:
		return SK_ZE_SUCCESS;
	case SK_SIM_ANSWER_LOST:
		return SK_ZE_DEVICE_LOST;
	case SK_SIM_ANSWER_REFUSED:
		return SK_ZE_NO_PERMISSION;
	case SK_SIM_ANSWER_RELOADED:
		return SK_ZE_DEPENDENCY_UNAVAILABLE;
	case SK_SIM_ANSWER_VERSION:
		return SK_ZE_UNSUPPORTED_VERSION;
	case SK_SIM_ANSWER_ERROR:
		return error ? (uint32_t)error : (uint32_t)SK_ZE_UNKNOWN;
	case SK_SIM_ANSWER_UNINITIALIZED:
		return SK_ZE_UNINITIALIZED;
	}
	return SK_ZE_UNKNOWN;
}

/* Pass the node's gate; then the node is locked and the card is at the present. */
static uint32_t pass(const char *function, uint32_t index)
{
	int64_t error = 0;
	enum sk_sim_answer answer = sk_sim_node_call_enter(ze.node, function, index, &error);

	return result_of(answer, error);
}

/* A card that waits for its reset still gives its identity and can be reset. */
static uint32_t pass_card(const char *function, uint32_t index)
{
	static const char *const answers[] = {
		"DeviceGetProperties", "DeviceGetState", "DeviceReset",
		"DeviceEnum",	       "Event",		 "Pci"};
	uint32_t result = pass(function, index);

	if (result || ze.node->card[index].now.state != SK_SIM_NEEDS_RESET)
		return result;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (strstr(function, answers[i]))
			return result;
	return sk_ze_end(SK_ZE_REQUIRES_RESET);
}

static bool ready(const char *function)
{
	return ze.node && (ze.sysman || strncmp(function, "zes", 3) != 0);
}

uint32_t sk_ze_begin_all(const char *function, const void *out)
{
	if (!ready(function))
		return SK_ZE_UNINITIALIZED;
	return out ? pass(function, UINT32_MAX) : SK_ZE_NULL_POINTER;
}

uint32_t sk_ze_begin(const char *function, void *device, const void *out, struct sk_sim_card **ret)
{
	uint32_t place;

	if (!ready(function))
		return SK_ZE_UNINITIALIZED;
	if (!device)
		return SK_ZE_NULL_HANDLE;
	if (!sk_ze_device_place(device, &place))
		return SK_ZE_INVALID_ARGUMENT;
	if (!out)
		return SK_ZE_NULL_POINTER;
	*ret = sk_ze_card(place);
	return pass_card(function, ze.index[place]);
}

uint32_t sk_ze_begin_part(const char *function, void *part, enum sk_ze_kind kind, const void *out,
			  uint32_t *index, struct sk_sim_card **ret)
{
	uint32_t place;

	if (!ready(function))
		return SK_ZE_UNINITIALIZED;
	if (!part)
		return SK_ZE_NULL_HANDLE;
	if (!part_place(part, kind, &place, index))
		return SK_ZE_INVALID_ARGUMENT;
	if (!out)
		return SK_ZE_NULL_POINTER;
	*ret = sk_ze_card(place);
	return pass_card(function, ze.index[place]);
}

uint32_t sk_ze_end(uint32_t result)
{
	sk_sim_node_leave(ze.node);
	return result;
}

static uint32_t parts_of(const struct sk_sim_card *card, enum sk_ze_kind kind)
{
	const uint32_t fixed[SK_ZE_KINDS] = {
		[SK_ZE_FREQUENCY] = 2,
		[SK_ZE_TEMPERATURE] = 3,
		[SK_ZE_ENGINE] = 2,
		[SK_ZE_MEMORY] = 1,
	};

	if (kind == SK_ZE_POWER)
		return sk_ze_power_tiles(card) ? sk_ze_power_tiles(card) : 1;
	if (kind == SK_ZE_RAS)
		return card->model.flags & SK_SIM_HAS_ECC ? 2 : 0;
	if (kind == SK_ZE_FAN)
		return card->model.fan_max_rpm ? 1 : 0;
	if (kind == SK_ZE_PORT)
		return card->model.links < SK_SIM_LINKS ? card->model.links : SK_SIM_LINKS;
	return fixed[kind];
}

uint32_t sk_ze_enumerate(const char *function, void *device, enum sk_ze_kind kind, uint32_t *count,
			 void **ret)
{
	struct sk_sim_card *card;
	uint32_t have, result = sk_ze_begin(function, device, count, &card);

	if (result)
		return result;
	have = parts_of(card, kind);
	if (!*count || *count > have)
		*count = have;
	for (uint32_t i = 0; ret && i < *count; i++)
		ret[i] = &ze.part[sk_ze_place(card)][kind][i];
	return sk_ze_end(SK_ZE_SUCCESS);
}

static uint32_t find_cards(const struct sk_sim_node *node)
{
	uint32_t count = 0;

	for (uint32_t index = 0; index < sk_sim_node_cards(node); index++)
		if (node->card[index].model.vendor == SK_SIM_INTEL)
			ze.index[count++] = (uint8_t)index;
	return count;
}

/* Other threads see the node only once its cards are known. */
static bool open_node(void)
{
	struct sk_sim_node *node;

	pthread_mutex_lock(&opening);
	if (!ze.node && !sk_sim_node_open(NULL, &node)) {
		ze.count = find_cards(node);
		ze.node = node;
	}
	pthread_mutex_unlock(&opening);
	return ze.node != NULL;
}

uint32_t sk_ze_init(const char *function, bool sysman)
{
	const char *asked = getenv("ZES_ENABLE_SYSMAN");
	uint32_t result;

	if (!open_node())
		return SK_ZE_UNINITIALIZED;
	result = pass(function, UINT32_MAX);
	if (!result)
		sk_ze_end(result);
	if (!result && !ze.count)
		result = SK_ZE_UNINITIALIZED;
	ze.sysman = ze.sysman || (!result && (sysman || (asked && strcmp(asked, "1") == 0)));
	return result;
}

void sk_ze_uuid(const struct sk_sim_card *card, uint8_t ret[16])
{
	uint32_t digits = 0;

	memset(ret, 0, 16);
	for (const char *at = card->model.uuid; *at && digits < 32; at++) {
		const char *digit = strchr("0123456789abcdef", *at);

		if (!digit)
			continue;
		ret[digits / 2] =
			(uint8_t)(ret[digits / 2] << 4 | (uint8_t)(digit - "0123456789abcdef"));
		digits++;
	}
}

void *sk_ze_extension(void *chain, uint32_t stype)
{
	struct head {
		uint32_t stype;
		struct head *next;
	} *at = chain;

	while (at && at->stype != stype)
		at = at->next;
	return at;
}
