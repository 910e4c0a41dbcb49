/* SPDX-License-Identifier: Apache-2.0 */
/* A vendor without calls, with which `stoker bench devices` measures threads that only wake. */
#include "devices/card.h"

static int begin(struct sk_device_card *card)
{
	return 0;
}

static void nothing(struct sk_device_card *card, struct sk_device_record *record)
{
}

static void end(struct sk_device_card *card)
{
}

const struct sk_device_vendor sk_device_idle = {
	.name = "idle",
	.begin = begin,
	.fast = nothing,
	.slow = nothing,
	.end = end,
};
