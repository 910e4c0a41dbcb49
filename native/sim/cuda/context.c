/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of the simulated CUDA driver: a stack of them for each thread, one primary context for
 * each device, and the memory that the first context of a device takes.
 */
#include "sim/cuda/library.h"

#include <string.h>

enum {
	CONTEXTS = 256,
	STACK = 64,
	CONTEXT_BYTES = 512 << 20, /* about what a context takes of an H100 */
};

static struct sk_cuda_context context[CONTEXTS], primary[SK_SIM_CARDS];
static uint32_t alive[SK_SIM_CARDS]; /* contexts of a device */

static __thread struct {
	uint32_t depth;
	struct sk_cuda_context *top[STACK];
} stack;

static bool is_context(const struct sk_cuda_context *at)
{
	return (SK_CUDA_IS_OF(context, at) || SK_CUDA_IS_OF(primary, at)) && at->used;
}

struct sk_cuda_context *sk_cuda_current(void)
{
	if (!stack.depth || !is_context(stack.top[stack.depth - 1]))
		return NULL;
	return stack.top[stack.depth - 1];
}

/* Make a context of a device; called with the node locked. */
static int open_context(struct sk_cuda_context *at, uint32_t device, uint32_t flags)
{
	int result = alive[device] ? 0 : sk_cuda_charge(device, CONTEXT_BYTES);

	if (result)
		return result;
	alive[device]++;
	*at = (struct sk_cuda_context){
		.used = 1, .id = sk_cuda_new_id(), .device = device, .flags = flags};
	at->standard.used = 1;
	at->standard.id = sk_cuda_new_id();
	at->standard.context = at;
	return SK_CUDA_SUCCESS;
}

static void close_context(struct sk_cuda_context *at)
{
	sk_cuda_streams_drop(at);
	at->used = 0;
	if (--alive[at->device] == 0)
		sk_cuda_discharge(at->device, CONTEXT_BYTES);
}

static int push(struct sk_cuda_context *at)
{
	if (stack.depth == STACK)
		return SK_CUDA_OUT_OF_MEMORY;
	stack.top[stack.depth++] = at;
	return SK_CUDA_SUCCESS;
}

static int create(const char *function, struct sk_cuda_context **ret, unsigned flags, int device)
{
	int result = sk_cuda_begin(function, (uint32_t)device);

	if (result)
		return result;
	if (!ret)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	for (uint32_t i = 0; i < CONTEXTS; i++) {
		if (context[i].used)
			continue;
		result = open_context(&context[i], (uint32_t)device, flags);
		if (!result) {
			*ret = &context[i];
			result = push(*ret);
		}
		return sk_cuda_end(result);
	}
	return sk_cuda_end(SK_CUDA_OUT_OF_MEMORY);
}

SK_CUDA cuCtxCreate_v2(struct sk_cuda_context **ret, unsigned flags, int device)
{
	return create(__func__, ret, flags, device);
}

SK_CUDA cuCtxCreate_v3(struct sk_cuda_context **ret, void *affinity, int count, unsigned flags,
		       int device)
{
	return create(__func__, ret, flags, device);
}

SK_CUDA cuCtxCreate_v4(struct sk_cuda_context **ret, void *parameters, unsigned flags, int device)
{
	return create(__func__, ret, flags, device);
}

SK_CUDA cuCtxDestroy_v2(struct sk_cuda_context *at)
{
	int result;

	if (!SK_CUDA_IS_OF(context, at) || !at->used)
		return SK_CUDA_INVALID_CONTEXT;
	result = sk_cuda_begin(__func__, at->device);
	if (result)
		return result;
	sk_cuda_wait(sk_cuda_all_done_ns(at));
	if (!at->used) /* another thread was first */
		return sk_cuda_end(SK_CUDA_INVALID_CONTEXT);
	close_context(at);
	if (stack.depth && stack.top[stack.depth - 1] == at)
		stack.depth--;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuCtxPushCurrent_v2(struct sk_cuda_context *at)
{
	return is_context(at) ? push(at) : SK_CUDA_INVALID_CONTEXT;
}

SK_CUDA cuCtxPopCurrent_v2(struct sk_cuda_context **ret)
{
	if (!stack.depth)
		return SK_CUDA_INVALID_CONTEXT;
	stack.depth--;
	if (ret)
		*ret = stack.top[stack.depth];
	return SK_CUDA_SUCCESS;
}

SK_CUDA cuCtxSetCurrent(struct sk_cuda_context *at)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);

	if (result)
		return result;
	sk_cuda_end(0);
	if (at && !is_context(at))
		return SK_CUDA_INVALID_CONTEXT;
	if (stack.depth)
		stack.depth--;
	return at ? push(at) : SK_CUDA_SUCCESS;
}

SK_CUDA cuCtxGetCurrent(struct sk_cuda_context **ret)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);

	if (result)
		return result;
	if (ret)
		*ret = sk_cuda_current();
	return sk_cuda_end(ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

/* Begin a call of a context, by default the current one. */
static int begin(const char *function, struct sk_cuda_context *given, struct sk_cuda_context **ret)
{
	if (!given || !sk_cuda_node())
		return sk_cuda_begin_context(function, ret);
	if (!is_context(given))
		return SK_CUDA_INVALID_CONTEXT;
	*ret = given;
	return sk_cuda_begin(function, given->device);
}

static int get_device(const char *function, int *ret, struct sk_cuda_context *of)
{
	struct sk_cuda_context *at;
	int result = begin(function, of, &at);

	if (result)
		return result;
	if (ret)
		*ret = (int)at->device;
	return sk_cuda_end(ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

SK_CUDA cuCtxGetDevice(int *ret)
{
	return get_device(__func__, ret, NULL);
}

SK_CUDA cuCtxGetDevice_v2(int *ret, struct sk_cuda_context *of)
{
	return get_device(__func__, ret, of);
}

SK_CUDA cuCtxGetFlags(unsigned *ret)
{
	struct sk_cuda_context *at;
	int result = sk_cuda_begin_context(__func__, &at);

	if (result)
		return result;
	if (ret)
		*ret = at->flags;
	return sk_cuda_end(ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

SK_CUDA cuCtxGetApiVersion(struct sk_cuda_context *at, unsigned *ret)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);

	if (result)
		return result;
	if (ret)
		*ret = SK_CUDA_VERSION;
	return sk_cuda_end(ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

SK_CUDA cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct sk_cuda_context *at;
	int result = sk_cuda_begin_context(__func__, &at);

	if (result)
		return result;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

static int synchronize(const char *function, struct sk_cuda_context *of)
{
	struct sk_cuda_context *at;
	int result = begin(function, of, &at);

	if (result)
		return result;
	sk_cuda_wait_fences(at, NULL);
	sk_cuda_wait(sk_cuda_all_done_ns(at));
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuCtxSynchronize(void)
{
	struct sk_cuda_call call;
	int result;

	sk_cuda_call_begin(&call, SK_CUDA_ID_CONTEXT_WAIT, __func__, NULL, NULL);
	result = synchronize(__func__, NULL);
	return sk_cuda_call_end_wait(&call, result, SK_CUDA_WAIT_CONTEXT, 0);
}

SK_CUDA cuCtxSynchronize_v2(struct sk_cuda_context *of)
{
	const uint64_t arguments[] = {(uintptr_t)of};
	struct sk_cuda_call call;
	int result;

	sk_cuda_call_begin(&call, SK_CUDA_ID_CONTEXT_WAIT_V2, __func__, arguments, NULL);
	result = synchronize(__func__, of);
	return sk_cuda_call_end_wait(&call, result, SK_CUDA_WAIT_CONTEXT, 0);
}

SK_CUDA cuDevicePrimaryCtxRetain(struct sk_cuda_context **ret, int device)
{
	int result = sk_cuda_begin(__func__, (uint32_t)device);

	if (result)
		return result;
	if (!ret)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	if (!primary[device].used)
		result = open_context(&primary[device], (uint32_t)device, primary[device].flags);
	if (result)
		return sk_cuda_end(result);
	primary[device].references++;
	*ret = &primary[device];
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuDevicePrimaryCtxRelease_v2(int device)
{
	int result = sk_cuda_begin(__func__, (uint32_t)device);

	if (result)
		return result;
	if (!primary[device].used)
		return sk_cuda_end(SK_CUDA_INVALID_CONTEXT);
	if (--primary[device].references == 0)
		close_context(&primary[device]);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuDevicePrimaryCtxReset_v2(int device)
{
	int result = sk_cuda_begin(__func__, (uint32_t)device);

	if (result)
		return result;
	if (primary[device].used)
		close_context(&primary[device]);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
	int result = sk_cuda_begin(__func__, (uint32_t)device);

	if (result)
		return result;
	primary[device].flags = flags;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	int result = sk_cuda_begin(__func__, (uint32_t)device);

	if (result)
		return result;
	if (flags)
		*flags = primary[device].flags;
	if (active)
		*active = primary[device].used != 0;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}
