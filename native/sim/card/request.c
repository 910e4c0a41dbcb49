/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/card/request.h"

#include <errno.h>
#include <string.h>

int sk_sim_card_limit(struct sk_sim_card *card, uint32_t mw)
{
	if (mw < card->model.limit_min_mw || mw > card->model.limit_max_mw)
		return -ERANGE;
	card->now.limit_mw = mw;
	return 0;
}

int sk_sim_card_lock(struct sk_sim_card *card, uint32_t min_mhz, uint32_t max_mhz)
{
	if ((min_mhz || max_mhz) && (min_mhz > max_mhz || max_mhz < card->model.clock_min_mhz ||
				     min_mhz > card->model.clock_max_mhz))
		return -ERANGE;
	card->now.locked_min_mhz = min_mhz;
	card->now.locked_max_mhz = max_mhz;
	return 0;
}

/* A reset keeps MIG's mode or puts the next one in force, and it removes all instances. */
static void partitions_reset(struct sk_sim_card *card)
{
	if (card->model.vendor != SK_SIM_NVIDIA)
		return;
	card->partitioned = card->partitioned_next;
	memset(card->partition, 0, sizeof(card->partition));
}

void sk_sim_card_reset(struct sk_sim_card *card)
{
	struct sk_sim_now *now = &card->now;

	now->state = SK_SIM_OK;
	now->recovery = 0;
	now->ecc_corrected = now->ecc_uncorrected = 0;
	now->retired_pending = now->remap_pending = 0;
	now->link_down = 0;
	now->resets++;
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++)
		if (card->process[i].pid)
			sk_sim_card_part(card, card->process[i].pid);
	partitions_reset(card);
}

int sk_sim_card_join(struct sk_sim_card *card, const struct sk_sim_process *process)
{
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
		if (card->process[i].pid)
			continue;
		card->process[i] = *process;
		card->process[i].started_ns = card->now.at_ns;
		card->now.memory_used += process->memory_bytes;
		return 0;
	}
	return -ENOSPC;
}

void sk_sim_card_part(struct sk_sim_card *card, int32_t pid)
{
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
		if (!pid || card->process[i].pid != pid)
			continue;
		card->now.memory_used -= card->process[i].memory_bytes;
		memset(&card->process[i], 0, sizeof(card->process[i]));
	}
}
