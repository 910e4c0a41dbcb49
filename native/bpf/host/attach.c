/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the object of host probes and attaching everything that the kernel allows: a refused
 * program takes only its own probe with it. See host.h and table.h. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "host.skel.h"
#include "host_parts.h"
#include "bpf/kernel/kernel_btf.h"
#include "bpf/kernel/reason.h"
#include "bpf/catalogue/table.h"

/* Refuse every probe that is not refused yet, for the reason that stops the whole object. */
static void refuse_rest(struct sk_bpf_host *host, const char *what, int negative_errno)
{
	for (int i = 0; i < SK_PROBES; i++)
		if (host->states[i].answer != SK_ANSWER_REFUSED)
			sk_bpf_state_refuse(&host->states[i], what, negative_errno);
}

static bool has_system_calls(const struct btf *btf)
{
	return sk_bpf_btf_has_enumerator(btf, "bpf_func_id", "BPF_FUNC_task_pt_regs") &&
	       (sk_bpf_btf_has_member(btf, "pt_regs", "orig_ax") ||
		sk_bpf_btf_has_member(btf, "pt_regs", "syscallno"));
}

static void set_sizes(struct sk_host_bpf *bpf, const struct sk_bpf_host_options *options)
{
	bpf_map__set_max_entries(bpf->maps.threads, options->threads);
	bpf_map__set_max_entries(bpf->maps.jobs, options->jobs);
	bpf_map__set_max_entries(bpf->maps.modes, options->jobs);
	bpf_map__set_max_entries(bpf->maps.tallies, options->tallies);
	bpf_map__set_max_entries(bpf->maps.process_events, options->event_ring_bytes);
	bpf_map__set_max_entries(bpf->maps.critical_notices, options->notice_ring_bytes);
	bpf_map__set_max_entries(bpf->maps.open_notices, options->notice_ring_bytes);
}

static int load_once(struct sk_bpf_host *host, const struct sk_bpf_btf_tracepoints *known)
{
	struct sk_host_bpf *bpf = sk_host_bpf__open();
	int error;

	if (!bpf)
		return -errno;
	bpf->rodata->jobs_cgroup = host->options.jobs_cgroup;
	bpf->rodata->jobs_level = host->options.jobs_level;
	bpf->rodata->switch_says_state = sk_bpf_btf_arguments(known, "sched_switch") >= 4;
	bpf->rodata->exit_says_last = sk_bpf_btf_arguments(known, "sched_process_exit") >= 2;
	bpf->rodata->victim_is_task = sk_bpf_btf_arguments(known, "mark_victim") >= 2;
	bpf->rodata->read_system_call = host->system_calls;
	set_sizes(bpf, &host->options);
	sk_bpf_load_choose(host, bpf->obj, SK_OBJECT_HOST, known);
	error = sk_host_bpf__load(bpf);
	if (error) {
		sk_host_bpf__destroy(bpf);
		return error;
	}
	host->bpf = bpf;
	return 0;
}

/* Take the program that would not load out of the plan; false if no single program was at fault. */
static bool give_up_one(struct sk_bpf_host *host, int error)
{
	enum sk_bpf_probe probe = sk_bpf_row_with(sk_bpf_reason_program());

	if (probe == SK_PROBES || error == -EPERM)
		return false;
	if (probe == SK_PROBE_SWITCH && host->system_calls) {
		host->system_calls = false;
		probe = SK_PROBE_SYSCALL;
	}
	sk_bpf_state_refuse(&host->states[probe], "loading", error);
	sk_bpf_reason_forget();
	return true;
}

static int load(struct sk_bpf_host *host, const struct sk_bpf_btf_tracepoints *known)
{
	int error = load_once(host, known);

	for (int i = 0; error && i <= SK_PROBES && give_up_one(host, error); i++)
		error = load_once(host, known);
	return error;
}

static int open_tables(struct sk_bpf_host *host)
{
	const struct sk_host_bpf *bpf = host->bpf;
	int error;

	host->threads_fd = bpf_map__fd(bpf->maps.threads);
	host->jobs_fd = bpf_map__fd(bpf->maps.jobs);
	host->modes_fd = bpf_map__fd(bpf->maps.modes);
	host->spans_fd = bpf_map__fd(bpf->maps.spans);
	host->tallies_fd = bpf_map__fd(bpf->maps.tallies);
	host->counters_fd = bpf_map__fd(bpf->maps.counters);
	error = sk_bpf_drain_open(&host->events, bpf_map__fd(bpf->maps.process_events));
	error = error ? error
		      : sk_bpf_drain_open(&host->critical, bpf_map__fd(bpf->maps.critical_notices));
	return error ? error : sk_bpf_drain_open(&host->opens, bpf_map__fd(bpf->maps.open_notices));
}

/* Without switches no thread has an entry, so nothing that adds to one is attached either. */
static void refuse_threads(struct sk_bpf_host *host)
{
	char reason[SK_REASON_BYTES + 32];

	snprintf(reason, sizeof(reason), "without host.sched.switch (%s)",
		 host->states[SK_PROBE_SWITCH].reason);
	for (enum sk_bpf_probe i = 0; i < SK_PROBES; i++) {
		struct sk_bpf_probe_state *state = &host->states[i];

		if (!sk_bpf_row_of(i)->needs_threads || state->answer == SK_ANSWER_REFUSED)
			continue;
		state->answer = SK_ANSWER_REFUSED;
		snprintf(state->reason, sizeof(state->reason), "%.*s", SK_REASON_BYTES - 1, reason);
	}
}

/* Attach processes first, then switches, then a new thread's wakeup before any other. */
static void attach_all(struct sk_bpf_host *host)
{
	static const enum sk_bpf_probe first[] = {SK_PROBE_EXEC,       SK_PROBE_FORK,
						  SK_PROBE_EXIT,       SK_PROBE_SWITCH,
						  SK_PROBE_WAKEUP_NEW, SK_PROBE_WAKEUP};
	const size_t count = sizeof(first) / sizeof(*first);

	for (size_t i = 0; i < count; i++) {
		sk_bpf_probe_attach(host, host->bpf->obj, first[i]);
		if (first[i] == SK_PROBE_SWITCH && host->states[SK_PROBE_SWITCH].answer)
			refuse_threads(host);
	}
	for (enum sk_bpf_probe i = SK_PROBE_USER_FAULT; i < SK_PROBES; i++)
		if (sk_bpf_row_of(i)->object == SK_OBJECT_HOST)
			sk_bpf_probe_attach(host, host->bpf->obj, i);
}

static void no_btf(struct sk_bpf_host *host, int negative_errno)
{
	const char *path = host->options.btf_path;
	bool missing = access(path[0] ? path : "/sys/kernel/btf/vmlinux", F_OK) && errno == ENOENT;

	for (int i = 0; i < SK_PROBES; i++) {
		struct sk_bpf_probe_state *state = &host->states[i];

		state->answer = missing ? SK_ANSWER_REFUSED : SK_ANSWER_UNKNOWN;
		if (missing)
			snprintf(state->reason, sizeof(state->reason),
				 "this kernel was built without BTF");
		else
			snprintf(state->reason, sizeof(state->reason),
				 "/sys/kernel/btf/vmlinux cannot be read: %s",
				 strerror(-negative_errno));
	}
}

static void attach_with(struct sk_bpf_host *host, const struct btf *btf)
{
	struct sk_bpf_btf_tracepoints known;
	int error;

	sk_bpf_load_tracepoints(btf, &known);
	sk_bpf_load_expect(host, &known);
	host->system_calls = has_system_calls(btf);
	if (!host->system_calls) {
		host->states[SK_PROBE_SYSCALL].answer = SK_ANSWER_REFUSED;
		snprintf(host->states[SK_PROBE_SYSCALL].reason, SK_REASON_BYTES,
			 "this kernel has no helper bpf_task_pt_regs, or registers not known here");
	}
	error = load(host, &known);
	error = error || !host->bpf ? error : open_tables(host);
	if (error)
		refuse_rest(host, "loading", error);
	else
		attach_all(host);
}

void sk_bpf_host_attach(struct sk_bpf_host *host)
{
	struct btf *btf;

	sk_bpf_reason_listen();
	btf = sk_bpf_load_btf(host);
	if (btf)
		attach_with(host, btf);
	else
		no_btf(host, -errno);
	btf__free(btf);
	sk_bpf_reason_restore();
	malloc_trim(0); /* all types of the kernel were in memory */
}

const struct sk_bpf_probe_state *sk_bpf_host_states(const struct sk_bpf_host *host)
{
	return host->states;
}

void sk_bpf_host_publish_full(struct sk_bpf_host *host)
{
	if (host->bpf)
		host->bpf->bss->full_jobs = host->full_jobs;
}

void sk_bpf_host_detach(struct sk_bpf_host *host)
{
	struct sk_bpf_drain *const drains[] = {&host->spans, &host->events, &host->critical,
					       &host->opens};

	sk_bpf_opt_in_unload(host);
	for (size_t i = 0; i < sizeof(drains) / sizeof(*drains); i++) {
		ring_buffer__free(drains[i]->ring);
		drains[i]->ring = NULL;
	}
	for (enum sk_bpf_probe i = 0; i < SK_PROBES; i++)
		sk_bpf_probe_detach(host, i);
	sk_host_bpf__destroy(host->bpf);
	host->bpf = NULL;
	if (host->stats_fd >= 0)
		close(host->stats_fd);
	host->stats_fd = -1;
	host->threads_fd = host->jobs_fd = host->modes_fd = host->spans_fd = -1;
	host->tallies_fd = host->counters_fd = -1;
}
