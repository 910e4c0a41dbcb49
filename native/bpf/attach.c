// SPDX-License-Identifier: Apache-2.0
// From object to attached programs: open, set rodata, choose by feature, load, attach, and an
// answer for every probe. The one file that knows the skeletons. See host.h.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "host_state.h"
#include "kernel_btf.h"
#include "process.skel.h"
#include "reason.h"
#include "sched.skel.h"

static void answer(struct sk_probe_state *state, enum sk_answer said, const char *reason)
{
	state->answer = said;
	snprintf(state->reason, sizeof(state->reason), "%s", reason);
}

static void refuse(struct sk_probe_state *state, const char *what, int negative_errno)
{
	state->answer = SK_ANSWER_REFUSED;
	sk_reason_write(state->reason, sizeof(state->reason), what, negative_errno);
}

/* Whoever still counts as attached is refused for the reason that stops the whole object. */
static void refuse_rest(struct sk_probe_state *states, enum sk_probe from, enum sk_probe to,
			const char *what, int negative_errno)
{
	for (enum sk_probe i = from; i <= to; i++)
		if (states[i].answer == SK_ANSWER_ATTACHED)
			refuse(&states[i], what, negative_errno);
}

/* Supposes that a probe can be attached unless BTF lacks its tracepoint. */
static void expect(struct sk_probe_state *state, const struct btf *btf, const char *tracepoint)
{
	char reason[SK_REASON_BYTES];

	if (sk_btf_tracepoint_args(btf, tracepoint) >= 0) {
		answer(state, SK_ANSWER_ATTACHED, "");
		return;
	}
	snprintf(reason, sizeof(reason), "this kernel has no tracepoint %s", tracepoint);
	answer(state, SK_ANSWER_REFUSED, reason);
}

static void attach_one(struct bpf_program *program, struct bpf_link **link,
		       struct sk_probe_state *state)
{
	struct bpf_link *made;

	if (state->answer != SK_ANSWER_ATTACHED)
		return;
	made = bpf_program__attach(program);
	if (made)
		*link = made;
	else
		refuse(state, "attaching", -errno);
}

static bool has_system_calls(const struct btf *btf)
{
	return sk_btf_has_enumerator(btf, "bpf_func_id", "BPF_FUNC_task_pt_regs") &&
	       (sk_btf_has_member(btf, "pt_regs", "orig_ax") ||
		sk_btf_has_member(btf, "pt_regs", "syscallno"));
}

static int load_sched(struct sk_host *host, const struct btf *btf,
		      const struct sk_probe_state *states, bool system_calls)
{
	const struct sk_host_options *options = &host->options;
	struct sk_sched_bpf *sched = sk_sched_bpf__open();
	int error;

	if (!sched)
		return -errno;
	sched->rodata->jobs_cgroup = options->jobs_cgroup;
	sched->rodata->jobs_level = options->jobs_level;
	sched->rodata->switch_says_state = sk_btf_tracepoint_args(btf, "sched_switch") >= 4;
	sched->rodata->read_system_call = system_calls;
	bpf_map__set_max_entries(sched->maps.threads, options->threads);
	bpf_map__set_max_entries(sched->maps.jobs, options->jobs);
	bpf_map__set_max_entries(sched->maps.modes, options->jobs);
	bpf_map__set_max_entries(sched->maps.spans, options->span_ring_bytes);
	bpf_program__set_autoload(sched->progs.on_wakeup, !states[SK_PROBE_WAKEUP].answer);
	bpf_program__set_autoload(sched->progs.on_wakeup_new, !states[SK_PROBE_WAKEUP_NEW].answer);
	error = sk_sched_bpf__load(sched);
	if (error) {
		sk_sched_bpf__destroy(sched);
		return error;
	}
	host->sched = sched;
	return 0;
}

static void expect_sched(const struct btf *btf, struct sk_probe_state *states)
{
	expect(&states[SK_PROBE_SWITCH], btf, "sched_switch");
	expect(&states[SK_PROBE_WAKEUP], btf, "sched_wakeup");
	expect(&states[SK_PROBE_WAKEUP_NEW], btf, "sched_wakeup_new");
	if (has_system_calls(btf))
		answer(&states[SK_PROBE_SYSCALL], SK_ANSWER_ATTACHED, "");
	else
		answer(&states[SK_PROBE_SYSCALL], SK_ANSWER_REFUSED,
		       "this kernel has no helper bpf_task_pt_regs, or registers not known here");
}

static int load_sched_or_less(struct sk_host *host, const struct btf *btf,
			      struct sk_probe_state *states)
{
	int error = load_sched(host, btf, states, !states[SK_PROBE_SYSCALL].answer);

	if (!error || error == -EPERM || states[SK_PROBE_SYSCALL].answer)
		return error;
	refuse(&states[SK_PROBE_SYSCALL], "loading with system calls", error);
	sk_reason_forget();
	return load_sched(host, btf, states, false);
}

static int open_sched_tables(struct sk_host *host)
{
	host->threads_fd = bpf_map__fd(host->sched->maps.threads);
	host->jobs_fd = bpf_map__fd(host->sched->maps.jobs);
	host->modes_fd = bpf_map__fd(host->sched->maps.modes);
	host->sched_counters = bpf_map__fd(host->sched->maps.counters);
	return sk_drain_open(&host->spans, bpf_map__fd(host->sched->maps.spans));
}

/* Without the switches nothing can be timed, so nothing else is attached either. */
static void attach_sched(struct sk_host *host, const struct btf *btf, struct sk_probe_state *states)
{
	int error;

	expect_sched(btf, states);
	if (states[SK_PROBE_SWITCH].answer) {
		refuse_rest(states, SK_PROBE_WAKEUP, SK_PROBE_SYSCALL, "sched_switch", -ENOENT);
		return;
	}
	error = load_sched_or_less(host, btf, states);
	error = error ? error : open_sched_tables(host);
	if (error) {
		refuse_rest(states, SK_PROBE_SWITCH, SK_PROBE_SYSCALL, "loading", error);
		return;
	}
	attach_one(host->sched->progs.on_switch, &host->sched->links.on_switch,
		   &states[SK_PROBE_SWITCH]);
	if (states[SK_PROBE_SWITCH].answer) {
		refuse_rest(states, SK_PROBE_WAKEUP, SK_PROBE_SYSCALL, "sched_switch", -ENOENT);
		return;
	}
	attach_one(host->sched->progs.on_wakeup_new, &host->sched->links.on_wakeup_new,
		   &states[SK_PROBE_WAKEUP_NEW]);
	attach_one(host->sched->progs.on_wakeup, &host->sched->links.on_wakeup,
		   &states[SK_PROBE_WAKEUP]);
}

/* The typed form where BTF has the tracepoint, else the untyped one, which may not exist either. */
static void choose(struct bpf_program *typed, struct bpf_program *raw, bool use_typed)
{
	bpf_program__set_autoload(typed, use_typed);
	bpf_program__set_autoload(raw, !use_typed);
}

static int load_process(struct sk_host *host, const struct btf *btf, const bool typed[3])
{
	struct sk_process_bpf *process = sk_process_bpf__open();
	int error;

	if (!process)
		return -errno;
	process->rodata->jobs_cgroup = host->options.jobs_cgroup;
	process->rodata->jobs_level = host->options.jobs_level;
	process->rodata->exit_says_last = sk_btf_tracepoint_args(btf, "sched_process_exit") >= 2;
	bpf_map__set_max_entries(process->maps.process_events, host->options.event_ring_bytes);
	choose(process->progs.on_exec, process->progs.on_exec_raw, typed[0]);
	choose(process->progs.on_fork, process->progs.on_fork_raw, typed[1]);
	choose(process->progs.on_exit, process->progs.on_exit_raw, typed[2]);
	error = sk_process_bpf__load(process);
	if (error) {
		sk_process_bpf__destroy(process);
		return error;
	}
	host->process = process;
	return 0;
}

static void attach_process(struct sk_host *host, const struct btf *btf,
			   struct sk_probe_state *states)
{
	const bool typed[] = {sk_btf_tracepoint_args(btf, "sched_process_exec") >= 0,
			      sk_btf_tracepoint_args(btf, "sched_process_fork") >= 0,
			      sk_btf_tracepoint_args(btf, "sched_process_exit") >= 0};
	struct sk_process_bpf *process;
	int error;

	for (enum sk_probe i = SK_PROBE_EXEC; i <= SK_PROBE_EXIT; i++)
		answer(&states[i], SK_ANSWER_ATTACHED, "");
	error = load_process(host, btf, typed);
	if (!error) {
		host->process_counters = bpf_map__fd(host->process->maps.counters);
		error = sk_drain_open(&host->events,
				      bpf_map__fd(host->process->maps.process_events));
	}
	if (error) {
		refuse_rest(states, SK_PROBE_EXEC, SK_PROBE_EXIT, "loading", error);
		return;
	}
	process = host->process;
	attach_one(typed[0] ? process->progs.on_exec : process->progs.on_exec_raw,
		   &process->links.on_exec, &states[SK_PROBE_EXEC]);
	attach_one(typed[1] ? process->progs.on_fork : process->progs.on_fork_raw,
		   &process->links.on_fork, &states[SK_PROBE_FORK]);
	attach_one(typed[2] ? process->progs.on_exit : process->progs.on_exit_raw,
		   &process->links.on_exit, &states[SK_PROBE_EXIT]);
}

static void no_btf(struct sk_probe_state *states, int negative_errno)
{
	bool missing = access("/sys/kernel/btf/vmlinux", F_OK) && errno == ENOENT;
	char reason[SK_REASON_BYTES];

	if (missing)
		snprintf(reason, sizeof(reason), "this kernel was built without BTF");
	else
		snprintf(reason, sizeof(reason), "/sys/kernel/btf/vmlinux cannot be read: %s",
			 strerror(-negative_errno));
	for (int i = 0; i < SK_PROBES; i++)
		answer(&states[i], missing ? SK_ANSWER_REFUSED : SK_ANSWER_UNKNOWN, reason);
}

void sk_host_attach(struct sk_host *host, struct sk_probe_state *ret)
{
	struct btf *btf;

	sk_reason_listen();
	btf = btf__load_vmlinux_btf();
	if (!btf) {
		no_btf(ret, -errno);
	} else {
		attach_process(host, btf, ret);
		sk_reason_forget();
		attach_sched(host, btf, ret);
		btf__free(btf);
	}
	sk_reason_restore();
}

static struct bpf_program *loaded_of(struct bpf_program *typed, struct bpf_program *raw)
{
	return bpf_program__fd(typed) >= 0 ? typed : raw;
}

const struct bpf_program *sk_host_program(const struct sk_host *host, enum sk_probe probe)
{
	const struct sk_sched_bpf *sched = host->sched;
	const struct sk_process_bpf *process = host->process;
	const struct bpf_program *programs[SK_PROBES] = {0};

	if (sched) {
		programs[SK_PROBE_SWITCH] = sched->progs.on_switch;
		programs[SK_PROBE_WAKEUP] = sched->progs.on_wakeup;
		programs[SK_PROBE_WAKEUP_NEW] = sched->progs.on_wakeup_new;
	}
	if (process) {
		programs[SK_PROBE_EXEC] =
			loaded_of(process->progs.on_exec, process->progs.on_exec_raw);
		programs[SK_PROBE_FORK] =
			loaded_of(process->progs.on_fork, process->progs.on_fork_raw);
		programs[SK_PROBE_EXIT] =
			loaded_of(process->progs.on_exit, process->progs.on_exit_raw);
	}
	return programs[probe];
}

void sk_host_publish_full(struct sk_host *host)
{
	if (host->sched)
		host->sched->bss->full_jobs = host->full_jobs;
}

void sk_host_detach(struct sk_host *host)
{
	ring_buffer__free(host->spans.ring);
	ring_buffer__free(host->events.ring);
	host->spans.ring = host->events.ring = NULL;
	sk_sched_bpf__destroy(host->sched);
	sk_process_bpf__destroy(host->process);
	host->sched = NULL;
	host->process = NULL;
	if (host->stats_fd >= 0)
		close(host->stats_fd);
	host->stats_fd = -1;
	host->threads_fd = host->jobs_fd = host->modes_fd = -1;
	host->sched_counters = host->process_counters = -1;
}
