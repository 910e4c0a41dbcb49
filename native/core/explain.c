/* SPDX-License-Identifier: Apache-2.0
 */
#include "core/job.h"
uint32_t sk_core_explain(const struct sk_core *core, uint64_t job, struct sk_explain *lines,
			 uint32_t capacity)
{
	return 0;
}
