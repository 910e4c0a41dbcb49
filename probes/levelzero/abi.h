/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The types and numbers of Level Zero that the tracer uses, declared here so that it is built
 * without its headers. abi_check.c compares them with the real ones where those are found
 * (libze-dev).
 *
 * The source is ze_api.h, layers/zel_tracing_api.h, layers/zel_tracing_register_cb.h and
 * loader/ze_loader.h, versions 1.8 to 1.28. A callback gets a pointer to each argument of the call,
 * and the driver gets what the callback stores there. Memory: none. Threads: any.
 */
#ifndef SK_LEVELZERO_ABI_H
#define SK_LEVELZERO_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct sk_levelzero_object *sk_levelzero_handle; /* any handle */

enum {
	SK_LEVELZERO_DEVICE_PROPERTIES =
		0x00020006, /* in this version timerResolution is in cycles per second */
	SK_LEVELZERO_EVENT_POOL_DESC = 0x10,
	SK_LEVELZERO_EVENT_DESC = 0x11,
	SK_LEVELZERO_POOL_HOST_VISIBLE = 1,
	SK_LEVELZERO_POOL_IPC = 2,
	SK_LEVELZERO_POOL_TIMESTAMP = 4,
	SK_LEVELZERO_SCOPE_HOST = 4,
	SK_LEVELZERO_TYPE_GPU = 1,
	SK_LEVELZERO_TRACER_DESC = 1,
	SK_LEVELZERO_PROLOGUE = 0,
	SK_LEVELZERO_EPILOGUE = 1,
	SK_LEVELZERO_NAME_BYTES = 256,
};

struct sk_levelzero_pool_desc {
	uint32_t type;
	const void *next;
	uint32_t flags;
	uint32_t count;
};

struct sk_levelzero_event_desc {
	uint32_t type;
	const void *next;
	uint32_t index;
	uint32_t signal;
	uint32_t wait;
};

/* `global` counts by the device's clock, `context` only while the context is on the device. */
struct sk_levelzero_stamps {
	uint64_t global_start;
	uint64_t global_end;
	uint64_t context_start;
	uint64_t context_end;
};

struct sk_levelzero_device_properties {
	uint32_t type;
	void *next;
	uint32_t device_type;
	uint32_t vendor;
	uint32_t device;
	uint32_t flags;
	uint32_t subdevice;
	uint32_t core_clock;
	uint64_t largest;
	uint32_t words[7];
	uint64_t timer_hz;
	uint32_t timestamp_bits;
	uint32_t kernel_timestamp_bits;
	uint8_t uuid[16];
	char name[SK_LEVELZERO_NAME_BYTES];
};

struct sk_levelzero_tracer_desc {
	uint32_t type;
	const void *next;
	void *data;
};

/* The parameters of zeCommandListAppendLaunchKernel, ...LaunchCooperativeKernel and
 * ...LaunchKernelIndirect. */
struct sk_levelzero_launch_call {
	sk_levelzero_handle *list;
	sk_levelzero_handle *kernel;
	const void **groups;
	sk_levelzero_handle *signal;
	uint32_t *wait_count;
	sk_levelzero_handle **waits;
};

/* The parameters of ...LaunchKernelWithParameters and ...LaunchKernelWithArguments, which newer
 * loaders have. */
struct sk_levelzero_launch_parameters_call {
	sk_levelzero_handle *list;
	sk_levelzero_handle *kernel;
	const void **groups;
	const void **next;
	sk_levelzero_handle *signal;
	uint32_t *wait_count;
	sk_levelzero_handle **waits;
};

struct sk_levelzero_launch_arguments_call {
	sk_levelzero_handle *list;
	sk_levelzero_handle *kernel;
	const void *groups;
	const void *group_sizes;
	void ***arguments;
	const void **next;
	sk_levelzero_handle *signal;
	uint32_t *wait_count;
	sk_levelzero_handle **waits;
};

struct sk_levelzero_copy_call {
	sk_levelzero_handle *list;
	void **to;
	const void **from;
	size_t *bytes;
	sk_levelzero_handle *signal;
	uint32_t *wait_count;
	sk_levelzero_handle **waits;
};

struct sk_levelzero_fill_call {
	sk_levelzero_handle *list;
	void **to;
	const void **pattern;
	size_t *pattern_bytes;
	size_t *bytes;
	sk_levelzero_handle *signal;
	uint32_t *wait_count;
	sk_levelzero_handle **waits;
};

struct sk_levelzero_execute_call {
	sk_levelzero_handle *queue;
	uint32_t *count;
	sk_levelzero_handle **lists;
	sk_levelzero_handle *fence;
};

struct sk_levelzero_list_create_call {
	sk_levelzero_handle *context;
	sk_levelzero_handle *device;
	const void **desc;
	sk_levelzero_handle **list;
};

struct sk_levelzero_pool_create_call {
	sk_levelzero_handle *context;
	const struct sk_levelzero_pool_desc **desc;
	uint32_t *device_count;
	sk_levelzero_handle **devices;
	sk_levelzero_handle **pool;
};

struct sk_levelzero_event_create_call {
	sk_levelzero_handle *pool;
	const struct sk_levelzero_event_desc **desc;
	sk_levelzero_handle **event;
};

/* The parameters of calls with one handle, which destroy or reset it. */
struct sk_levelzero_one_call {
	sk_levelzero_handle *handle;
};

struct sk_levelzero_event_reset_call {
	sk_levelzero_handle *list;
	sk_levelzero_handle *event;
};

typedef void (*sk_levelzero_callback)(void *call, int result, void *data, void **own);

/* X(name here, the vendor's name, parameters); each call returns 0 for success. */
#define SK_LEVELZERO_CALLS(X)                                                                      \
	X(properties, zeDeviceGetProperties,                                                       \
	  (sk_levelzero_handle, struct sk_levelzero_device_properties *))                          \
	X(timestamps, zeDeviceGetGlobalTimestamps, (sk_levelzero_handle, uint64_t *, uint64_t *))  \
	X(pool_create, zeEventPoolCreate,                                                          \
	  (sk_levelzero_handle, const struct sk_levelzero_pool_desc *, uint32_t,                   \
	   sk_levelzero_handle *, sk_levelzero_handle *))                                          \
	X(pool_destroy, zeEventPoolDestroy, (sk_levelzero_handle))                                 \
	X(event_create, zeEventCreate,                                                             \
	  (sk_levelzero_handle, const struct sk_levelzero_event_desc *, sk_levelzero_handle *))    \
	X(event_destroy, zeEventDestroy, (sk_levelzero_handle))                                    \
	X(event_reset, zeEventHostReset, (sk_levelzero_handle))                                    \
	X(event_status, zeEventQueryStatus, (sk_levelzero_handle))                                 \
	X(event_stamps, zeEventQueryKernelTimestamp,                                               \
	  (sk_levelzero_handle, struct sk_levelzero_stamps *))                                     \
	X(kernel_name, zeKernelGetName, (sk_levelzero_handle, size_t *, char *))                   \
	X(tracer_create, zelTracerCreate,                                                          \
	  (const struct sk_levelzero_tracer_desc *, sk_levelzero_handle *))                        \
	X(tracer_enable, zelTracerSetEnabled, (sk_levelzero_handle, uint8_t))

struct sk_levelzero_functions {
#define SK_LEVELZERO_MEMBER(name, vendor, parameters) int(*name) parameters;
	SK_LEVELZERO_CALLS(SK_LEVELZERO_MEMBER)
#undef SK_LEVELZERO_MEMBER
};

typedef int (*sk_levelzero_register)(sk_levelzero_handle tracer, uint32_t kind,
				     sk_levelzero_callback callback);

#endif
