/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/card/partition.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MIB (1ull << 20)

const struct sk_sim_size sk_sim_sizes[SK_SIM_SIZES] = {
	{1, 1, 19, 0, 7, {0, 1, 2, 3, 4, 5, 6}},
	{2, 2, 14, 1, 3, {0, 2, 4}},
	{3, 4, 9, 2, 2, {0, 4}},
	{4, 4, 5, 2, 1, {0}},
	{7, 8, 0, 5, 1, {0}},
};

uint32_t sk_sim_size_of(const struct sk_sim_partition *partition)
{
	uint32_t slices = 1;

	sscanf(partition->profile, "%ug", &slices);
	for (uint32_t i = 0; i < SK_SIM_SIZES; i++)
		if (sk_sim_sizes[i].slices == slices)
			return i;
	return 0;
}

uint32_t sk_sim_size_units(const struct sk_sim_model *model, uint32_t size)
{
	static const uint32_t ampere[SK_SIM_SIZES] = {14, 28, 42, 56, 98};
	static const uint32_t hopper[SK_SIM_SIZES] = {16, 32, 60, 64, 132};

	return strcmp(model->architecture, "ampere") ? hopper[size] : ampere[size];
}

/* Memory that the driver reserves of each size, by the MIG guide's table of A100-SXM4-80GB. */
uint64_t sk_sim_size_bytes(const struct sk_sim_model *model, uint32_t size)
{
	uint32_t slices = sk_sim_sizes[size].memory_slices;
	uint64_t kept = (slices > 2 ? 768 : 512) * MIB;
	uint64_t all = model->memory_bytes * slices / SK_SIM_MEMORY_SLICES;

	return all > kept ? (all - kept) / MIB * MIB : 0;
}

uint32_t sk_sim_size_gb(const struct sk_sim_model *model, uint32_t size)
{
	uint64_t card = (model->memory_bytes + 1024 * MIB - 1) / (1024 * MIB);

	return (uint32_t)(card * sk_sim_sizes[size].memory_slices * 2 / SK_SIM_MEMORY_SLICES + 1) /
	       2;
}

static uint32_t bits(uint32_t size, uint32_t start)
{
	return ((1u << sk_sim_sizes[size].memory_slices) - 1) << start;
}

static uint32_t taken(const struct sk_sim_card *card)
{
	uint32_t all = 0;

	for (uint32_t i = 0; i < SK_SIM_PARTITIONS; i++)
		if (card->partition[i].used)
			all |= bits(sk_sim_size_of(&card->partition[i]),
				    card->partition[i].start % SK_SIM_MEMORY_SLICES);
	return all;
}

static uint32_t slices_left(const struct sk_sim_card *card)
{
	uint32_t left = SK_SIM_SLICES;

	for (uint32_t i = 0; i < SK_SIM_PARTITIONS; i++) {
		uint32_t has = sk_sim_sizes[sk_sim_size_of(&card->partition[i])].slices;

		if (card->partition[i].used)
			left -= has < left ? has : left;
	}
	return left;
}

bool sk_sim_partition_fits(const struct sk_sim_card *card, uint32_t size, uint32_t start)
{
	const struct sk_sim_size *one = &sk_sim_sizes[size];

	if (slices_left(card) < one->slices)
		return false;
	for (uint32_t i = 0; i < one->places; i++)
		if (one->place[i] == start)
			return !(taken(card) & bits(size, start));
	return false;
}

uint32_t sk_sim_partition_room(const struct sk_sim_card *card, uint32_t size)
{
	const struct sk_sim_size *one = &sk_sim_sizes[size];
	uint32_t room = 0, most = slices_left(card) / one->slices, all = taken(card);

	for (uint32_t i = 0; i < one->places; i++)
		room += !(all & bits(size, one->place[i]));
	return room < most ? room : most;
}

int sk_sim_partition_place(const struct sk_sim_card *card, uint32_t size, uint32_t *ret)
{
	for (uint32_t i = sk_sim_sizes[size].places; i-- > 0;) {
		*ret = sk_sim_sizes[size].place[i];
		if (sk_sim_partition_fits(card, size, *ret))
			return 0;
	}
	return -ENOSPC;
}

static bool is_taken(const struct sk_sim_card *card, uint32_t id)
{
	for (uint32_t i = 0; i < SK_SIM_PARTITIONS; i++)
		if (card->partition[i].used && card->partition[i].instance == id)
			return true;
	return false;
}

int sk_sim_partition_make(struct sk_sim_card *card, uint32_t size, uint32_t start)
{
	struct sk_sim_partition made = {.instance = 1, .used = 1, .start = start};

	if (!sk_sim_partition_fits(card, size, start))
		return -ENOSPC;
	while (is_taken(card, made.instance))
		made.instance++;
	made.units = sk_sim_size_units(&card->model, size);
	made.memory_bytes = sk_sim_size_bytes(&card->model, size);
	snprintf(made.profile, sizeof(made.profile), "%ug.%ugb", sk_sim_sizes[size].slices,
		 sk_sim_size_gb(&card->model, size));
	for (int i = 0; i < SK_SIM_PARTITIONS; i++) {
		if (card->partition[i].used)
			continue;
		card->partition[i] = made;
		return i;
	}
	return -ENOSPC;
}

bool sk_sim_partition_busy(const struct sk_sim_card *card, const struct sk_sim_partition *at)
{
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++)
		if (card->process[i].pid && card->process[i].instance == at->instance)
			return true;
	return false;
}
