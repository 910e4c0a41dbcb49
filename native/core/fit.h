/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job accepts of a node and its devices, apart from how much is free there: labels, taints,
 * models, reservations, the company of its group and of its own tasks. Relied on by task.c, which
 * refuses what does not fit at apply, and by the policies, which do not propose it.
 */
#ifndef STOKER_CORE_FIT_H
#define STOKER_CORE_FIT_H

#include "core/task.h"

/* Its place in the state's list from 1, or 0 where there is no such model. */
uint32_t sk_model_find(const struct sk_core *core, uint64_t model);
/* The same, added where it is new; 0 where the list is full. `model` is not 0. */
uint32_t sk_model_add(struct sk_core *core, uint64_t model);
/* The mask of the known ones among the models an ask names; 0 for any. */
uint64_t sk_model_mask(const struct sk_core *core, const struct sk_ask *ask);

/* The label of a node, or NULL. */
const struct sk_label *sk_label_find(const struct sk_node *node, uint64_t label);

/* SK_REASON_NONE, or which of labels and models keeps such jobs off this node for good. */
uint16_t sk_fit_lasting(const struct sk_core *core, const struct sk_ask *ask, uint64_t models,
			uint32_t node);
/* The same with taints, which come and go: a drained node takes jobs again. */
uint16_t sk_fit_kind(const struct sk_core *core, const struct sk_ask *ask, uint64_t models,
		     uint32_t node);
/* The same with reservations and company, as they are now. */
uint16_t sk_fit_node(const struct sk_core *core, uint32_t job, uint32_t node, uint64_t now_ns);
bool sk_fit_model(uint64_t models, const struct sk_device *device);
/* Whether a device is of an accepted model and has memory enough. */
uint16_t sk_fit_device(const struct sk_job *job, const struct sk_device *device);

/* Placed tasks of a group on all nodes. */
uint32_t sk_group_tasks(const struct sk_core *core, uint64_t group);
/* A task of this job was taken or given back. */
void sk_group_count(struct sk_core *core, const struct sk_job *job, bool give);

#endif
