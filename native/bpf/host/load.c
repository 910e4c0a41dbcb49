/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of rows: chooses the form of each, the set to load, and attaches them. It knows rows and
 * objects but no skeleton. See table.h and host_parts.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "host_parts.h"
#include "bpf/kernel/kernel_btf.h"
#include "bpf/kernel/reason.h"
#include "bpf/catalogue/table.h"

static void answer(struct sk_bpf_probe_state *state, enum sk_bpf_answer said, const char *reason)
{
	state->answer = said;
	snprintf(state->reason, sizeof(state->reason), "%s", reason);
}

void sk_bpf_state_refuse(struct sk_bpf_probe_state *state, const char *what, int negative_errno)
{
	state->answer = SK_ANSWER_REFUSED;
	sk_bpf_reason_write(state->reason, sizeof(state->reason), what, negative_errno);
}

void sk_bpf_state_off(struct sk_bpf_probe_state *state, int cost)
{
	const char *who = cost == SK_COST_CALL	  ? "every system call of this machine"
			  : cost == SK_COST_FAULT ? "every page fault of this machine"
						  : "every wait of the job";

	state->answer = SK_ANSWER_OFF;
	snprintf(state->reason, sizeof(state->reason), "%s would pay; attached while a job asks",
		 who);
}

static void no_tracepoint(struct sk_bpf_probe_state *state, const struct sk_bpf_hook *hook)
{
	const char *other = hook->other_tracepoint;

	state->answer = SK_ANSWER_REFUSED;
	snprintf(state->reason, sizeof(state->reason), "this kernel has no tracepoint %s%s%s",
		 hook->tracepoint, other ? " nor " : "", other ? other : "");
}

struct btf *sk_bpf_load_btf(const struct sk_bpf_host *host)
{
	const char *path = host->options.btf_path;

	return path[0] ? btf__parse(path, NULL) : btf__load_vmlinux_btf();
}

void sk_bpf_load_tracepoints(const struct btf *btf, struct sk_bpf_btf_tracepoints *ret)
{
	ret->count = 0;
	for (enum sk_bpf_probe probe = 0; probe < SK_PROBES; probe++) {
		for (int i = 0; i < SK_HOOKS; i++) {
			const struct sk_bpf_hook *hook = &sk_bpf_row_of(probe)->hooks[i];

			if (hook->tracepoint)
				sk_bpf_btf_request(ret, hook->tracepoint);
			if (hook->other_tracepoint)
				sk_bpf_btf_request(ret, hook->other_tracepoint);
		}
	}
	sk_bpf_btf_look(btf, ret);
}

/* Return the form that this kernel takes; NULL: none. */
static const char *form_of(const struct sk_bpf_btf_tracepoints *known,
			   const struct sk_bpf_hook *hook)
{
	if (!hook->tracepoint || sk_bpf_btf_arguments(known, hook->tracepoint) >= 0)
		return hook->program;
	if (hook->other_tracepoint && sk_bpf_btf_arguments(known, hook->other_tracepoint) < 0)
		return NULL;
	return hook->other_program;
}

static void expect_row(struct sk_bpf_probe_state *state, const struct sk_bpf_row *row,
		       const struct sk_bpf_btf_tracepoints *known)
{
	answer(state, SK_ANSWER_ATTACHED, "");
	for (int i = 0; i < SK_HOOKS && !row->untyped; i++)
		if (row->hooks[i].program && !form_of(known, &row->hooks[i])) {
			no_tracepoint(state, &row->hooks[i]);
			return;
		}
	if (row->object == SK_OBJECT_OPT_IN)
		sk_bpf_state_off(state, row->cost);
}

/* Refuse the ends of faults if their begin is refused: they say nothing alone. */
static void refuse_ends(struct sk_bpf_host *host)
{
	const struct sk_bpf_probe_state *begins = &host->states[SK_PROBE_USER_FAULT];

	if (begins->answer == SK_ANSWER_REFUSED)
		host->states[SK_PROBE_HANDLING] = *begins;
}

void sk_bpf_load_expect(struct sk_bpf_host *host, const struct sk_bpf_btf_tracepoints *known)
{
	for (enum sk_bpf_probe probe = 0; probe < SK_PROBES; probe++)
		expect_row(&host->states[probe], sk_bpf_row_of(probe), known);
	refuse_ends(host);
}

static void load_one(struct bpf_object *object, const char *name)
{
	struct bpf_program *program = name ? bpf_object__find_program_by_name(object, name) : NULL;

	if (program)
		bpf_program__set_autoload(program, true);
}

static void choose_row(struct bpf_object *object, const struct sk_bpf_row *row,
		       const struct sk_bpf_btf_tracepoints *known)
{
	for (int i = 0; i < SK_HOOKS; i++) {
		const struct sk_bpf_hook *hook = &row->hooks[i];

		if (!hook->program)
			continue;
		if (row->untyped) {
			load_one(object, hook->program);
			load_one(object, hook->other_program);
		} else {
			load_one(object, form_of(known, hook));
		}
	}
}

void sk_bpf_load_choose(struct sk_bpf_host *host, struct bpf_object *object, int which,
			const struct sk_bpf_btf_tracepoints *known)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, object) bpf_program__set_autoload(program, false);
	for (enum sk_bpf_probe probe = 0; probe < SK_PROBES; probe++)
		if ((int)sk_bpf_row_of(probe)->object == which &&
		    host->states[probe].answer != SK_ANSWER_REFUSED)
			choose_row(object, sk_bpf_row_of(probe), known);
}

static int attach_program(struct sk_bpf_host *host, struct bpf_program *program,
			  struct bpf_link **ret)
{
	if (bpf_program__type(program) == BPF_PROG_TYPE_PERF_EVENT)
		return sk_bpf_fault_events_open(host, program);
	*ret = bpf_program__type(program) == BPF_PROG_TYPE_CGROUP_DEVICE
		       ? bpf_program__attach_cgroup(program, host->options.jobs_directory)
		       : bpf_program__attach(program);
	return *ret ? 0 : -errno;
}

/* Attach the loaded form; of two untyped ones the first that the kernel has. */
static int attach_hook(struct sk_bpf_host *host, struct bpf_object *object, enum sk_bpf_probe probe,
		       int at)
{
	const struct sk_bpf_hook *hook = &sk_bpf_row_of(probe)->hooks[at];
	const char *const names[] = {hook->program, hook->other_program};
	int error = -ENOENT;

	for (int i = 0; i < 2 && error == -ENOENT; i++) {
		struct bpf_program *program =
			names[i] ? bpf_object__find_program_by_name(object, names[i]) : NULL;

		if (!program || bpf_program__fd(program) < 0)
			continue;
		error = attach_program(host, program, &host->links[probe][at]);
		host->programs[probe][at] = error ? NULL : program;
	}
	return error;
}

void sk_bpf_probe_attach(struct sk_bpf_host *host, struct bpf_object *object,
			 enum sk_bpf_probe probe)
{
	struct sk_bpf_probe_state *state = &host->states[probe];
	const struct sk_bpf_row *row = sk_bpf_row_of(probe);
	int error = 0;

	if (state->answer == SK_ANSWER_REFUSED)
		return;
	answer(state, SK_ANSWER_ATTACHED, "");
	for (int i = 0; i < SK_HOOKS && !error; i++) {
		if (!row->hooks[i].program)
			continue;
		if (!row->hooks[i].tracepoint && host->options.jobs_directory < 0)
			continue; /* a trial: it was loaded and stays unattached */
		error = attach_hook(host, object, probe, i);
		if (error == -ENOENT)
			no_tracepoint(state, &row->hooks[i]);
		else if (error)
			sk_bpf_state_refuse(state, "attaching", error);
	}
	if (error)
		sk_bpf_probe_detach(host, probe);
}

void sk_bpf_probe_detach(struct sk_bpf_host *host, enum sk_bpf_probe probe)
{
	if (probe == SK_PROBE_HANDLING)
		sk_bpf_fault_events_close(host);
	for (int i = 0; i < SK_HOOKS; i++) {
		bpf_link__destroy(host->links[probe][i]);
		host->links[probe][i] = NULL;
		host->programs[probe][i] = NULL;
	}
}
