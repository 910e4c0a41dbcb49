/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events of the simulated CUDA driver. A stream is a time on the node's clock: the end
 * of all its work. The default stream waits for all other streams of its context except for non-
 * blocking ones, and they wait for it.
 */
#include "sim/cuda/library.h"

enum { STREAMS = 4096, EVENTS = 65536, NON_BLOCKING = 1, NO_TIMING = 2 };

struct event {
	uint32_t used, flags;
	bool recorded;
	uint64_t at_ns;
	struct sk_cuda_stream *behind; /* the stream whose fences it waits for; NULL: none */
};

static struct sk_cuda_stream stream[STREAMS];
static struct event event[EVENTS];
static uint32_t streams_high, events_high; /* places above were never used */

struct sk_cuda_stream *sk_cuda_stream(struct sk_cuda_context *context, void *handle)
{
	struct sk_cuda_stream *at = handle;

	if ((uintptr_t)handle <= 2) /* none, and the names of the default streams */
		return &context->standard;
	if (!SK_CUDA_IS_OF(stream, at) || !at->used || at->context != context)
		return NULL;
	return at;
}

static bool waits(const struct sk_cuda_stream *at, const struct sk_cuda_context *context)
{
	return at->used && at->context == context && !(at->flags & NON_BLOCKING);
}

uint64_t sk_cuda_enqueue_time(const struct sk_cuda_stream *at)
{
	const struct sk_cuda_context *context = at->context;
	uint64_t from = sk_cuda_node()->now_ns;

	if (at->done_ns > from)
		from = at->done_ns;
	if (at == &context->standard) {
		for (uint32_t i = 0; i < streams_high; i++)
			if (waits(&stream[i], context) && stream[i].done_ns > from)
				from = stream[i].done_ns;
	} else if (!(at->flags & NON_BLOCKING) && context->standard.done_ns > from) {
		from = context->standard.done_ns;
	}
	return from;
}

uint64_t sk_cuda_enqueue(struct sk_cuda_stream *at, uint64_t ns)
{
	sk_cuda_wait_fences(at->context, at == &at->context->standard ? NULL : at);
	at->done_ns = sk_cuda_enqueue_time(at) + ns;
	return at->done_ns;
}

uint64_t sk_cuda_all_done_ns(struct sk_cuda_context *context)
{
	uint64_t done = context->standard.done_ns;

	for (uint32_t i = 0; i < streams_high; i++)
		if (stream[i].used && stream[i].context == context && stream[i].done_ns > done)
			done = stream[i].done_ns;
	return done;
}

void sk_cuda_streams_drop(struct sk_cuda_context *context)
{
	sk_cuda_drop_fences(context, NULL);
	for (uint32_t i = 0; i < streams_high; i++)
		if (stream[i].context == context)
			stream[i].used = 0;
}

SK_CUDA cuStreamCreateWithPriority(struct sk_cuda_stream **ret, unsigned flags, int priority)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(__func__, &context);

	if (result)
		return result;
	if (!ret || flags > NON_BLOCKING)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	for (uint32_t i = 0; i < STREAMS; i++) {
		if (stream[i].used)
			continue;
		stream[i] = (struct sk_cuda_stream){.used = 1,
						    .id = sk_cuda_new_id(),
						    .flags = flags,
						    .priority = priority,
						    .context = context};
		if (i >= streams_high)
			streams_high = i + 1;
		*ret = &stream[i];
		return sk_cuda_end(SK_CUDA_SUCCESS);
	}
	return sk_cuda_end(SK_CUDA_OUT_OF_MEMORY);
}

SK_CUDA cuStreamCreate(struct sk_cuda_stream **ret, unsigned flags)
{
	return cuStreamCreateWithPriority(ret, flags, 0);
}

/* Begin a call of a stream of the current context. */
static int begin(const char *function, void *handle, struct sk_cuda_stream **ret)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(function, &context);

	if (result)
		return result;
	*ret = sk_cuda_stream(context, handle);
	return *ret ? SK_CUDA_SUCCESS : sk_cuda_end(SK_CUDA_INVALID_HANDLE);
}

SK_CUDA cuStreamDestroy_v2(void *handle)
{
	struct sk_cuda_stream *at;
	int result = begin(__func__, handle, &at);

	if (result)
		return result;
	if (at == &at->context->standard)
		return sk_cuda_end(SK_CUDA_INVALID_HANDLE);
	sk_cuda_drop_fences(at->context, at);
	at->used = 0; /* its work runs on, as in the real driver */
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

static int synchronize(const char *function, void *handle, uint32_t *ret)
{
	struct sk_cuda_stream *at;
	int result = begin(function, handle, &at);

	if (result)
		return result;
	*ret = at->id;
	sk_cuda_wait_fences(at->context, at == &at->context->standard ? NULL : at);
	sk_cuda_wait(at == &at->context->standard ? sk_cuda_all_done_ns(at->context) : at->done_ns);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuStreamSynchronize(void *handle)
{
	const uint64_t arguments[] = {(uintptr_t)handle};
	struct sk_cuda_call call;
	uint32_t id = 0;
	int result;

	sk_cuda_call_begin(&call, SK_CUDA_ID_STREAM_WAIT, __func__, arguments, NULL);
	result = synchronize(__func__, handle, &id);
	return sk_cuda_call_end_wait(&call, result, SK_CUDA_WAIT_STREAM, id);
}

SK_CUDA cuStreamQuery(void *handle)
{
	struct sk_cuda_stream *at;
	int result = begin(__func__, handle, &at);

	if (result)
		return result;
	if (!sk_cuda_pass_fences(at->context, at))
		return sk_cuda_end(SK_CUDA_NOT_READY);
	return sk_cuda_end(at->done_ns > sk_cuda_node()->now_ns ? SK_CUDA_NOT_READY
								: SK_CUDA_SUCCESS);
}

SK_CUDA cuStreamGetFlags(void *handle, unsigned *ret)
{
	struct sk_cuda_stream *at;
	int result = begin(__func__, handle, &at);

	if (result)
		return result;
	if (ret)
		*ret = at->flags;
	return sk_cuda_end(ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

SK_CUDA cuStreamGetPriority(void *handle, int *ret)
{
	struct sk_cuda_stream *at;
	int result = begin(__func__, handle, &at);

	if (result)
		return result;
	if (ret)
		*ret = at->priority;
	return sk_cuda_end(ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

SK_CUDA cuStreamGetCtx(void *handle, struct sk_cuda_context **ret)
{
	struct sk_cuda_stream *at;
	int result = begin(__func__, handle, &at);

	if (result)
		return result;
	if (ret)
		*ret = at->context;
	return sk_cuda_end(ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

/* The function is called after all work before it; here the caller waits for that. */
SK_CUDA cuLaunchHostFunc(void *handle, void (*function)(void *), void *data)
{
	struct sk_cuda_stream *at;
	int result = begin(__func__, handle, &at);

	if (result)
		return result;
	if (!function)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	sk_cuda_wait(sk_cuda_enqueue(at, 0));
	sk_cuda_end(SK_CUDA_SUCCESS);
	function(data);
	return SK_CUDA_SUCCESS;
}

static bool is_event(const struct event *at)
{
	return SK_CUDA_IS_OF(event, at) && at->used;
}

SK_CUDA cuEventCreate(struct event **ret, unsigned flags)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(__func__, &context);

	if (result)
		return result;
	if (!ret)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	for (uint32_t i = 0; i < EVENTS; i++) {
		if (event[i].used)
			continue;
		event[i] = (struct event){.used = 1, .flags = flags};
		if (i >= events_high)
			events_high = i + 1;
		*ret = &event[i];
		return sk_cuda_end(SK_CUDA_SUCCESS);
	}
	return sk_cuda_end(SK_CUDA_OUT_OF_MEMORY);
}

static int begin_event(const char *function, struct event *at)
{
	int result = sk_cuda_begin(function, UINT32_MAX);

	if (result)
		return result;
	return is_event(at) ? SK_CUDA_SUCCESS : sk_cuda_end(SK_CUDA_INVALID_HANDLE);
}

SK_CUDA cuEventDestroy_v2(struct event *at)
{
	int result = begin_event(__func__, at);

	if (result)
		return result;
	at->used = 0;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

static int record(const char *function, struct event *at, void *handle)
{
	struct sk_cuda_stream *in;
	int result = begin(function, handle, &in);

	if (result)
		return result;
	if (!is_event(at))
		return sk_cuda_end(SK_CUDA_INVALID_HANDLE);
	at->recorded = true;
	at->behind = sk_cuda_pass_fences(in->context, in) ? NULL : in;
	at->at_ns = at->behind ? 0 : sk_cuda_enqueue(in, 0);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuEventRecord(struct event *at, void *handle)
{
	return record(__func__, at, handle);
}

SK_CUDA cuEventRecordWithFlags(struct event *at, void *handle, unsigned flags)
{
	return record(__func__, at, handle);
}

/* Give an event its time when the fences before it are passed; later ones of its stream count as
 * if they stood before it. Returns whether it has its time. */
static bool is_timed(struct event *at)
{
	if (!at->behind)
		return true;
	if (!sk_cuda_pass_fences(at->behind->context, at->behind))
		return false;
	at->at_ns = at->behind->done_ns;
	at->behind = NULL;
	return true;
}

SK_CUDA cuEventQuery(struct event *at)
{
	int result = begin_event(__func__, at);

	if (result)
		return result;
	if (!is_timed(at))
		return sk_cuda_end(SK_CUDA_NOT_READY);
	return sk_cuda_end(at->at_ns > sk_cuda_node()->now_ns ? SK_CUDA_NOT_READY
							      : SK_CUDA_SUCCESS);
}

static int wait_for(const char *function, struct event *at)
{
	int result = begin_event(function, at);

	if (result)
		return result;
	if (at->behind)
		sk_cuda_wait_fences(at->behind->context, at->behind);
	is_timed(at);
	sk_cuda_wait(at->at_ns);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuEventSynchronize(struct event *at)
{
	const uint64_t arguments[] = {(uintptr_t)at};
	struct sk_cuda_call call;
	int result;

	sk_cuda_call_begin(&call, SK_CUDA_ID_EVENT_WAIT, __func__, arguments, NULL);
	result = wait_for(__func__, at);
	return sk_cuda_call_end_wait(&call, result, SK_CUDA_WAIT_EVENT, 0);
}

static int elapsed(const char *function, float *ret, struct event *from, struct event *to)
{
	int result = begin_event(function, from);

	if (result)
		return result;
	if (!is_event(to) || !from->recorded || !to->recorded ||
	    (from->flags | to->flags) & NO_TIMING)
		return sk_cuda_end(SK_CUDA_INVALID_HANDLE);
	if (!is_timed(from) || !is_timed(to) || from->at_ns > sk_cuda_node()->now_ns ||
	    to->at_ns > sk_cuda_node()->now_ns)
		return sk_cuda_end(SK_CUDA_NOT_READY);
	if (!ret)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	*ret = (float)((double)to->at_ns - (double)from->at_ns) * 1e-6F;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuEventElapsedTime(float *ret, struct event *from, struct event *to)
{
	return elapsed(__func__, ret, from, to);
}

SK_CUDA cuEventElapsedTime_v2(float *ret, struct event *from, struct event *to)
{
	return elapsed(__func__, ret, from, to);
}

SK_CUDA cuStreamWaitEvent(void *handle, struct event *at, unsigned flags)
{
	struct sk_cuda_stream *in;
	int result = begin(__func__, handle, &in);

	if (result)
		return result;
	if (!is_event(at))
		return sk_cuda_end(SK_CUDA_INVALID_HANDLE);
	if (!is_timed(at))
		sk_cuda_copy_fences(at->behind, in);
	else if (at->recorded && at->at_ns > in->done_ns)
		in->done_ns = at->at_ns;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}
