/* SPDX-License-Identifier: Apache-2.0 */
/* SIM: a libcuda.so.1 without a device. It has two GPUs, streams that run one piece of work after
 * the other, graphs by capture, and the injection of CUDA_INJECTION64_PATH at cuInit.
 *
 * A kernel lasts as many ns as its grid is wide, a copy a quarter of a ns for each byte. Waiting
 * sleeps. SIM_CUDA_LAUNCH_NS is the host's time that the driver takes for each piece of work. With
 * SIM_CUDA_STRAY one piece of work in so many has an id that no call has.
 */
#include "sim/cuda/told.h"

#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

#define DEVICE_CLOCK                                                                               \
	INT64_C(123456789012345678) /* ns that the device's clock is ahead of CLOCK_MONOTONIC */

EXPORT const char stoker_sim_driver[] = "SIM"; /* the ids of its devices for a tracer */

enum { DEVICES = 2, NODES_MAX = 256 };

struct CUctx_st {
	uint32_t id;
	int device;
	struct CUstream_st *null;
};

struct CUstream_st {
	uint32_t id;
	struct CUctx_st *context;
	_Atomic uint64_t free_at; /* CLOCK_MONOTONIC */
	struct CUgraph_st *capture;
};

struct CUfunc_st {
	char name[256];
};

struct CUgraph_st {
	uint32_t id;
	unsigned count;
	struct {
		struct CUfunc_st *function;
		unsigned grid;
	} nodes[NODES_MAX];
};

struct CUevent_st {
	uint64_t at;
};

static _Atomic uint32_t ids, correlations;
static _Thread_local struct CUctx_st *current;
static _Thread_local uint32_t runtime_correlation;
static const struct sk_cuda_listener silence;
static _Atomic(const struct sk_cuda_listener *) listener = &silence;
static struct CUctx_st *primary[DEVICES];
static int initialized;
static uint64_t launch_ns, stray, told;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT void stoker_sim_cuda_listen(const struct sk_cuda_listener *wanted)
{
	listener = wanted;
}

static uint64_t sim_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

EXPORT uint64_t stoker_sim_cuda_now(void)
{
	return sim_now() + DEVICE_CLOCK;
}

static uint64_t setting(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : 0;
}

static void spin(uint64_t ns)
{
	uint64_t until = ns ? sim_now() + ns : 0;

	while (ns && sim_now() < until)
		;
}

static void sleep_until(uint64_t at)
{
	struct timespec time = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};

	if (at > sim_now())
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

/* A call of the API as CUPTI sees it. */
struct call {
	CUpti_CallbackDomain domain;
	uint32_t cbid;
	CUpti_CallbackData data;
	uint64_t shared;
	CUresult result;
};

static void enter(struct call *call, CUpti_CallbackDomain domain, uint32_t cbid, const char *name,
		  const void *arguments, const char *symbol)
{
	memset(call, 0, sizeof(*call));
	call->domain = domain;
	call->cbid = cbid;
	call->data = (CUpti_CallbackData){
		.callbackSite = CUPTI_API_ENTER,
		.functionName = name,
		.functionParams = arguments,
		.symbolName = symbol,
		.context = current,
		.contextUid = current ? current->id : 0,
		.correlationData = &call->shared,
		.correlationId = atomic_fetch_add(&correlations, 1) + 1,
	};
	if (listener->on_call)
		listener->on_call(call->domain, cbid, &call->data);
}

static CUresult leave(struct call *call, CUresult result)
{
	call->result = result;
	call->data.callbackSite = CUPTI_API_EXIT;
	call->data.functionReturnValue = &call->result;
	if (listener->on_call)
		listener->on_call(call->domain, call->cbid, &call->data);
	return result;
}

#define ENTER(name, symbol, ...)                                                                   \
	struct call call;                                                                          \
	name##_params arguments = {__VA_ARGS__};                                                   \
                                                                                                   \
	if (!initialized || !current)                                                              \
		return initialized ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;      \
	enter(&call, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name, #name,            \
	      &arguments, symbol)

static struct CUstream_st *stream_of(CUstream stream)
{
	return stream && stream != CU_STREAM_PER_THREAD && stream != CU_STREAM_LEGACY
		       ? stream
		       : current->null;
}

/* Put work behind all other work of the stream; `ret` is filled, except for the kind of work. */
static void run(struct CUstream_st *stream, uint64_t ns, struct sk_cuda_work *ret)
{
	spin(launch_ns);
	uint64_t begin = sim_now() + 500;

	pthread_mutex_lock(&lock);
	begin = stream->free_at > begin ? stream->free_at : begin;
	stream->free_at = begin + ns;
	pthread_mutex_unlock(&lock);
	ret->start = begin + DEVICE_CLOCK;
	ret->end = begin + ns + DEVICE_CLOCK;
	ret->context = stream->context->id;
	ret->stream = stream->id;
	ret->device = (uint32_t)stream->context->device;
}

static void tell(struct sk_cuda_work *work)
{
	if (stray && ++told % stray == 0)
		work->correlation = atomic_fetch_add(&correlations, 1) + 1;
	if (listener->on_work)
		listener->on_work(work);
}

static struct CUstream_st *make_stream(struct CUctx_st *context)
{
	struct CUstream_st *stream = calloc(1, sizeof(*stream));

	stream->id = atomic_fetch_add(&ids, 1) + 7;
	stream->context = context;
	return stream;
}

static struct CUctx_st *make_context(int device)
{
	struct CUctx_st *context = calloc(1, sizeof(*context));

	context->id = atomic_fetch_add(&ids, 1) + 1;
	context->device = device;
	context->null = make_stream(context);
	return context;
}

EXPORT CUresult cuInit(unsigned int flags)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	int (*initialize)(void);
	void *library;

	pthread_mutex_lock(&lock);
	int first = !initialized;

	initialized = 1;
	launch_ns = setting("SIM_CUDA_LAUNCH_NS");
	stray = setting("SIM_CUDA_STRAY");
	pthread_mutex_unlock(&lock);
	if (first && path) {
		library = dlopen(path, RTLD_NOW);
		initialize = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
		if (initialize)
			initialize();
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	struct call call;

	*version = 13050;
	enter(&call, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion,
	      "cuDriverGetVersion", NULL, NULL);
	return leave(&call, CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	*count = DEVICES;
	return initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return ordinal < DEVICES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	strncpy(name, device ? "SIM GPU 1" : "SIM GPU 0", (size_t)length);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	*value = attribute == CU_DEVICE_ATTRIBUTE_CLOCK_RATE ? 1000000 : 0;
	return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	memset(uuid, 0x51 + device, sizeof(*uuid));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	return cuDeviceGetUuid(uuid, device);
}

#undef cuCtxCreate
EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	current = *context = make_context(device);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	pthread_mutex_lock(&lock);
	if (!primary[device])
		primary[device] = make_context(device);
	*context = primary[device];
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	current = context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = current->device;
	return CUDA_SUCCESS;
}

static CUresult wait_for(struct call *call, CUpti_ActivitySynchronizationType type,
			 struct CUstream_st *stream)
{
	uint64_t from = sim_now();

	sleep_until(stream->free_at);
	if (listener->on_wait)
		listener->on_wait(&(struct sk_cuda_waited){type, sim_now() - from,
							   call->data.correlationId,
							   stream->context->id, stream->id});
	return leave(call, CUDA_SUCCESS);
}

#undef cuCtxSynchronize
EXPORT CUresult cuCtxSynchronize(void)
{
	struct call call;

	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	enter(&call, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize,
	      "cuCtxSynchronize", NULL, NULL);
	return wait_for(&call, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE,
			current->null);
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	*stream = make_stream(current);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	ENTER(cuStreamSynchronize, NULL, stream);
	return wait_for(&call, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE,
			stream_of(stream));
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	*status = stream_of(stream)->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE
					     : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	*module = (CUmodule)image;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	struct CUfunc_st *made = calloc(1, sizeof(*made));

	strncpy(made->name, name, sizeof(made->name) - 1);
	*function = made;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
			       unsigned int gridDimZ, unsigned int blockDimX,
			       unsigned int blockDimY, unsigned int blockDimZ,
			       unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
			       void **extra)
{
	struct sk_cuda_work work = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};

	ENTER(cuLaunchKernel, f->name, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
	      blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
	struct CUstream_st *stream = stream_of(hStream);

	if (!gridDimX)
		return leave(&call, CUDA_ERROR_INVALID_VALUE);
	if (stream->capture) {
		stream->capture->nodes[stream->capture->count].function = f;
		stream->capture->nodes[stream->capture->count++].grid = gridDimX;
		return leave(&call, CUDA_SUCCESS);
	}
	run(stream, gridDimX, &work);
	work.name = f->name;
	work.correlation = runtime_correlation ? runtime_correlation : call.data.correlationId;
	tell(&work);
	return leave(&call, CUDA_SUCCESS);
}

/* Make a call as the runtime does, around the driver's. The record carries the runtime's id, or
 * with SIM_CUDA_DRIVER_IDS the driver's. */
EXPORT CUresult sim_runtime_launch(CUfunction function, unsigned grid, CUstream stream)
{
	struct call call;
	CUresult result;

	enter(&call, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
	      "cudaLaunchKernel", NULL, function->name);
	runtime_correlation = getenv("SIM_CUDA_DRIVER_IDS") ? 0 : call.data.correlationId;
	result = cuLaunchKernel(function, grid, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	runtime_correlation = 0;
	return leave(&call, result);
}

#undef cuMemAlloc
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes)
{
	*at = (CUdeviceptr)malloc(bytes);
	return CUDA_SUCCESS;
}

#undef cuMemFree
EXPORT CUresult cuMemFree_v2(CUdeviceptr at)
{
	free((void *)at);
	return CUDA_SUCCESS;
}

static CUresult copy(struct call *call, CUstream on, void *to, const void *from, size_t bytes,
		     uint8_t kind, int wait)
{
	struct sk_cuda_work work = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY};
	struct CUstream_st *stream = stream_of(on);

	if (bytes) {
		memcpy(to, from, bytes);
		run(stream, bytes / 4 + 1, &work);
		work.bytes = bytes;
		work.copy_kind = kind;
		work.correlation = call->data.correlationId;
		tell(&work);
		if (wait)
			sleep_until(stream->free_at);
	}
	return leave(call, CUDA_SUCCESS);
}

#undef cuMemcpyHtoD
EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	ENTER(cuMemcpyHtoD_v2, NULL, to, from, bytes);
	return copy(&call, NULL, (void *)to, from, bytes, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 1);
}

#undef cuMemcpyDtoH
EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	ENTER(cuMemcpyDtoH_v2, NULL, to, from, bytes);
	return copy(&call, NULL, to, (void *)from, bytes, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, 1);
}

#undef cuMemcpyHtoDAsync
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
				     CUstream stream)
{
	ENTER(cuMemcpyHtoDAsync_v2, NULL, to, from, bytes, stream);
	return copy(&call, stream, (void *)to, from, bytes, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 0);
}

#undef cuMemcpyDtoDAsync
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
				     CUstream stream)
{
	ENTER(cuMemcpyDtoDAsync_v2, NULL, to, from, bytes, stream);
	return copy(&call, stream, (void *)to, (void *)from, bytes, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD,
		    0);
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream on)
{
	struct sk_cuda_work work = {.kind = CUPTI_ACTIVITY_KIND_MEMSET};

	ENTER(cuMemsetD32Async, NULL, to, value, count, on);
	for (size_t i = 0; i < count; i++)
		((unsigned *)to)[i] = value;
	run(stream_of(on), count + 1, &work);
	work.bytes = count * sizeof(value);
	work.correlation = call.data.correlationId;
	tell(&work);
	return leave(&call, CUDA_SUCCESS);
}

#undef cuStreamBeginCapture
EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	ENTER(cuStreamBeginCapture_v2, NULL, stream, mode);
	stream->capture = calloc(1, sizeof(*stream->capture));
	stream->capture->id = atomic_fetch_add(&ids, 1) + 1;
	return leave(&call, CUDA_SUCCESS);
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	*graph = stream->capture;
	stream->capture = NULL;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret, CUgraph graph,
					    unsigned long long flags)
{
	*ret = (CUgraphExec)graph;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
	struct CUgraph_st *graph = (struct CUgraph_st *)hGraph;
	struct sk_cuda_work whole = {.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE}, work;
	int as_one = listener->wants_graphs && listener->wants_graphs();

	ENTER(cuGraphLaunch, NULL, hGraph, hStream);
	for (unsigned i = 0; i < graph->count; i++) {
		work = (struct sk_cuda_work){.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
		run(stream_of(hStream), graph->nodes[i].grid, &work);
		work.name = graph->nodes[i].function->name;
		work.correlation = call.data.correlationId;
		work.graph = graph->id;
		if (!as_one)
			tell(&work);
		if (!i)
			whole.start = work.start;
	}
	if (as_one && graph->count) {
		work.kind = whole.kind;
		work.start = whole.start;
		tell(&work);
	}
	return leave(&call, CUDA_SUCCESS);
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	*event = calloc(1, sizeof(**event));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	uint64_t now = sim_now(), free_at = stream_of(stream)->free_at;

	event->at = free_at > now ? free_at : now;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
	sleep_until(event->at);
	return CUDA_SUCCESS;
}

#undef cuEventElapsedTime
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	*ms = (float)((double)(to->at - from->at) / 1e6);
	return CUDA_SUCCESS;
}
