/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated libcupti.so.13 (SIM) over the simulated CUDA driver. It has what the CUPTI tracer
 * calls: one subscriber, callbacks by id, and records in the client's buffers, whose stamps are put
 * on the client's clock when a buffer is handed over. It has no metrics and no runtime API. It is
 * compiled against NVIDIA's own headers, so that its records have NVIDIA's layout.
 *
 * As in the real library, a buffer belongs to one thread. It is handed over when it is full or on
 * request, once all its records are complete. A forced flush hands over incomplete records as well,
 * with an end of 0. Launched work gets its record even if its kind is disabled meanwhile.
 *
 * Variables of the environment:
 *   SIM_CUPTI_CALL_NS    time of each callback
 *   SIM_CUPTI_RECORD_NS  time that a record adds to a call
 *   SIM_CUPTI_WORKER_NS  a thread of the library hands over full buffers, each after this time;
 *                        a flush neither takes one of these nor waits for it
 *   SIM_CUPTI_VERSION    the answer of cuptiGetVersion
 *   SIM_CUPTI_HOLDER     the name of another tool that has already subscribed
 */
#include "sim/cuda/told.h"
#include "sim/cupti/layouts.h"

#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT const char stoker_sim_driver[] = "SIM cupti";

enum { IDS = 1024, KINDS = 64, BUFFERS = 1024 };

struct buffer {
	uint8_t *memory;
	size_t size;
	size_t used;
	uint64_t complete_at; /* in the clock of the device */
	int full;
};

static CUpti_CallbackFunc subscriber;
static char subscriber_name[64];
static void *subscriber_data;
static uint8_t called[3][IDS], kinds[KINDS];
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static CUpti_TimestampCallbackFunc timestamp;
static size_t dropped;
static struct buffer buffers[BUFFERS];
static int buffers_used;
static _Thread_local int mine; /* index of this thread's buffer + 1; 0: none */
static _Thread_local uint64_t mine_of;
static uint64_t generation = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t worker;

static uint64_t (*device_now)(void); /* NULL: no simulated driver yet */
static uint64_t call_ns, record_ns, worker_ns;

static uint64_t setting(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : 0;
}

/* Keep this thread busy for a time. */
static void spin(uint64_t ns)
{
	uint64_t until = ns ? device_now() + ns : 0;

	while (ns && device_now() < until)
		;
}

static uint64_t stamp(void)
{
	struct timespec time;

	if (timestamp)
		return timestamp();
	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static size_t size_of(CUpti_ActivityKind kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		return sizeof(CUpti_ActivityKernel13);
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		return sizeof(CUpti_ActivityMemcpy7);
	case CUPTI_ACTIVITY_KIND_MEMSET:
		return sizeof(CUpti_ActivityMemset5);
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		return sizeof(CUpti_ActivityGraphTrace2);
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		return sizeof(CUpti_ActivitySynchronization2);
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
		return sizeof(CUpti_ActivityOverhead3);
	default:
		return 0;
	}
}

static void on_call(uint32_t domain, uint32_t cbid, const void *data)
{
	CUpti_CallbackFunc function = subscriber;

	if (!function || domain >= 3 || cbid >= IDS || !called[domain][cbid])
		return;
	spin(call_ns);
	function(subscriber_data, (CUpti_CallbackDomain)domain, cbid, data);
}

/* Find room for a record in this thread's buffer, or NULL; called with the lock held. */
static void *reserve(CUpti_ActivityKind kind, uint64_t complete_at)
{
	size_t size = size_of(kind), most = 0;
	struct buffer *buffer = mine && mine_of == generation ? &buffers[mine - 1] : NULL;

	if (buffer && (!buffer->memory || buffer->full))
		buffer = NULL;
	if (buffer && buffer->used + size > buffer->size) {
		buffer->full = 1;
		buffer = NULL;
	}
	if (!buffer) {
		struct buffer made = {0};

		if (request)
			request(&made.memory, &made.size, &most);
		for (mine = 1; made.memory && mine <= BUFFERS && buffers[mine - 1].memory; mine++)
			;
		if (!made.memory || mine > BUFFERS) {
			mine = 0;
			dropped++;
			return NULL;
		}
		mine_of = generation;
		buffer = &buffers[mine - 1];
		*buffer = made;
		buffers_used = mine > buffers_used ? mine : buffers_used;
	}
	void *record = buffer->memory + buffer->used;

	buffer->used += size;
	if (complete_at > buffer->complete_at)
		buffer->complete_at = complete_at;
	return record;
}

#define FILL(type, ...)                                                                            \
	do {                                                                                       \
		type *record = reserve((CUpti_ActivityKind)work->kind, work->end);                 \
                                                                                                   \
		if (record)                                                                        \
			*record = (type){__VA_ARGS__};                                             \
	} while (0)

#define COMMON                                                                                     \
	.kind = (CUpti_ActivityKind)work->kind, .start = work->start, .end = work->end,            \
	.deviceId = work->device, .contextId = work->context, .streamId = work->stream,            \
	.correlationId = work->correlation, .graphId = work->graph

static void on_work(const struct sk_cuda_work *work)
{
	if (kinds[work->kind])
		spin(record_ns);
	pthread_mutex_lock(&lock);
	if (kinds[work->kind] && work->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
		FILL(CUpti_ActivityKernel13, COMMON, .name = work->name);
	else if (kinds[work->kind] && work->kind == CUPTI_ACTIVITY_KIND_MEMCPY)
		FILL(CUpti_ActivityMemcpy7, COMMON, .bytes = work->bytes,
		     .copyKind = work->copy_kind);
	else if (kinds[work->kind] && work->kind == CUPTI_ACTIVITY_KIND_MEMSET)
		FILL(CUpti_ActivityMemset5, COMMON, .bytes = work->bytes);
	else if (kinds[work->kind] && work->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
		FILL(CUpti_ActivityGraphTrace2, COMMON);
	pthread_mutex_unlock(&lock);
}

static void on_wait(const struct sk_cuda_waited *wait)
{
	uint64_t end = stamp();
	CUpti_ActivitySynchronization2 *record;

	pthread_mutex_lock(&lock);
	if (kinds[CUPTI_ACTIVITY_KIND_SYNCHRONIZATION] &&
	    (record = reserve(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 0)))
		*record = (CUpti_ActivitySynchronization2){
			.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
			.type = (CUpti_ActivitySynchronizationType)wait->kind,
			.start = end - wait->took_ns,
			.end = end,
			.correlationId = wait->correlation,
			.contextId = wait->context,
			.streamId = wait->stream,
		};
	pthread_mutex_unlock(&lock);
}

static int wants_graphs(void)
{
	return kinds[CUPTI_ACTIVITY_KIND_GRAPH_TRACE];
}

/* Convert device stamps to the client's clock, by one pair of readings of both. */
static void place(uint64_t *start, uint64_t *end, uint64_t device, uint64_t host)
{
	*end = *end > device ? 0 : host - (device - *end);
	*start = *end ? host - (device - *start) : 0;
}

#define PLACE(type)                                                                                \
	do {                                                                                       \
		type *record = (void *)at;                                                         \
		uint64_t start = record->start, end = record->end;                                 \
                                                                                                   \
		place(&start, &end, device, host);                                                 \
		record->start = start;                                                             \
		record->end = end;                                                                 \
	} while (0)

static void hand_over(struct buffer *buffer)
{
	uint64_t device = device_now(), host = stamp();
	uint8_t *at = buffer->memory, *end = at + buffer->used;

	for (; at < end; at += size_of(((CUpti_Activity *)at)->kind))
		switch (((CUpti_Activity *)at)->kind) {
		case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
			PLACE(CUpti_ActivityKernel13);
			break;
		case CUPTI_ACTIVITY_KIND_MEMCPY:
			PLACE(CUpti_ActivityMemcpy7);
			break;
		case CUPTI_ACTIVITY_KIND_MEMSET:
			PLACE(CUpti_ActivityMemset5);
			break;
		case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
			PLACE(CUpti_ActivityGraphTrace2);
			break;
		default:
			break;
		}
	complete(NULL, 0, buffer->memory, buffer->size, buffer->used);
}

static int is_wanted(const struct buffer *buffer, int only_full)
{
	return buffer->memory && buffer->used &&
	       (buffer->full ? only_full || !worker_ns : !only_full);
}

static void flush(int only_full, int forced)
{
	for (int i = 0; i < buffers_used; i++) {
		struct buffer buffer = {0};

		pthread_mutex_lock(&lock);
		if (is_wanted(&buffers[i], only_full) &&
		    (forced || buffers[i].complete_at <= device_now())) {
			buffer = buffers[i];
			buffers[i] = (struct buffer){0};
		}
		pthread_mutex_unlock(&lock);
		if (buffer.memory && only_full && worker_ns)
			nanosleep(&(struct timespec){(time_t)(worker_ns / 1000000000u),
						     (long)(worker_ns % 1000000000u)},
				  NULL);
		if (buffer.memory)
			hand_over(&buffer);
	}
}

static void *work(void *unused)
{
	struct timespec pause = {0, 5000000};

	for (;;) {
		nanosleep(&pause, NULL);
		flush(1, 0);
	}
	return NULL;
}

/* Connect to the driver of the process, as the real library does; false for a real driver. */
static int connect_driver(void)
{
	static const struct sk_cuda_listener listener = {on_call, on_work, on_wait, wants_graphs};
	void (*listen)(const struct sk_cuda_listener *);
	uint64_t (*now)(void);
	void *library;

	if (device_now)
		return 1;
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	listen = library ? (void (*)(const struct sk_cuda_listener *))dlsym(
				   library, "stoker_sim_cuda_listen")
			 : NULL;
	now = listen ? (uint64_t(*)(void))dlsym(library, "stoker_sim_cuda_now") : NULL;
	if (!now)
		return 0;
	call_ns = setting("SIM_CUPTI_CALL_NS");
	record_ns = setting("SIM_CUPTI_RECORD_NS");
	worker_ns = setting("SIM_CUPTI_WORKER_NS");
	device_now = now;
	listen(&listener);
	return 1;
}

EXPORT CUptiResult cuptiGetVersion(uint32_t *version)
{
	const char *text = getenv("SIM_CUPTI_VERSION");

	*version = text ? (uint32_t)atoi(text) : CUPTI_API_VERSION;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	*text = result ? "SIM error" : "SIM success";
	return CUPTI_SUCCESS;
}

static CUptiResult take_place(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc function,
			      void *data, const char *name)
{
	if (!connect_driver())
		return CUPTI_ERROR_NOT_INITIALIZED;
	if (subscriber || getenv("SIM_CUPTI_HOLDER"))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	subscriber_data = data;
	subscriber = function;
	strncpy(subscriber_name, name, sizeof(subscriber_name) - 1);
	*handle = (CUpti_SubscriberHandle)&subscriber;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc function,
				  void *data)
{
	return take_place(handle, function, data, "a program");
}

EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc function,
				     void *data, CUpti_SubscriberParams *params)
{
	const char *holder = getenv("SIM_CUPTI_HOLDER");
	CUptiResult error = take_place(handle, function, data,
				       params->subscriberName ? params->subscriberName : "");

	if (error == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED && params->oldSubscriberName)
		strncpy(params->oldSubscriberName, holder ? holder : subscriber_name,
			params->oldSubscriberSize - 1);
	return error;
}

EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
	subscriber = NULL;
	memset(called, 0, sizeof(called));
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
				       CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	if (!subscriber || domain >= 3 || cbid >= IDS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	called[domain][cbid] = (uint8_t)enable;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	const char *refused = getenv("SIM_CUPTI_REFUSES");

	if (refused && atoi(refused) == (int)kind)
		return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
	if (!connect_driver())
		return CUPTI_ERROR_NOT_INITIALIZED;
	kinds[kind] = 1;
	if (!worker)
		pthread_create(&worker, NULL, work, NULL);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	kinds[kind] = 0;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc on_request,
						  CUpti_BuffersCallbackCompleteFunc on_complete)
{
	request = on_request;
	complete = on_complete;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function)
{
	timestamp = function;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *size,
					     void *value)
{
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
					      CUpti_Activity **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + size_of((*record)->kind) : buffer;

	if (next >= buffer + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)next;
	return size_of((*record)->kind) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}

EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	flush(0, flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
						     size_t *count)
{
	pthread_mutex_lock(&lock);
	*count = dropped;
	dropped = 0;
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t enable)
{
	return CUPTI_SUCCESS;
}
