/* SPDX-License-Identifier: Apache-2.0
 *
 * The change log: which nodes were written, in order. The undo journal and whoever observes a node
 * add to it; the ratings of policy/ read it to learn what to rate anew. Invariant: every write to
 * a node's record, and every undo of one, is here afterwards. It is no part of the state.
 */
#ifndef SK_CORE_STATE_CHANGES_H
#define SK_CORE_STATE_CHANGES_H

#include "core/state/state.h"

/* A node was written or restored. A repeat is left out, unless somebody has read the log in
 * between. */
static inline void sk_changes_add(struct sk_changes *changes, uint32_t node)
{
	if (changes->count > changes->read &&
	    changes->nodes[(changes->count - 1) % SK_CHANGED_MAX] == node)
		return;
	changes->nodes[changes->count++ % SK_CHANGED_MAX] = node;
}

#endif
