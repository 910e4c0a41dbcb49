/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Checks that the events of a simulated driver (sim/cuda/told.h) equal those of NVIDIA's CUPTI in
 * numbers and layout. Only cupti.c includes this, and it fails to compile otherwise.
 */
#ifndef SK_SIM_CUPTI_LAYOUTS_H
#define SK_SIM_CUPTI_LAYOUTS_H

#include <cupti.h>
#include <stddef.h>

#include "sim/cuda/told.h"

#define SAME(theirs, own)                                                                          \
	_Static_assert(offsetof(CUpti_CallbackData, theirs) == offsetof(struct sk_cuda_told, own), \
		       #theirs)
#define IS(theirs, own) _Static_assert((int)(theirs) == (int)(own), #theirs)
#define ID(name, own) IS(CUPTI_DRIVER_TRACE_CBID_##name, SK_CUDA_ID_##own)
#define AT(name, field, words)                                                                     \
	_Static_assert(offsetof(name##_params, field) == (words) * sizeof(uint64_t), #name)
#define MOVES(name, field, own)                                                                    \
	ID(name, own);                                                                             \
	AT(name, field, 2)
#define MOVES_ASYNC(name, field, own)                                                              \
	MOVES(name, field, own);                                                                   \
	AT(name, hStream, 3)

_Static_assert(sizeof(CUpti_CallbackData) == sizeof(struct sk_cuda_told), "a call");
SAME(callbackSite, ends);
SAME(functionName, function);
SAME(functionParams, arguments);
SAME(functionReturnValue, result);
SAME(symbolName, kernel);
SAME(context, context);
SAME(contextUid, context_id);
SAME(correlationData, shared);
SAME(correlationId, correlation);
IS(CUPTI_API_ENTER, 0);
IS(CUPTI_API_EXIT, 1);
IS(CUPTI_CB_DOMAIN_DRIVER_API, SK_CUDA_DRIVER);
IS(CUPTI_ACTIVITY_KIND_MEMCPY, SK_CUDA_WORK_COPY);
IS(CUPTI_ACTIVITY_KIND_MEMSET, SK_CUDA_WORK_FILL);
IS(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, SK_CUDA_WORK_KERNEL);
IS(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, SK_CUDA_WORK_GRAPH);
IS(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, SK_CUDA_WAIT_EVENT);
IS(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, SK_CUDA_WAIT_STREAM);
IS(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, SK_CUDA_WAIT_CONTEXT);
ID(cuDriverGetVersion, VERSION);
ID(cuCtxSynchronize, CONTEXT_WAIT);
ID(cuCtxSynchronize_v2, CONTEXT_WAIT_V2);
ID(cuEventSynchronize, EVENT_WAIT);
ID(cuStreamSynchronize, STREAM_WAIT);
ID(cuLaunchKernel, LAUNCH);
AT(cuLaunchKernel, hStream, 5);
AT(cuLaunchKernel, extra, 7);
ID(cuLaunchCooperativeKernel, LAUNCH_COOPERATIVE);
AT(cuLaunchCooperativeKernel, hStream, 5);
AT(cuLaunchCooperativeKernel, kernelParams, 6);
ID(cuLaunchKernelEx, LAUNCH_EX);
AT(cuLaunchKernelEx, extra, 3);
MOVES(cuMemcpyHtoD_v2, ByteCount, WRITE);
MOVES(cuMemcpyDtoH_v2, ByteCount, READ);
MOVES(cuMemcpyDtoD_v2, ByteCount, MOVE);
MOVES(cuMemcpy, ByteCount, COPY);
MOVES_ASYNC(cuMemcpyHtoDAsync_v2, ByteCount, WRITE_ASYNC);
MOVES_ASYNC(cuMemcpyDtoHAsync_v2, ByteCount, READ_ASYNC);
MOVES_ASYNC(cuMemcpyDtoDAsync_v2, ByteCount, MOVE_ASYNC);
MOVES_ASYNC(cuMemcpyAsync, ByteCount, COPY_ASYNC);
MOVES(cuMemsetD8_v2, N, FILL8);
MOVES(cuMemsetD16_v2, N, FILL16);
MOVES(cuMemsetD32_v2, N, FILL32);
MOVES_ASYNC(cuMemsetD8Async, N, FILL8_ASYNC);
MOVES_ASYNC(cuMemsetD16Async, N, FILL16_ASYNC);
MOVES_ASYNC(cuMemsetD32Async, N, FILL32_ASYNC);

#undef SAME
#undef IS
#undef ID
#undef AT
#undef MOVES
#undef MOVES_ASYNC

#endif
