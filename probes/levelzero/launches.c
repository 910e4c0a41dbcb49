/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the application: one appended to an immediate list runs at once, one appended to
 * another list runs at every execution of that list.
 *
 * A launch without an event gets one of the tracer's. A launch with an event keeps it, and is timed
 * by it where the event has stamps. Nothing is added to a list, so nothing waits that did not wait
 * before.
 */
#include "levelzero/levelzero.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COST_EVERY = 64 };

/* The data that kernels, copies and fills share. */
struct launch {
	sk_levelzero_handle list;
	sk_levelzero_handle *signal;
	uint64_t bytes;
	unsigned name;
	uint8_t kind;
};

static _Thread_local uint32_t calls;

static uint32_t own_tid(void)
{
	static _Thread_local uint32_t tid;

	if (!tid)
		tid = (uint32_t)syscall(SYS_gettid);
	return tid;
}

static void note_cost(uint64_t from_ns)
{
	struct sk_tracer_slot *slot = ++calls % COST_EVERY ? NULL : sk_tracer_slot();

	if (slot)
		sk_tracer_add(&slot->shared->counters.tracer_ns,
			      (sk_tracer_now() - from_ns) * COST_EVERY);
}

static void note_calling(uint64_t ns)
{
	struct sk_tracer_slot *slot = sk_tracer_slot();

	if (!slot)
		return;
	atomic_store_explicit(&slot->shared->calling_ns, ns, memory_order_release);
	if (ns)
		atomic_store_explicit(&slot->shared->counters.seen_ns, ns, memory_order_relaxed);
}

static void count(const struct sk_levelzero_command *command)
{
	struct sk_tracer_slot *slot = sk_tracer_slot();
	bool kernel = command->kind == SK_KIND_KERNEL;
	unsigned row = kernel ? command->name : command->kind;

	if (kernel && !row)
		atomic_fetch_add_explicit(&sk_tracer->segment->header.names_refused, 1,
					  memory_order_relaxed);
	if (!slot)
		sk_tracer_count_shared(kernel, row, command->bytes);
	else if (kernel)
		sk_tracer_count_launch(slot, row);
	else
		sk_tracer_count_copy(slot, row, command->bytes);
}

static void bump(size_t counter)
{
	struct sk_tracer_slot *slot = sk_tracer_slot();

	if (slot)
		sk_tracer_add((_Atomic uint64_t *)((char *)&slot->shared->counters + counter), 1);
}

/* Return the event that this launch is timed by, or NULL when it is only counted. Called with
 * `lock` held. */
static sk_levelzero_handle event_of(struct sk_levelzero_command *command,
				    sk_levelzero_handle *signal)
{
	if (!*signal) {
		command->own = true;
		return *signal = sk_levelzero_event_take(command->context);
	}
	struct sk_levelzero_entry *entry = sk_levelzero_map_find(&sk_levelzero.events, *signal);

	if (!entry || !(entry->value & 1))
		return NULL;
	/* The event is used again without having been reset: the launch before it is done, or lost.
	 */
	if (command->once && entry->value >> 1) {
		struct sk_levelzero_command *before =
			&sk_levelzero.commands[(entry->value >> 1) - 1];

		if (!sk_levelzero_command_harvest(before))
			sk_levelzero_command_lose(before);
	}
	return *signal;
}

/* Called with `lock` held. */
static struct sk_levelzero_command *make(struct sk_levelzero_list *list,
					 const struct launch *launch)
{
	struct sk_levelzero_command *command = sk_levelzero_command_take();

	if (!command)
		return NULL;
	command->context = list->context;
	command->device = list->device;
	command->queue = (uint16_t)((uintptr_t)list->handle >> 4);
	command->name = (uint16_t)launch->name;
	command->kind = launch->kind;
	command->bytes = launch->bytes;
	command->once = list->immediate;
	/* A list that is not immediate may be executed in any phase, so its launches are always
	 * noted. */
	bool timed = !list->immediate || (sk_levelzero.phase == SK_PHASE_TIMED && sk_tracer_slot());

	if (timed && list->device < SK_LEVELZERO_DEVICES)
		command->event = event_of(command, launch->signal);
	return command;
}

static void before_launch(const struct launch *launch, void **own)
{
	uint64_t now = sk_tracer_now();
	struct sk_levelzero_command *command = NULL;

	pthread_mutex_lock(&sk_levelzero.lock);
	struct sk_levelzero_list *list = sk_levelzero_find_list(launch->list);

	if (list && list->immediate && sk_levelzero.phase == SK_PHASE_TIMED)
		note_calling(now);
	if (list)
		command = make(list, launch);
	if (command)
		command->queued_ns = now;
	pthread_mutex_unlock(&sk_levelzero.lock);
	*own = command;
	note_cost(now);
}

/* Put the launch into the list, to be counted and timed when the list is executed. */
static void record(struct sk_levelzero_list *list, struct sk_levelzero_command *command)
{
	uint32_t number = (uint32_t)(command - sk_levelzero.commands) + 1;

	command->state = SK_LEVELZERO_RECORDED;
	command->next = 0;
	if (list->last)
		sk_levelzero.commands[list->last - 1].next = number;
	else
		list->first = number;
	list->last = number;
}

static void start(struct sk_levelzero_command *command, uint64_t queued_ns, uint64_t now_ns)
{
	uint64_t length = now_ns - queued_ns;

	command->queued_ns = queued_ns;
	command->call_ns = sk_tracer_saturated(length);
	command->tid = own_tid();
	command->correlation =
		atomic_fetch_add_explicit(&sk_levelzero.correlation, 1, memory_order_relaxed) + 1;
	bump(offsetof(struct sk_slot_counters, timed));
	sk_levelzero_command_arm(command);
}

/* Arm a launch of an immediate list, which has begun. Called with `lock` held. */
static void begin(struct sk_levelzero_command *command, uint64_t now_ns)
{
	count(command);
	if (command->event) {
		start(command, command->queued_ns, now_ns);
		return;
	}
	if (sk_levelzero.phase == SK_PHASE_TIMED)
		bump(offsetof(struct sk_slot_counters, pending_full));
	sk_levelzero_command_give(command);
}

static void after_launch(const struct launch *launch, int result, void **own)
{
	struct sk_levelzero_command *command = *own;
	uint64_t now = sk_tracer_now();

	pthread_mutex_lock(&sk_levelzero.lock);
	struct sk_levelzero_list *list = sk_levelzero_find_list(launch->list);

	if (!result && !list)
		atomic_fetch_add_explicit(&sk_tracer->segment->header.command_buffers, 1,
					  memory_order_relaxed);
	if (!result && list && !command)
		list->unseen++;
	else if (command && (result || !list))
		sk_levelzero_command_give(command);
	else if (command && list->immediate)
		begin(command, now);
	else if (command)
		record(list, command);
	if (list && list->immediate) {
		atomic_fetch_add_explicit(&sk_tracer->segment->header.command_buffers, list->unseen,
					  memory_order_relaxed);
		list->unseen = 0;
		note_calling(0);
	}
	pthread_mutex_unlock(&sk_levelzero.lock);
	note_cost(now);
}

static void before_any_kernel(sk_levelzero_handle list, sk_levelzero_handle kernel,
			      sk_levelzero_handle *signal, void **own)
{
	*own = NULL;
	if (sk_levelzero_stays_out())
		return;
	const struct launch launch = {.list = list,
				      .signal = signal,
				      .name = sk_levelzero_kernel_row(kernel),
				      .kind = SK_KIND_KERNEL};

	before_launch(&launch, own);
}

static void before_kernel(void *call, int result, void *data, void **own)
{
	const struct sk_levelzero_launch_call *made = call;

	before_any_kernel(*made->list, *made->kernel, made->signal, own);
}

static void before_kernel_parameters(void *call, int result, void *data, void **own)
{
	const struct sk_levelzero_launch_parameters_call *made = call;

	before_any_kernel(*made->list, *made->kernel, made->signal, own);
}

static void before_kernel_arguments(void *call, int result, void *data, void **own)
{
	const struct sk_levelzero_launch_arguments_call *made = call;

	before_any_kernel(*made->list, *made->kernel, made->signal, own);
}

/* The list is the first parameter of each of these calls. */
static void after_any(void *call, int result, void *data, void **own)
{
	sk_levelzero_handle *const *list = call;

	if (!sk_levelzero_stays_out())
		after_launch(&(struct launch){.list = **list}, result, own);
}

static void before_copy(void *call, int result, void *data, void **own)
{
	const struct sk_levelzero_copy_call *made = call;

	*own = NULL;
	if (!sk_levelzero_stays_out())
		before_launch(&(struct launch){.list = *made->list,
					       .signal = made->signal,
					       .bytes = *made->bytes,
					       .kind = SK_KIND_COPY},
			      own);
}

static void before_fill(void *call, int result, void *data, void **own)
{
	const struct sk_levelzero_fill_call *made = call;

	*own = NULL;
	if (!sk_levelzero_stays_out())
		before_launch(&(struct launch){.list = *made->list,
					       .signal = made->signal,
					       .bytes = *made->bytes,
					       .kind = SK_KIND_FILL},
			      own);
}

/* The tracer's events are used again, so the stamps of the execution before are taken now. */
static void make_ready(struct sk_levelzero_list *list)
{
	for (uint32_t number = list->first; number;) {
		struct sk_levelzero_command *command = &sk_levelzero.commands[number - 1];

		number = command->next;
		if (command->state == SK_LEVELZERO_FLIGHT && !sk_levelzero_command_harvest(command))
			sk_levelzero_command_lose(command);
		if (command->own && command->event && command->used) {
			SK_LEVELZERO_OURS(sk_levelzero.call.event_reset(command->event));
			command->used = false;
		}
	}
}

static void before_execute(void *call, int result, void *data, void **own)
{
	const struct sk_levelzero_execute_call *made = call;
	uint64_t now = sk_tracer_now();

	*own = NULL;
	if (sk_levelzero_stays_out())
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	if (sk_levelzero.phase == SK_PHASE_TIMED)
		note_calling(now);
	for (uint32_t i = 0; i < *made->count; i++) {
		struct sk_levelzero_list *list = sk_levelzero_find_list((*made->lists)[i]);

		if (list)
			make_ready(list);
	}
	pthread_mutex_unlock(&sk_levelzero.lock);
	*own = (void *)(uintptr_t)now;
	note_cost(now);
}

static void execute(struct sk_levelzero_list *list, uint64_t queued_ns, uint64_t now_ns)
{
	for (uint32_t number = list->first; number;) {
		struct sk_levelzero_command *command = &sk_levelzero.commands[number - 1];

		number = command->next;
		count(command);
		command->used = true;
		if (sk_levelzero.phase != SK_PHASE_TIMED)
			continue;
		if (command->event && sk_tracer_slot())
			start(command, queued_ns, now_ns);
		else
			bump(offsetof(struct sk_slot_counters, pending_full));
	}
}

/* The list was recorded while nobody looked, so its contents are not known. */
static void note_unseen(const struct sk_levelzero_list *list)
{
	uint32_t unseen = list ? list->unseen + !list->first : 1;

	if (unseen)
		atomic_fetch_add_explicit(&sk_tracer->segment->header.command_buffers, unseen,
					  memory_order_relaxed);
}

static void after_execute(void *call, int result, void *data, void **own)
{
	const struct sk_levelzero_execute_call *made = call;
	uint64_t queued = (uint64_t)(uintptr_t)*own, now = sk_tracer_now();

	if (sk_levelzero_stays_out() || !queued)
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	for (uint32_t i = 0; !result && i < *made->count; i++) {
		struct sk_levelzero_list *list = sk_levelzero_find_list((*made->lists)[i]);

		note_unseen(list);
		if (list)
			execute(list, queued, now);
	}
	note_calling(0);
	pthread_mutex_unlock(&sk_levelzero.lock);
	note_cost(now);
}

static bool watch(void *library, const char *what, sk_levelzero_callback before,
		  sk_levelzero_callback after)
{
	char name[96];

	snprintf(name, sizeof(name), "zelTracer%sRegisterCallback", what);
	sk_levelzero_register call = (sk_levelzero_register)dlsym(library, name);

	return call && !call(sk_levelzero.launches, SK_LEVELZERO_PROLOGUE, before) &&
	       !call(sk_levelzero.launches, SK_LEVELZERO_EPILOGUE, after);
}

/* Older loaders do not have these calls. */
static void watch_newer(void *library)
{
	watch(library, "CommandListAppendLaunchKernelWithParameters", before_kernel_parameters,
	      after_any);
	watch(library, "CommandListAppendLaunchKernelWithArguments", before_kernel_arguments,
	      after_any);
}

bool sk_levelzero_watch_launches(void *library)
{
	watch_newer(library);
	return watch(library, "CommandListAppendLaunchKernel", before_kernel, after_any) &&
	       watch(library, "CommandListAppendLaunchCooperativeKernel", before_kernel,
		     after_any) &&
	       watch(library, "CommandListAppendLaunchKernelIndirect", before_kernel, after_any) &&
	       watch(library, "CommandListAppendMemoryCopy", before_copy, after_any) &&
	       watch(library, "CommandListAppendMemoryFill", before_fill, after_any) &&
	       watch(library, "CommandQueueExecuteCommandLists", before_execute, after_execute);
}
