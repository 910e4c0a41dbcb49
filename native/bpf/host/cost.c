/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of the programs by the kernel's own clock: BPF_ENABLE_STATS for a short window, in which
 * every BPF program of the machine pays two clock reads a run. See host.h. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host_parts.h"
#include "bpf/kernel/now.h"

/* Add up the run figures of each probe's programs, in the order of the enum. */
static void look(const struct sk_bpf_host *host, struct sk_bpf_program_cost *ret)
{
	for (enum sk_bpf_probe probe = 0; probe < SK_PROBES; probe++) {
		ret[probe] = (struct sk_bpf_program_cost){.probe = probe};
		for (int i = 0; i < SK_HOOKS; i++) {
			const struct bpf_program *program = host->programs[probe][i];
			struct bpf_prog_info info = {0};
			__u32 size = sizeof(info);
			int fd = program ? bpf_program__fd(program) : -1;

			if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
				continue;
			ret[probe].run_ns += info.run_time_ns;
			ret[probe].runs += info.run_cnt;
		}
	}
}

/* Return the growth; a program attached or detached within the window counts from 0, or not at all.
 */
static uint64_t grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

int sk_bpf_host_cost_begin(struct sk_bpf_host *host)
{
	if (host->stats_fd >= 0)
		return 0;
	host->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (host->stats_fd < 0) {
		host->stats_fd = -1;
		return -errno;
	}
	look(host, host->base);
	host->window_from_ns = sk_bpf_now_ns();
	return 0;
}

int sk_bpf_host_cost_end(struct sk_bpf_host *host, uint64_t *ret_window_ns,
			 struct sk_bpf_program_cost *ret, size_t *ret_count)
{
	if (host->stats_fd < 0)
		return -ENODATA;
	*ret_window_ns = sk_bpf_now_ns() - host->window_from_ns;
	look(host, ret);
	*ret_count = 0;
	close(host->stats_fd);
	host->stats_fd = -1;
	for (enum sk_bpf_probe i = 0; i < SK_PROBES; i++) {
		if (!host->programs[i][0])
			continue;
		ret[*ret_count].probe = i;
		ret[*ret_count].run_ns = grown(ret[i].run_ns, host->base[i].run_ns);
		ret[(*ret_count)++].runs = grown(ret[i].runs, host->base[i].runs);
	}
	return 0;
}
