/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures that go with a reason. Invariant: a function that returns a reason has set the
 * figures that reason.h names for it.
 */
#ifndef SK_CORE_LEDGER_WHY_H
#define SK_CORE_LEDGER_WHY_H

#include <stdint.h>

struct sk_why {
	uint64_t job;
	uint64_t asked;
	uint64_t have;
};

static inline uint16_t sk_because(struct sk_why *why, uint16_t reason, uint64_t asked,
				  uint64_t have)
{
	why->asked = asked;
	why->have = have;
	return reason;
}

#endif
