/* SPDX-License-Identifier: Apache-2.0
 *
 * The change log: the slots of nodes that were written, in order. The undo journal and observations
 * add to it, and the ratings in policy/ read it to learn which nodes to rate anew. Invariant: every
 * write to the record of a node, and every undo of one, is in the log afterwards. The log is no
 * part of the state.
 */
#ifndef SK_CORE_STATE_CHANGES_H
#define SK_CORE_STATE_CHANGES_H

#include "core/state/state.h"

/* Add a node that was written or restored. A repeat is left out unless the log was read in
 * between. */
static inline void sk_changes_add(struct sk_changes *changes, uint32_t node)
{
	if (changes->count > changes->read &&
	    changes->nodes[(changes->count - 1) % SK_CHANGED_MAX] == node)
		return;
	changes->nodes[changes->count++ % SK_CHANGED_MAX] = node;
}

#endif
