/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fences in streams: work whose end other processes decide, as that of a collective operation.
 * A function of the fence's maker tells when its work ends. Invariant: fences of one stream are
 * passed in the order in which they were put there. What is put behind a fence waits in the
 * caller's thread until the fence is passed, because a stream is only a time.
 */
#include "sim/cuda/library.h"

#include <time.h>

enum { FENCES = 16384, LOOK_NS = 50000 };

struct fence {
	struct sk_cuda_stream *stream;
	stoker_sim_cuda_look *look;
	void *data;
};

static struct fence fence[FENCES];
static uint32_t used;

static bool is_in(const struct fence *one, const struct sk_cuda_context *context,
		  const struct sk_cuda_stream *at)
{
	return at ? one->stream == at : one->stream->context == context;
}

static uint32_t first_of(const struct sk_cuda_context *context, const struct sk_cuda_stream *at)
{
	uint32_t i = 0;

	while (i < used && !is_in(&fence[i], context, at))
		i++;
	return i;
}

static void take_off(uint32_t place)
{
	used--;
	for (uint32_t i = place; i < used; i++)
		fence[i] = fence[i + 1];
}

/* Pass a fence if its work has an end; returns whether it has. */
static bool pass(uint32_t place)
{
	struct sk_cuda_stream *at = fence[place].stream;
	int64_t left_ns = fence[place].look(fence[place].data);
	uint64_t end_ns;

	if (left_ns < 0)
		return false;
	end_ns = sk_cuda_node()->now_ns + (uint64_t)left_ns;
	if (end_ns > at->done_ns)
		at->done_ns = end_ns;
	take_off(place);
	return true;
}

bool sk_cuda_pass_fences(const struct sk_cuda_context *context, const struct sk_cuda_stream *at)
{
	uint32_t place = first_of(context, at);

	while (place < used && pass(place))
		place = first_of(context, at);
	return place >= used;
}

void sk_cuda_wait_fences(const struct sk_cuda_context *context, const struct sk_cuda_stream *at)
{
	const struct timespec nap = {.tv_nsec = LOOK_NS};

	while (!sk_cuda_pass_fences(context, at)) {
		sk_cuda_pause();
		nanosleep(&nap, NULL);
		sk_cuda_resume();
	}
}

void sk_cuda_drop_fences(const struct sk_cuda_context *context, const struct sk_cuda_stream *at)
{
	for (uint32_t i = first_of(context, at); i < used; i = first_of(context, at))
		take_off(i);
}

void sk_cuda_copy_fences(const struct sk_cuda_stream *from, struct sk_cuda_stream *to)
{
	uint32_t count = used;

	for (uint32_t i = 0; i < count && used < FENCES; i++)
		if (fence[i].stream == from) {
			fence[used] = fence[i];
			fence[used++].stream = to;
		}
}

/* Find the stream of a handle in the context of the calling thread. */
static int begin(const char *function, void *handle, struct sk_cuda_stream **ret)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(function, &context);

	if (result)
		return result;
	*ret = sk_cuda_stream(context, handle);
	return *ret ? SK_CUDA_SUCCESS : sk_cuda_end(SK_CUDA_INVALID_HANDLE);
}

__attribute__((visibility("default"))) int stoker_sim_cuda_left(void *handle, uint64_t *ret)
{
	struct sk_cuda_stream *at;
	int result = begin(__func__, handle, &at);
	uint64_t done_ns;

	if (result)
		return result;
	sk_cuda_pass_fences(at->context, at);
	done_ns = sk_cuda_enqueue_time(at);
	*ret = done_ns - sk_cuda_node()->now_ns;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

__attribute__((visibility("default"))) int
stoker_sim_cuda_fence(void *handle, stoker_sim_cuda_look *look, void *data)
{
	struct sk_cuda_stream *at;
	int result = begin(__func__, handle, &at);

	if (result)
		return result;
	if (used == FENCES)
		return sk_cuda_end(SK_CUDA_OUT_OF_MEMORY);
	fence[used++] = (struct fence){.stream = at, .look = look, .data = data};
	return sk_cuda_end(SK_CUDA_SUCCESS);
}
