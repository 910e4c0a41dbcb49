/* SPDX-License-Identifier: Apache-2.0
 *
 * Ratings and prepared nodes are void after hints have changed.
 */
#include <string.h>

#include "core/policy/hints.h"

void sk_hints_reset(struct sk_hints *hints)
{
	hints->generation++;
	memset(hints->prepared_as, 0, hints->stride);
}
