/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tallies: reading it, and forgetting those of jobs that are gone. See host.h. */
#include <errno.h>

#include "host_parts.h"

int sk_bpf_host_tallies(struct sk_bpf_host *host, struct sk_bpf_tallies *ret)
{
	int error;

	*ret = (struct sk_bpf_tallies){0};
	if (host->tallies_fd < 0)
		return 0;
	error = sk_bpf_batch_read(host->tallies_fd, &host->tally_batch);
	ret->keys = host->tally_batch.keys;
	ret->values = host->tally_batch.values;
	ret->count = host->tally_batch.count;
	return error;
}

static bool known(const struct sk_bpf_host *host, uint64_t job)
{
	struct sk_job_row value;
	uint32_t mode;

	return !bpf_map_lookup_elem(host->jobs_fd, &job, &value) ||
	       !bpf_map_lookup_elem(host->modes_fd, &job, &mode);
}

void sk_bpf_host_sweep_tallies(struct sk_bpf_host *host)
{
	const struct sk_tally_key *keys = host->tally_batch.keys;
	uint64_t last = 0;
	bool keep = true;

	if (host->tallies_fd < 0 || sk_bpf_batch_read(host->tallies_fd, &host->tally_batch))
		return;
	for (uint32_t i = 0; i < host->tally_batch.count; i++) {
		if (!keys[i].job)
			continue;
		if (keys[i].job != last)
			keep = known(host, keys[i].job);
		last = keys[i].job;
		if (!keep)
			bpf_map_delete_elem(host->tallies_fd, &keys[i]);
	}
}
