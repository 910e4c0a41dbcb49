/* SPDX-License-Identifier: Apache-2.0
 *
 * The conditions of a job on a node and its devices, apart from free amounts: labels, taints,
 * models, reservations, and the affinity of its group and of its own tasks. Invariant: apply and
 * the policies use the same checks, so no policy proposes what apply refuses.
 */
#ifndef SK_CORE_LEDGER_FIT_H
#define SK_CORE_LEDGER_FIT_H

#include "core/ledger/traits.h"
#include "core/state/state.h"

/* The label of a node, or NULL. */
const struct sk_label *sk_label_find(const struct sk_node *node, uint64_t label);

/* Returns SK_REASON_NONE, or which of the labels that the request names is missing or present. */
uint16_t sk_fit_labels(const struct sk_request *request, const struct sk_node *node);
/* Returns SK_REASON_NONE, or which of labels, kinds and models keeps the request off this node for
 * good. */
uint16_t sk_fit_lasting(const struct sk_core *core, const struct sk_request *request,
			const struct sk_wish *wish, uint32_t node);
/* Judges as sk_fit_lasting does, and by taints, which come and go: a drained node takes jobs again.
 */
uint16_t sk_fit_kind(const struct sk_core *core, const struct sk_request *request,
		     const struct sk_wish *wish, uint32_t node);
/* Judges as sk_fit_kind does, and by reservations and affinity as they are now. */
uint16_t sk_fit_node(const struct sk_core *core, uint32_t job, uint32_t node, uint64_t now_ns);
/* True if the device is of an accepted kind and model. */
bool sk_fit_wish(const struct sk_wish *wish, const struct sk_device *device);
/* Judges as sk_fit_wish does, and by the memory of the device. */
uint16_t sk_fit_device(const struct sk_job *job, const struct sk_device *device);

/* True if all devices of all its tasks must be of one family. */
bool sk_fit_one_family(const struct sk_request *request);
/* The families among `families` that some node has. */
uint32_t sk_families_known(const struct sk_core *core, uint32_t families);

/* Placed tasks of a group on all nodes. */
uint32_t sk_group_tasks(const struct sk_core *core, uint64_t group);
/* Count a task of this job that was taken or given back. */
void sk_group_count(struct sk_core *core, const struct sk_job *job, bool give);

#endif
