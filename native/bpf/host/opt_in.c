/* SPDX-License-Identifier: Apache-2.0 */
/* The probes that are attached only while a job opts in: device calls, stacks of long waits,
 * faults. The object is loaded for the first opt-in and unloaded after the last, with all its
 * records. See host.h. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "opt_in.skel.h"
#include "host_parts.h"
#include "bpf/kernel/now.h"
#include "bpf/kernel/kernel_btf.h"
#include "bpf/kernel/reason.h"
#include "bpf/catalogue/table.h"

#define ASK_BITS ((int)(sizeof(((struct sk_bpf_host *)0)->asking) / sizeof(uint32_t)))

#define MEASURE_EVERY_NS UINT64_C(1000000000)

static void prepare(const struct sk_bpf_host *host, struct sk_opt_in_bpf *opt_in,
		    const struct sk_bpf_btf_tracepoints *known)
{
	opt_in->rodata->jobs_cgroup = host->options.jobs_cgroup;
	opt_in->rodata->jobs_level = host->options.jobs_level;
	opt_in->rodata->switch_says_state = sk_bpf_btf_arguments(known, "sched_switch") >= 4;
	opt_in->rodata->shortest_ns = host->options.stack_ns;
	opt_in->rodata->ioctl_number = SYS_ioctl;
}

static int share_tables(const struct sk_bpf_host *host, struct sk_opt_in_bpf *opt_in)
{
	int error = bpf_map__reuse_fd(opt_in->maps.tallies, host->tallies_fd);

	error = error ? error : bpf_map__reuse_fd(opt_in->maps.threads, host->threads_fd);
	error = error ? error : bpf_map__reuse_fd(opt_in->maps.modes, host->modes_fd);
	error = error ? error : bpf_map__reuse_fd(opt_in->maps.spans, host->spans_fd);
	return error ? error : bpf_map__reuse_fd(opt_in->maps.counters, host->counters_fd);
}

static int load_with(struct sk_bpf_host *host, const struct sk_bpf_btf_tracepoints *known)
{
	struct sk_opt_in_bpf *opt_in = sk_opt_in_bpf__open();
	int error;

	if (!opt_in)
		return -errno;
	prepare(host, opt_in, known);
	sk_bpf_load_choose(host, opt_in->obj, SK_OBJECT_OPT_IN, known);
	error = share_tables(host, opt_in);
	error = error ? error : sk_opt_in_bpf__load(opt_in);
	if (error) {
		sk_opt_in_bpf__destroy(opt_in);
		return error;
	}
	host->opt_in = opt_in;
	host->opt_ins_fd = bpf_map__fd(opt_in->maps.opt_ins);
	host->stack_waits_fd = bpf_map__fd(opt_in->maps.stack_waits);
	host->stacks_fd = bpf_map__fd(opt_in->maps.stacks);
	return 0;
}

int sk_bpf_opt_in_load(struct sk_bpf_host *host)
{
	struct sk_bpf_btf_tracepoints known;
	struct btf *btf;
	int error;

	if (host->opt_in)
		return 0;
	btf = sk_bpf_load_btf(host);
	if (!btf)
		return -errno;
	sk_bpf_load_tracepoints(btf, &known);
	btf__free(btf);
	error = load_with(host, &known);
	for (enum sk_bpf_probe i = 0; error && i < SK_PROBES; i++)
		if (host->states[i].answer == SK_ANSWER_OFF)
			sk_bpf_state_refuse(&host->states[i], "loading", error);
	return error;
}

static void switch_off(struct sk_bpf_host *host, enum sk_bpf_probe probe)
{
	if (host->states[probe].answer != SK_ANSWER_ATTACHED)
		return;
	sk_bpf_probe_detach(host, probe);
	sk_bpf_state_off(&host->states[probe], sk_bpf_row_of(probe)->cost);
}

void sk_bpf_opt_in_unload(struct sk_bpf_host *host)
{
	for (enum sk_bpf_probe i = 0; i < SK_PROBES; i++)
		if (sk_bpf_row_of(i)->object == SK_OBJECT_OPT_IN)
			switch_off(host, i);
	sk_opt_in_bpf__destroy(host->opt_in);
	host->opt_in = NULL;
	host->opt_ins_fd = host->stack_waits_fd = host->stacks_fd = -1;
	memset(host->asking, 0, sizeof(host->asking));
}

static uint32_t asked_of(const struct sk_bpf_host *host, uint64_t job)
{
	uint32_t what;

	return host->opt_ins_fd < 0 || bpf_map_lookup_elem(host->opt_ins_fd, &job, &what) ? 0
											  : what;
}

/* Store the job's opt-ins; 0, or -ENOSPC when too many jobs opt in. */
static int write_down(struct sk_bpf_host *host, uint64_t job, uint32_t what)
{
	uint32_t before = asked_of(host, job);
	int error = what ? bpf_map_update_elem(host->opt_ins_fd, &job, &what, BPF_ANY)
			 : bpf_map_delete_elem(host->opt_ins_fd, &job);

	if (what && error)
		return errno == E2BIG ? -ENOSPC : -errno;
	for (int bit = 0; bit < ASK_BITS; bit++)
		host->asking[bit] += (what >> bit & 1) - (before >> bit & 1);
	return 0;
}

static bool anybody_opted_in(const struct sk_bpf_host *host, uint32_t what)
{
	for (int bit = 0; bit < ASK_BITS; bit++)
		if ((what >> bit & 1) && host->asking[bit])
			return true;
	return false;
}

static void attach_opted_in(struct sk_bpf_host *host)
{
	for (enum sk_bpf_probe i = 0; i < SK_PROBES; i++) {
		if (sk_bpf_row_of(i)->object != SK_OBJECT_OPT_IN)
			continue;
		if (!anybody_opted_in(host, sk_bpf_row_of(i)->opt_in))
			switch_off(host, i);
		else if (host->states[i].answer == SK_ANSWER_OFF)
			sk_bpf_probe_attach(host, host->opt_in->obj, i);
	}
}

static void forget_waits(struct sk_bpf_host *host, uint64_t job)
{
	const struct sk_stack_key *keys = host->wait_batch.keys;

	if (sk_bpf_batch_read(host->stack_waits_fd, &host->wait_batch))
		return;
	for (uint32_t i = 0; i < host->wait_batch.count; i++)
		if (keys[i].job == job)
			bpf_map_delete_elem(host->stack_waits_fd, &keys[i]);
}

/* Measure the time of a page fault outside of the programs; if it fails the last figures stay. */
static void measure_faults(struct sk_bpf_host *host)
{
	struct sk_opt_in_bpf__bss *bss = host->opt_in->bss;
	const struct sk_bpf_fault_meter meter = {.tid = &bss->measured_tid,
						 .inside_ns = &bss->measured_ns,
						 .faults = &bss->measured_faults,
						 .gauge_ns = &bss->measured_gauge_ns};
	struct sk_bpf_fault_outside outside = sk_bpf_fault_measure(&meter, host->outside.ns > 0);

	if (outside.ns && outside.gauge_ns)
		host->outside = outside;
	host->outside_at_ns = sk_bpf_now_ns();
	bss->outside_gauge_ns = host->outside.gauge_ns;
	bss->outside_ns = host->outside.ns;
}

void sk_bpf_opt_in_look(struct sk_bpf_host *host)
{
	if (host->opt_in && host->states[SK_PROBE_HANDLING].answer == SK_ANSWER_ATTACHED &&
	    sk_bpf_now_ns() >= host->outside_at_ns + MEASURE_EVERY_NS)
		measure_faults(host);
}

int sk_bpf_host_opt_in(struct sk_bpf_host *host, uint64_t job, uint32_t what)
{
	bool loads = !host->opt_in;
	int error = 0;

	if (!host->bpf || (!what && !host->opt_in))
		return 0;
	sk_bpf_reason_listen();
	error = sk_bpf_opt_in_load(host);
	error = error ? error : write_down(host, job, what);
	if (!error) {
		attach_opted_in(host);
		if (loads)
			host->outside_at_ns = 0;
		sk_bpf_opt_in_look(host);
		if (!(what & SK_OPT_IN_STACKS))
			forget_waits(host, job);
		if (!anybody_opted_in(host, ~0u))
			sk_bpf_opt_in_unload(host);
	}
	sk_bpf_reason_restore();
	return error;
}

int sk_bpf_host_stack_waits(struct sk_bpf_host *host, struct sk_bpf_stack_waits *ret)
{
	int error;

	*ret = (struct sk_bpf_stack_waits){0};
	if (host->stack_waits_fd < 0)
		return 0;
	error = sk_bpf_batch_read(host->stack_waits_fd, &host->wait_batch);
	ret->keys = host->wait_batch.keys;
	ret->values = host->wait_batch.values;
	ret->count = host->wait_batch.count;
	return error;
}

size_t sk_bpf_host_stack(struct sk_bpf_host *host, int32_t id, uint64_t ret[SK_STACK_DEPTH])
{
	size_t depth = 0;

	if (id < 0 || host->stacks_fd < 0 || bpf_map_lookup_elem(host->stacks_fd, &id, ret))
		return 0;
	while (depth < SK_STACK_DEPTH && ret[depth])
		depth++;
	return depth;
}
