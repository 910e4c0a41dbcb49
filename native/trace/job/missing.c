/* SPDX-License-Identifier: Apache-2.0 */
/* Gaps in which spans of the launching thread are missing, because the ring was full or the
 * governor left them out. The thread's totals are known, so the gaps are divided by them, and the
 * causes are an estimate. */
#include "trace/job/job_parts.h"

enum { NEXT_TO_NOTHING = 200 /* one part in so many of the window stays not observed */ };

static bool calls(const struct sk_trace_causes *causes, uint32_t tid)
{
	for (unsigned t = 0; t < causes->threads; t++)
		if (causes->thread[t].tid == tid)
			return causes->thread[t].launched;
	return false;
}

/* Beyond the gaps a thread without spans waited for the device, which explains no gap. */
static void weigh(const struct sk_trace_fold_host *host, uint64_t gaps_ns, uint64_t weights[4])
{
	uint64_t all = 0, waited, blocked = host->missing[2];

	for (int state = 0; state < 4; state++)
		all += host->missing[state];
	waited = all > gaps_ns ? all - gaps_ns : 0;
	for (int state = 0; state < 4; state++)
		weights[state] += state == 2 ? 0 : host->missing[state];
	weights[2] += blocked > waited ? blocked - waited : 0;
}

/* The largest part takes the remainder of the division. */
static void divide(uint64_t ns, const uint64_t weights[4], uint64_t sum, uint64_t causes[4])
{
	uint64_t left = ns;
	int largest = 0;

	for (int state = 0; state < 4; state++) {
		uint64_t part = (uint64_t)((unsigned __int128)ns * weights[state] / sum);

		causes[state] += part;
		left -= part;
		largest = weights[state] > weights[largest] ? state : largest;
	}
	causes[largest] += left;
}

bool sk_trace_job_fill_missing(const struct sk_trace_job *job, unsigned device,
			       uint64_t causes[SK_CAUSES])
{
	const struct sk_trace_fold_state *state = job->fold.state;
	const struct sk_trace_causes_device *seen = &state->causes.device[device];
	uint64_t known = seen->hidden_ns + seen->unended_ns, weights[4] = {0}, sum = 0, gaps_ns;

	if (!state->causes.spans_seen || !seen->used || causes[SK_CAUSE_NOT_OBSERVED] <= known)
		return false;
	gaps_ns = causes[SK_CAUSE_NOT_OBSERVED] - known;
	if (gaps_ns <= (state->causes.frontier_ns - state->causes.origin_ns) / NEXT_TO_NOTHING)
		return false;
	for (unsigned row = 0; row < state->host_used; row++)
		if (calls(&state->causes, state->host[row].tid))
			weigh(&state->host[row], gaps_ns, weights);
	for (int each = 0; each < 4; each++)
		sum += weights[each];
	if (!sum)
		return false;
	causes[SK_CAUSE_NOT_OBSERVED] -= gaps_ns;
	divide(gaps_ns, weights, sum, &causes[SK_CAUSE_ON_CPU]);
	return true;
}
