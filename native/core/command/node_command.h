/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands about nodes and devices. Invariant: a function that returns a reason has changed
 * nothing.
 */
#ifndef SK_CORE_COMMAND_NODE_COMMAND_H
#define SK_CORE_COMMAND_NODE_COMMAND_H

#include "core/ledger/effect.h"
#include "core/ledger/why.h"

uint16_t sk_node_up_do(const struct sk_act *act, const struct sk_node_up *command,
		       struct sk_why *why);
uint16_t sk_node_down_do(const struct sk_act *act, const struct sk_node_down *command,
			 struct sk_why *why);
uint16_t sk_device_set_do(const struct sk_act *act, const struct sk_device_set *command,
			  struct sk_why *why);
uint16_t sk_device_traits_do(const struct sk_act *act, const struct sk_device_traits *command,
			     struct sk_why *why);
uint16_t sk_node_label_do(const struct sk_act *act, const struct sk_node_label *command,
			  struct sk_why *why);
uint16_t sk_node_reserve_do(const struct sk_act *act, const struct sk_node_reserve *command,
			    struct sk_why *why);

#endif
