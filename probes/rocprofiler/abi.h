/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The types and numbers of rocprofiler-sdk 1.x that the tracer uses, declared here so that it is
 * built without ROCm. abi_check.c compares them with the real headers where those are found.
 *
 * The source is rocprofiler-sdk/{fwd,registration,context,buffer,buffer_tracing,
 * callback_tracing,external_correlation,agent}.h of ROCm 7. Before 1.0 (ROCm 6.3 and older) records
 * are laid out differently, so the tracer steps aside for an older library. Invariant: structures
 * of the vendor begin with `size`, which is checked before the rest is read. Memory: none. Threads:
 * any.
 */
#ifndef SK_ROCPROFILER_ABI_H
#define SK_ROCPROFILER_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { SK_ROCP_OLDEST_VERSION = 10000 }; /* 10000 x major + 100 x minor + patch */

enum {
	SK_ROCP_CATEGORY_TRACING = 1,
	SK_ROCP_BUFFER_MEMORY_COPY = 10,
	SK_ROCP_BUFFER_KERNEL_DISPATCH = 11,
	SK_ROCP_CALLBACK_CODE_OBJECT = 10,
	SK_ROCP_CALLBACK_KERNEL_DISPATCH = 12,
	SK_ROCP_CALLBACK_MEMORY_COPY = 13,
	SK_ROCP_EXTERNAL_MEMORY_COPY = 10,
	SK_ROCP_EXTERNAL_KERNEL_DISPATCH = 11,
	SK_ROCP_KERNEL_ENQUEUE = 1,
	SK_ROCP_SYMBOL_REGISTER = 2,
	SK_ROCP_PHASE_ENTER = 1,
	SK_ROCP_PHASE_EXIT = 2,
	SK_ROCP_COPY_HOST_TO_HOST = 1,
	SK_ROCP_COPY_HOST_TO_DEVICE = 2,
	SK_ROCP_COPY_DEVICE_TO_HOST = 3,
	SK_ROCP_COPY_DEVICE_TO_DEVICE = 4,
	SK_ROCP_POLICY_DISCARD = 1,
	SK_ROCP_AGENT_GPU = 2,
	SK_ROCP_AGENT_VERSION_0 = 1,
};

/* The vendor's ids are structures of one word, passed by value, so they are here. */
struct sk_rocp_id {
	uint64_t handle;
};

union sk_rocp_data {
	uint64_t value;
	void *pointer;
};

struct sk_rocp_async_correlation {
	uint64_t internal;
	union sk_rocp_data external;
};

struct sk_rocp_correlation {
	uint64_t internal;
	union sk_rocp_data external;
	uint64_t ancestor;
};

struct sk_rocp_client {
	const char *name;
	uint32_t handle;
};

struct sk_rocp_dispatch {
	uint64_t size;
	struct sk_rocp_id agent;
	struct sk_rocp_id queue;
	uint64_t kernel_id;
	uint64_t dispatch_id;
	uint32_t private_segment;
	uint32_t group_segment;
	uint32_t workgroup[3];
	uint32_t grid[3];
	uint8_t reserved[56];
};
_Static_assert(sizeof(struct sk_rocp_dispatch) == 128, "the vendor promises this size");

struct sk_rocp_kernel_record {
	uint64_t size;
	uint32_t kind;
	uint32_t operation;
	struct sk_rocp_async_correlation correlation;
	uint64_t tid;
	uint64_t start_ns;
	uint64_t end_ns;
	struct sk_rocp_dispatch dispatch;
};
_Static_assert(offsetof(struct sk_rocp_kernel_record, dispatch) == 56, "as in the vendor's header");

struct sk_rocp_copy_record {
	uint64_t size;
	uint32_t kind;
	uint32_t operation;
	struct sk_rocp_async_correlation correlation;
	uint64_t tid;
	uint64_t start_ns;
	uint64_t end_ns;
	struct sk_rocp_id to;
	struct sk_rocp_id from;
	uint64_t bytes;
};
_Static_assert(offsetof(struct sk_rocp_copy_record, bytes) == 72, "as in the vendor's header");

struct sk_rocp_callback_record {
	struct sk_rocp_id context;
	uint64_t tid;
	struct sk_rocp_correlation correlation;
	uint32_t kind;
	int32_t operation;
	uint32_t phase;
	void *payload;
};
_Static_assert(sizeof(struct sk_rocp_callback_record) == 64, "it is passed by value");

struct sk_rocp_kernel_call {
	uint64_t size;
	uint64_t start_ns;
	uint64_t end_ns;
	struct sk_rocp_dispatch dispatch;
};

struct sk_rocp_copy_call {
	uint64_t size;
	uint64_t start_ns;
	uint64_t end_ns;
	struct sk_rocp_id to;
	struct sk_rocp_id from;
	uint64_t bytes;
};

struct sk_rocp_symbol {
	uint64_t size;
	uint64_t kernel_id;
	uint64_t code_object;
	const char *name;
};

struct sk_rocp_header {
	uint32_t category;
	uint32_t kind;
	void *payload;
};

/* The beginning of an agent, up to the last field that is used; words between are not read. */
struct sk_rocp_agent {
	uint64_t size;
	struct sk_rocp_id id;
	uint32_t type;
	uint32_t words[24];
	uint32_t render_minor;
	uint32_t more_words[14];
	uint64_t memory[3];
	uint32_t largest[6];
	const void *lists[3];
	const char *name;
	const char *vendor;
	const char *product;
	const char *model;
	uint32_t node;
	int32_t logical_node;
	int32_t logical_node_of_type;
};
_Static_assert(offsetof(struct sk_rocp_agent, render_minor) == 116, "as in the vendor's header");
_Static_assert(offsetof(struct sk_rocp_agent, name) == 248, "likewise");
_Static_assert(offsetof(struct sk_rocp_agent, logical_node_of_type) == 288, "likewise");

typedef void (*sk_rocp_finalize)(struct sk_rocp_client);

struct sk_rocp_configured {
	size_t size;
	int (*initialize)(sk_rocp_finalize finalize, void *data);
	void (*finalize)(void *data);
	void *data;
};

struct sk_rocp_configured_attach {
	size_t size;
	int (*attach)(void (*detach)(struct sk_rocp_client), struct sk_rocp_id *contexts,
		      uint64_t count, void *data);
	void (*detach)(void *data);
	void *data;
};

typedef void (*sk_rocp_buffer_call)(struct sk_rocp_id context, struct sk_rocp_id buffer,
				    struct sk_rocp_header **headers, size_t count, void *data,
				    uint64_t dropped);
typedef void (*sk_rocp_callback)(struct sk_rocp_callback_record record, union sk_rocp_data *own,
				 void *data);
typedef int (*sk_rocp_external_call)(uint64_t tid, struct sk_rocp_id context, uint32_t kind,
				     int32_t operation, uint64_t internal,
				     union sk_rocp_data *external, void *data);
typedef int (*sk_rocp_agents_call)(uint32_t version, const void **agents, size_t count, void *data);

/* X(name here, the vendor's name after rocprofiler_, parameters); each call returns a status, 0 for
 * success. */
#define SK_ROCP_CALLS(X)                                                                           \
	X(create_context, create_context, (struct sk_rocp_id *))                                   \
	X(start, start_context, (struct sk_rocp_id))                                               \
	X(stop, stop_context, (struct sk_rocp_id))                                                 \
	X(create_buffer, create_buffer,                                                            \
	  (struct sk_rocp_id, size_t, size_t, uint32_t, sk_rocp_buffer_call, void *,               \
	   struct sk_rocp_id *))                                                                   \
	X(flush, flush_buffer, (struct sk_rocp_id))                                                \
	X(buffered, configure_buffer_tracing_service,                                              \
	  (struct sk_rocp_id, uint32_t, const int32_t *, size_t, struct sk_rocp_id))               \
	X(called_back, configure_callback_tracing_service,                                         \
	  (struct sk_rocp_id, uint32_t, const int32_t *, size_t, sk_rocp_callback, void *))        \
	X(external, configure_external_correlation_id_request_service,                             \
	  (struct sk_rocp_id, const uint32_t *, size_t, sk_rocp_external_call, void *))            \
	X(create_thread, create_callback_thread, (struct sk_rocp_id *))                            \
	X(assign_thread, assign_callback_thread, (struct sk_rocp_id, struct sk_rocp_id))           \
	X(agents, query_available_agents, (uint32_t, sk_rocp_agents_call, size_t, void *))         \
	X(timestamp, get_timestamp, (uint64_t *))

struct sk_rocp {
#define SK_ROCP_MEMBER(name, vendor, parameters) int(*name) parameters;
	SK_ROCP_CALLS(SK_ROCP_MEMBER)
#undef SK_ROCP_MEMBER
};

#endif
