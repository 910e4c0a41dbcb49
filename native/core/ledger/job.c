/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking up jobs by id, and judging how an attempt ends.
 */
#include "core/ledger/job.h"
#include "core/state/table.h"

uint32_t sk_job_find(const struct sk_core *core, uint64_t id)
{
	uint32_t slot = sk_table_first(&core->job_table, sk_mix(id));

	while (slot && core->jobs[slot].id != id)
		slot = core->jobs[slot].hash_next;
	return slot;
}

bool sk_job_returns(const struct sk_job *job)
{
	bool tries = !(job->request.options & SK_LOST_ONLY);
	bool failed = job->verdict == SK_LOST || (tries && job->verdict == SK_FAILED);

	if (job->last)
		return false;
	return job->verdict == SK_PENDING ||
	       (failed && job->retried - job->preemptions < job->request.retries);
}

uint64_t sk_job_end_ns(const struct sk_core *core, uint32_t slot)
{
	const struct sk_job *job = &core->jobs[slot];
	uint64_t end = sk_time_add(job->place_ns, job->request.estimate_ns);

	if (job->state == SK_STOPPING)
		return core->now_ns + 1;
	if (!job->request.estimate_ns)
		return UINT64_MAX;
	return end > core->now_ns ? end : core->now_ns + 1;
}
