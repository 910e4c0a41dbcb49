/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What this tracer uses of Level Zero: types and numbers of its public interface, declared here so
 * that the tracer is built without its headers. abi_check.c holds them against the real ones where
 * those are found (libze-dev).
 *
 * Source of the facts: ze_api.h, layers/zel_tracing_api.h, layers/zel_tracing_register_cb.h and
 * loader/ze_loader.h, versions 1.8 to 1.28. Callbacks get a pointer to each argument of the call,
 * and what they store there is what the driver gets.
 */
#ifndef SK_LEVELZERO_ABI_H
#define SK_LEVELZERO_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct sk_ze_object *sk_ze; /* any handle */

enum {
	SK_ZE_DEVICE_PROPERTIES = 0x00020006, /* with timerResolution in cycles per second */
	SK_ZE_EVENT_POOL_DESC = 0x10,
	SK_ZE_EVENT_DESC = 0x11,
	SK_ZE_POOL_HOST_VISIBLE = 1,
	SK_ZE_POOL_IPC = 2,
	SK_ZE_POOL_TIMESTAMP = 4,
	SK_ZE_SCOPE_HOST = 4,
	SK_ZE_TYPE_GPU = 1,
	SK_ZE_TRACER_DESC = 1,
	SK_ZE_PROLOGUE = 0,
	SK_ZE_EPILOGUE = 1,
	SK_ZE_NAME_BYTES = 256,
};

struct sk_ze_pool_desc {
	uint32_t type;
	const void *next;
	uint32_t flags;
	uint32_t count;
};

struct sk_ze_event_desc {
	uint32_t type;
	const void *next;
	uint32_t index;
	uint32_t signal;
	uint32_t wait;
};

/* `global` is the device's clock, `context` counts while the context is on the device. */
struct sk_ze_stamps {
	uint64_t global_start;
	uint64_t global_end;
	uint64_t context_start;
	uint64_t context_end;
};

struct sk_ze_device_properties {
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
	char name[SK_ZE_NAME_BYTES];
};

struct sk_ze_tracer_desc {
	uint32_t type;
	const void *next;
	void *data;
};

/* zeCommandListAppendLaunchKernel, ...LaunchCooperativeKernel and ...LaunchKernelIndirect. */
struct sk_ze_launch_call {
	sk_ze *list;
	sk_ze *kernel;
	const void **groups;
	sk_ze *signal;
	uint32_t *wait_count;
	sk_ze **waits;
};

/* ...LaunchKernelWithParameters and ...LaunchKernelWithArguments, of newer loaders. */
struct sk_ze_launch_parameters_call {
	sk_ze *list;
	sk_ze *kernel;
	const void **groups;
	const void **next;
	sk_ze *signal;
	uint32_t *wait_count;
	sk_ze **waits;
};

struct sk_ze_launch_arguments_call {
	sk_ze *list;
	sk_ze *kernel;
	const void *groups;
	const void *group_sizes;
	void ***arguments;
	const void **next;
	sk_ze *signal;
	uint32_t *wait_count;
	sk_ze **waits;
};

struct sk_ze_copy_call {
	sk_ze *list;
	void **to;
	const void **from;
	size_t *bytes;
	sk_ze *signal;
	uint32_t *wait_count;
	sk_ze **waits;
};

struct sk_ze_fill_call {
	sk_ze *list;
	void **to;
	const void **pattern;
	size_t *pattern_bytes;
	size_t *bytes;
	sk_ze *signal;
	uint32_t *wait_count;
	sk_ze **waits;
};

struct sk_ze_execute_call {
	sk_ze *queue;
	uint32_t *count;
	sk_ze **lists;
	sk_ze *fence;
};

struct sk_ze_list_create_call {
	sk_ze *context;
	sk_ze *device;
	const void **desc;
	sk_ze **list;
};

struct sk_ze_pool_create_call {
	sk_ze *context;
	const struct sk_ze_pool_desc **desc;
	uint32_t *device_count;
	sk_ze **devices;
	sk_ze **pool;
};

struct sk_ze_event_create_call {
	sk_ze *pool;
	const struct sk_ze_event_desc **desc;
	sk_ze **event;
};

/* Calls with one handle: destroying, resetting. */
struct sk_ze_one_call {
	sk_ze *handle;
};

struct sk_ze_event_reset_call {
	sk_ze *list;
	sk_ze *event;
};

typedef void (*sk_ze_callback)(void *call, int result, void *data, void **own);

/* X(name here, the vendor's name, parameters); each answers 0 for success. */
#define SK_ZE_CALLS(X)                                                                             \
	X(properties, zeDeviceGetProperties, (sk_ze, struct sk_ze_device_properties *))            \
	X(timestamps, zeDeviceGetGlobalTimestamps, (sk_ze, uint64_t *, uint64_t *))                \
	X(pool_create, zeEventPoolCreate,                                                          \
	  (sk_ze, const struct sk_ze_pool_desc *, uint32_t, sk_ze *, sk_ze *))                     \
	X(pool_destroy, zeEventPoolDestroy, (sk_ze))                                               \
	X(event_create, zeEventCreate, (sk_ze, const struct sk_ze_event_desc *, sk_ze *))          \
	X(event_destroy, zeEventDestroy, (sk_ze))                                                  \
	X(event_reset, zeEventHostReset, (sk_ze))                                                  \
	X(event_status, zeEventQueryStatus, (sk_ze))                                               \
	X(event_stamps, zeEventQueryKernelTimestamp, (sk_ze, struct sk_ze_stamps *))               \
	X(kernel_name, zeKernelGetName, (sk_ze, size_t *, char *))                                 \
	X(tracer_create, zelTracerCreate, (const struct sk_ze_tracer_desc *, sk_ze *))             \
	X(tracer_enable, zelTracerSetEnabled, (sk_ze, uint8_t))

struct sk_ze_functions {
#define SK_ZE_MEMBER(name, vendor, parameters) int(*name) parameters;
	SK_ZE_CALLS(SK_ZE_MEMBER)
#undef SK_ZE_MEMBER
};

typedef int (*sk_ze_register)(sk_ze tracer, uint32_t kind, sk_ze_callback callback);

#endif
