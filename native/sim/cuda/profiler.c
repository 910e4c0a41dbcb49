/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of the simulated CUDA driver to a profiler. cuInit loads the library that
 * CUDA_INJECTION64_PATH names and calls it once, as NVIDIA's driver does. A failure of that library
 * does not fail the program.
 */
#include "sim/cuda/told.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "sim/cuda/library.h"

static _Atomic(const struct sk_cuda_listener *) listener;
static _Atomic uint32_t correlations, ids;

/* Other callers wait; the library itself may call cuInit again. */
static pthread_mutex_t injecting = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static bool injected;

__attribute__((visibility("default"))) void
stoker_sim_cuda_listen(const struct sk_cuda_listener *wanted)
{
	atomic_store(&listener, wanted);
}

static uint64_t host_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Called without the node's lock, since the caller may hold another lock. */
__attribute__((visibility("default"))) uint64_t stoker_sim_cuda_now(void)
{
	const struct sk_sim_node *node = sk_cuda_node();
	uint64_t reached = node ? __atomic_load_n(&node->now_ns, __ATOMIC_RELAXED) : 0, now;

	if (!node || node->clock == SK_SIM_VIRTUAL)
		return reached;
	now = host_ns();
	return now > node->start_ns && now - node->start_ns > reached ? now - node->start_ns
								      : reached;
}

uint32_t sk_cuda_new_id(void)
{
	return atomic_fetch_add(&ids, 1) + 1;
}

void sk_cuda_inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	int (*initialize)(void) = NULL;
	void *library;

	pthread_mutex_lock(&injecting);
	if (!injected && path && *path) {
		injected = true;
		library = dlopen(path, RTLD_NOW);
		if (library)
			initialize = (int (*)(void))dlsym(library, "InitializeInjection");
		if (initialize)
			initialize();
	}
	pthread_mutex_unlock(&injecting);
}

void sk_cuda_call_begin(struct sk_cuda_call *call, uint32_t id, const char *function,
			const void *arguments, const char *kernel)
{
	const struct sk_cuda_context *context;

	*call = (struct sk_cuda_call){.to = atomic_load(&listener), .id = id};
	if (!call->to)
		return;
	context = sk_cuda_current();
	call->begun_ns = host_ns();
	call->told = (struct sk_cuda_told){
		.function = function,
		.arguments = arguments,
		.kernel = kernel,
		.context = (void *)(uintptr_t)context,
		.context_id = context ? context->id : 0,
		.shared = &call->shared,
		.correlation = atomic_fetch_add(&correlations, 1) + 1,
	};
	call->to->on_call(SK_CUDA_DRIVER, id, &call->told);
}

int sk_cuda_call_end(struct sk_cuda_call *call, int result)
{
	if (!call->to)
		return result;
	call->result = result;
	call->told.ends = 1;
	call->told.result = &call->result;
	call->to->on_call(SK_CUDA_DRIVER, call->id, &call->told);
	return result;
}

int sk_cuda_call_end_work(struct sk_cuda_call *call, int result, struct sk_cuda_work *work)
{
	work->correlation = call->told.correlation;
	if (call->to && !result && work->kind)
		call->to->on_work(work);
	return sk_cuda_call_end(call, result);
}

int sk_cuda_call_end_wait(struct sk_cuda_call *call, int result, uint32_t kind, uint32_t stream)
{
	if (call->to && !result)
		call->to->on_wait(&(struct sk_cuda_waited){
			.kind = kind,
			.took_ns = host_ns() - call->begun_ns,
			.correlation = call->told.correlation,
			.context = call->told.context_id,
			.stream = stream,
		});
	return sk_cuda_call_end(call, result);
}

void sk_cuda_work_in(struct sk_cuda_work *work, uint32_t kind, const struct sk_cuda_stream *stream,
		     uint64_t ns)
{
	work->kind = kind;
	work->start = stream->done_ns - ns;
	work->end = stream->done_ns;
	work->context = stream->context->id;
	work->stream = stream->id;
	work->device = stream->context->device;
}
