/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"

#include "records/segment.h"

#include <stddef.h>

#define ID(name) CUPTI_DRIVER_TRACE_CBID_##name
#define AT(name, field) (uint16_t) offsetof(name##_params, field)

#define LAUNCH(name, thread)                                                                       \
	{                                                                                          \
		ID(name), SK_CUPTI_CALL_LAUNCH, 0, 0, 0, 0, AT(name, hStream), thread              \
	}
#define LAUNCH_EX(name, thread)                                                                    \
	{                                                                                          \
		ID(name), SK_CUPTI_CALL_LAUNCH, 0, 0, 0, 0, SK_CUPTI_CALL_LAUNCH_EX, thread        \
	}
#define GRAPH(name, thread)                                                                        \
	{                                                                                          \
		ID(name), SK_CUPTI_CALL_GRAPH, 0, 0, 0, 0, AT(name, hStream), thread               \
	}

#define COPY(name, kind, size, field)                                                              \
	{                                                                                          \
		ID(name), SK_CUPTI_CALL_COPY, kind, size, 1, AT(name, field),                      \
			SK_CUPTI_CALL_NO_STREAM, false                                             \
	}
#define COPY_ASYNC(name, kind, size, field, thread)                                                \
	{                                                                                          \
		ID(name), SK_CUPTI_CALL_COPY, kind, size, 1, AT(name, field), AT(name, hStream),   \
			thread                                                                     \
	}
#define COPIES(name, kind, size, field)                                                            \
	COPY(name, kind, size, field), COPY(name##_ptds, kind, size, field)
#define COPIES_ASYNC(name, kind, size, field)                                                      \
	COPY_ASYNC(name, kind, size, field, false), COPY_ASYNC(name##_ptsz, kind, size, field, true)
#define FILL(name, size, bytes, field)                                                             \
	{                                                                                          \
		ID(name), SK_CUPTI_CALL_COPY, SK_KIND_FILL, size, bytes, AT(name, field),          \
			SK_CUPTI_CALL_NO_STREAM, false                                             \
	}
#define FILL_ASYNC(name, size, bytes, field, thread)                                               \
	{                                                                                          \
		ID(name), SK_CUPTI_CALL_COPY, SK_KIND_FILL, size, bytes, AT(name, field),          \
			AT(name, hStream), thread                                                  \
	}
#define FILLS(stem, size, bytes, field)                                                            \
	FILL(stem##_v2, size, bytes, field), FILL(stem##_v2_ptds, size, bytes, field),             \
		FILL_ASYNC(stem##Async, size, bytes, field, false),                                \
		FILL_ASYNC(stem##Async_ptsz, size, bytes, field, true)
#define OTHER(name, class)                                                                         \
	{                                                                                          \
		ID(name), class, 0, 0, 0, 0, SK_CUPTI_CALL_NO_STREAM, false                        \
	}

static const struct sk_cupti_call calls[] = {
	LAUNCH(cuLaunchKernel, false),
	LAUNCH(cuLaunchKernel_ptsz, true),
	LAUNCH_EX(cuLaunchKernelEx, false),
	LAUNCH_EX(cuLaunchKernelEx_ptsz, true),
	LAUNCH(cuLaunchCooperativeKernel, false),
	LAUNCH(cuLaunchCooperativeKernel_ptsz, true),
	GRAPH(cuGraphLaunch, false),
	GRAPH(cuGraphLaunch_ptsz, true),
	COPIES(cuMemcpyHtoD_v2, SK_KIND_WRITE, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES(cuMemcpyDtoH_v2, SK_KIND_READ, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES(cuMemcpyDtoD_v2, SK_KIND_COPY, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES(cuMemcpyHtoA_v2, SK_KIND_WRITE, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES(cuMemcpyAtoH_v2, SK_KIND_READ, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES(cuMemcpyDtoA_v2, SK_KIND_COPY, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES(cuMemcpyAtoD_v2, SK_KIND_COPY, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES(cuMemcpyAtoA_v2, SK_KIND_COPY, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES(cuMemcpy, SK_KIND_COPY, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES(cuMemcpyPeer, SK_KIND_COPY, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES(cuMemcpy2D_v2, SK_KIND_COPY, SK_CUPTI_SIZE_2D, pCopy),
	COPIES(cuMemcpy2DUnaligned_v2, SK_KIND_COPY, SK_CUPTI_SIZE_2D, pCopy),
	COPIES(cuMemcpy3D_v2, SK_KIND_COPY, SK_CUPTI_SIZE_3D, pCopy),
	COPIES_ASYNC(cuMemcpyHtoDAsync_v2, SK_KIND_WRITE, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES_ASYNC(cuMemcpyDtoHAsync_v2, SK_KIND_READ, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES_ASYNC(cuMemcpyDtoDAsync_v2, SK_KIND_COPY, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES_ASYNC(cuMemcpyHtoAAsync_v2, SK_KIND_WRITE, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES_ASYNC(cuMemcpyAtoHAsync_v2, SK_KIND_READ, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES_ASYNC(cuMemcpyAsync, SK_KIND_COPY, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES_ASYNC(cuMemcpyPeerAsync, SK_KIND_COPY, SK_CUPTI_SIZE_BYTES, ByteCount),
	COPIES_ASYNC(cuMemcpy2DAsync_v2, SK_KIND_COPY, SK_CUPTI_SIZE_2D, pCopy),
	COPIES_ASYNC(cuMemcpy3DAsync_v2, SK_KIND_COPY, SK_CUPTI_SIZE_3D, pCopy),
	FILLS(cuMemsetD8, SK_CUPTI_SIZE_BYTES, 1, N),
	FILLS(cuMemsetD16, SK_CUPTI_SIZE_BYTES, 2, N),
	FILLS(cuMemsetD32, SK_CUPTI_SIZE_BYTES, 4, N),
	FILLS(cuMemsetD2D8, SK_CUPTI_SIZE_ROWS, 1, Width),
	FILLS(cuMemsetD2D16, SK_CUPTI_SIZE_ROWS, 2, Width),
	FILLS(cuMemsetD2D32, SK_CUPTI_SIZE_ROWS, 4, Width),
	OTHER(cuCtxSynchronize, SK_CUPTI_CALL_WAIT),
	OTHER(cuCtxSynchronize_v2, SK_CUPTI_CALL_WAIT),
	OTHER(cuStreamSynchronize, SK_CUPTI_CALL_WAIT),
	OTHER(cuStreamSynchronize_ptsz, SK_CUPTI_CALL_WAIT),
	OTHER(cuEventSynchronize, SK_CUPTI_CALL_WAIT),
	OTHER(cuStreamBeginCapture, SK_CUPTI_CALL_CAPTURE),
	OTHER(cuStreamBeginCapture_ptsz, SK_CUPTI_CALL_CAPTURE),
	OTHER(cuStreamBeginCapture_v2, SK_CUPTI_CALL_CAPTURE),
	OTHER(cuStreamBeginCapture_v2_ptsz, SK_CUPTI_CALL_CAPTURE),
	OTHER(cuStreamBeginCaptureToGraph, SK_CUPTI_CALL_CAPTURE),
	OTHER(cuStreamBeginCaptureToGraph_ptsz, SK_CUPTI_CALL_CAPTURE),
};

#define RUNTIME(name) CUPTI_RUNTIME_TRACE_CBID_##name

/* Depending on its version, CUPTI gives a record the id of the outermost call or the driver's own.
 * So calls of the runtime around those of the driver are watched as well, until it is known that
 * they are not needed. */
static const uint16_t runtime_calls[] = {
	RUNTIME(cudaLaunchKernel_v7000),
	RUNTIME(cudaLaunchKernel_ptsz_v7000),
	RUNTIME(cudaLaunchKernelExC_v11060),
	RUNTIME(cudaLaunchKernelExC_ptsz_v11060),
	RUNTIME(cudaLaunchCooperativeKernel_v9000),
	RUNTIME(cudaLaunchCooperativeKernel_ptsz_v9000),
	RUNTIME(__cudaLaunchKernel_v13000),
	RUNTIME(__cudaLaunchKernel_ptsz_v13000),
	RUNTIME(cudaGraphLaunch_v10000),
	RUNTIME(cudaGraphLaunch_ptsz_v10000),
	RUNTIME(cudaMemcpy_v3020),
	RUNTIME(cudaMemcpy_ptds_v7000),
	RUNTIME(cudaMemcpyAsync_v3020),
	RUNTIME(cudaMemcpyAsync_ptsz_v7000),
	RUNTIME(cudaMemcpy2D_v3020),
	RUNTIME(cudaMemcpy2D_ptds_v7000),
	RUNTIME(cudaMemcpy2DAsync_v3020),
	RUNTIME(cudaMemcpy2DAsync_ptsz_v7000),
	RUNTIME(cudaMemcpy3D_v3020),
	RUNTIME(cudaMemcpy3DAsync_v3020),
	RUNTIME(cudaMemcpyPeer_v4000),
	RUNTIME(cudaMemcpyPeerAsync_v4000),
	RUNTIME(cudaMemcpyToSymbol_v3020),
	RUNTIME(cudaMemcpyFromSymbol_v3020),
	RUNTIME(cudaMemset_v3020),
	RUNTIME(cudaMemset_ptds_v7000),
	RUNTIME(cudaMemsetAsync_v3020),
	RUNTIME(cudaMemsetAsync_ptsz_v7000),
	RUNTIME(cudaDeviceSynchronize_v3020),
	RUNTIME(cudaStreamSynchronize_v3020),
	RUNTIME(cudaStreamSynchronize_ptsz_v7000),
	RUNTIME(cudaEventSynchronize_v3020),
};

enum {
	CALLS = sizeof(calls) / sizeof(calls[0]),
	IDS = 1024, /* more than the newest id of the table */
};

_Static_assert((int)CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2 < (int)IDS, "the index has room");

static uint8_t by_id[IDS]; /* row + 1 */

__attribute__((constructor)) static void make_index(void)
{
	_Static_assert(CALLS < UINT8_MAX, "a row fits into a byte");
	for (unsigned row = 0; row < CALLS; row++)
		by_id[calls[row].cbid] = (uint8_t)(row + 1);
}

const struct sk_cupti_call *sk_cupti_call_of_driver(uint32_t cbid)
{
	return cbid < IDS && by_id[cbid] ? &calls[by_id[cbid] - 1] : NULL;
}

const struct sk_cupti_call *sk_cupti_calls_driver(unsigned *count)
{
	*count = CALLS;
	return calls;
}

const uint16_t *sk_cupti_calls_runtime(unsigned *count)
{
	*count = sizeof(runtime_calls) / sizeof(runtime_calls[0]);
	return runtime_calls;
}

uint64_t sk_cupti_call_bytes(const struct sk_cupti_call *call, const void *arguments)
{
	const char *at = (const char *)arguments + call->where;
	const size_t *sizes = (const size_t *)at;

	switch (call->size) {
	case SK_CUPTI_SIZE_BYTES:
		return sizes[0] * call->width;
	case SK_CUPTI_SIZE_ROWS: /* Width, then Height */
		return sizes[0] * sizes[1] * call->width;
	case SK_CUPTI_SIZE_2D: {
		const CUDA_MEMCPY2D *copy = *(const CUDA_MEMCPY2D *const *)at;

		return copy ? (uint64_t)copy->WidthInBytes * copy->Height : 0;
	}
	case SK_CUPTI_SIZE_3D: {
		const CUDA_MEMCPY3D *copy = *(const CUDA_MEMCPY3D *const *)at;

		return copy ? (uint64_t)copy->WidthInBytes * copy->Height * copy->Depth : 0;
	}
	default:
		return 0;
	}
}

CUstream sk_cupti_call_stream(const struct sk_cupti_call *call, const void *arguments)
{
	CUstream stream = NULL;

	if (call->stream == SK_CUPTI_CALL_LAUNCH_EX) {
		const CUlaunchConfig *config = ((const cuLaunchKernelEx_params *)arguments)->config;

		stream = config ? config->hStream : NULL;
	} else if (call->stream != SK_CUPTI_CALL_NO_STREAM) {
		stream = *(const CUstream *)((const char *)arguments + call->stream);
	}
	return stream || !call->per_thread ? stream : CU_STREAM_PER_THREAD;
}

_Static_assert(offsetof(cuMemsetD2D8_v2_params, Height) ==
		       offsetof(cuMemsetD2D8_v2_params, Width) + sizeof(size_t),
	       "a width is followed by a height");
_Static_assert(offsetof(cuLaunchKernelEx_params, config) ==
		       offsetof(cuLaunchKernelEx_ptsz_params, config),
	       "both variants are alike");
