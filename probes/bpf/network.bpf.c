/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* TCP segments of a job's sockets that had to be sent again.
 *
 * A socket belongs to the job that opened it, whichever task sends: retransmission timers run in no
 * task of the job. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "tally.bpf.h"
#include "job.bpf.h"

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/tcp_retransmit_skb")
int on_retransmit(__u64 *ctx)
{
	struct sock *socket = (struct sock *)ctx[0];
	struct sk_buff *segment = (struct sk_buff *)ctx[1];
	struct sk_tally_key key = {.what = SK_TALLY_RETRANSMIT};
	struct cgroup *cgroup;

	if (!bpf_core_field_exists(socket->sk_cgrp_data.cgroup))
		return 0;
	cgroup = BPF_CORE_READ(socket, sk_cgrp_data.cgroup);
	if (!cgroup || BPF_CORE_READ(cgroup, level) < (int)JOB_LEVEL)
		return 0;
	key.job = job_of_cgroup(cgroup);
	if (key.job)
		tally_add(&key, UNTIMED, BPF_CORE_READ(segment, len));
	return 0;
}
