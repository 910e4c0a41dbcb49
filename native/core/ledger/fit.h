/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job accepts of a node and its devices, apart from how much is free there: labels, taints,
 * models, reservations, the company of its group and of its own tasks. Relied on by task.c, which
 * refuses what does not fit at apply, and by the policies, which do not propose it.
 */
#ifndef SK_CORE_LEDGER_FIT_H
#define SK_CORE_LEDGER_FIT_H

#include "core/state/state.h"

/* Its place in the state's list from 1, or 0 where there is no such model. */
uint32_t sk_model_find(const struct sk_core *core, uint64_t model);
/* The same, added where it is new; 0 where the list is full. `model` is not 0. */
uint32_t sk_model_add(struct sk_core *core, uint64_t model);
/* The mask of the known ones among the models an ask names; 0 for any. */
uint64_t sk_model_mask(const struct sk_core *core, const struct sk_ask *ask);
/* What an ask means by its kinds and models in this state. */
struct sk_wish sk_wish_of(const struct sk_core *core, const struct sk_ask *ask);

/* The label of a node, or NULL. */
const struct sk_label *sk_label_find(const struct sk_node *node, uint64_t label);

/* SK_REASON_NONE, or whether a label that the ask names is missing or there. */
uint16_t sk_fit_labels(const struct sk_ask *ask, const struct sk_node *node);
/* SK_REASON_NONE, or which of labels, kinds and models keeps such jobs off this node for good. */
uint16_t sk_fit_lasting(const struct sk_core *core, const struct sk_ask *ask,
			const struct sk_wish *wish, uint32_t node);
/* The same with taints, which come and go: a drained node takes jobs again. */
uint16_t sk_fit_kind(const struct sk_core *core, const struct sk_ask *ask,
		     const struct sk_wish *wish, uint32_t node);
/* The same with reservations and company, as they are now. */
uint16_t sk_fit_node(const struct sk_core *core, uint32_t job, uint32_t node, uint64_t now_ns);
/* Whether a device is of an accepted kind and model. */
bool sk_fit_wish(const struct sk_wish *wish, const struct sk_device *device);
/* The same with its memory. */
uint16_t sk_fit_device(const struct sk_job *job, const struct sk_device *device);

/* Whether all devices of all its tasks must be of one family. */
bool sk_fit_one_family(const struct sk_ask *ask);
/* The families among `families` that some node has. */
uint32_t sk_families_known(const struct sk_core *core, uint32_t families);

/* Placed tasks of a group on all nodes. */
uint32_t sk_group_tasks(const struct sk_core *core, uint64_t group);
/* A task of this job was taken or given back. */
void sk_group_count(struct sk_core *core, const struct sk_job *job, bool give);

#endif
