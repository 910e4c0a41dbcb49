// SPDX-License-Identifier: Apache-2.0
// What the programs cost, by the kernel's own clock: BPF_ENABLE_STATS for a short window. While it
// is open every BPF program of the machine pays two clock reads a run. See host.h.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host_state.h"

/* Adds the run figures of each attached program; returns how many there are. */
static size_t look(const struct sk_host *host, struct sk_program_cost *ret)
{
	size_t count = 0;

	for (enum sk_probe probe = 0; probe < SK_PROBES; probe++) {
		const struct bpf_program *program = sk_host_program(host, probe);
		struct bpf_prog_info info = {0};
		__u32 size = sizeof(info);
		int fd = program ? bpf_program__fd(program) : -1;

		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
			continue;
		ret[count].probe = probe;
		ret[count].run_ns = info.run_time_ns;
		ret[count++].runs = info.run_cnt;
	}
	return count;
}

int sk_host_cost_begin(struct sk_host *host)
{
	if (host->stats_fd >= 0)
		return 0;
	host->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (host->stats_fd < 0) {
		host->stats_fd = -1;
		return -errno;
	}
	look(host, host->base);
	host->window_from_ns = sk_now_ns();
	return 0;
}

int sk_host_cost_end(struct sk_host *host, uint64_t *ret_window_ns, struct sk_program_cost *ret,
		     size_t *ret_count)
{
	if (host->stats_fd < 0)
		return -ENODATA;
	*ret_window_ns = sk_now_ns() - host->window_from_ns;
	*ret_count = look(host, ret);
	close(host->stats_fd);
	host->stats_fd = -1;
	for (size_t i = 0; i < *ret_count; i++) {
		ret[i].run_ns -= host->base[i].run_ns;
		ret[i].runs -= host->base[i].runs;
	}
	return 0;
}
