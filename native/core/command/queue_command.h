/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands about queues and quotas. Invariant: a function that returns a reason has changed
 * nothing.
 */
#ifndef SK_CORE_COMMAND_QUEUE_COMMAND_H
#define SK_CORE_COMMAND_QUEUE_COMMAND_H

#include "core/ledger/effect.h"
#include "core/ledger/why.h"

uint16_t sk_queue_set_do(const struct sk_act *act, const struct sk_queue_set *command,
			 struct sk_why *why);
uint16_t sk_quota_set_do(const struct sk_act *act, const struct sk_quota_set *command,
			 struct sk_why *why);

#endif
