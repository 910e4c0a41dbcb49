/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of abi.h with the real headers of rocprofiler-sdk, where the build has found them:
 * a number or an offset that differs stops the build. It contains no code. */
#include "rocprofiler/abi.h"

#include <rocprofiler-sdk/registration.h>
#include <rocprofiler-sdk/rocprofiler.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
#define PLACE(ours, member, theirs, name)                                                          \
	_Static_assert(offsetof(ours, member) == offsetof(theirs, name), #theirs "." #name)

SAME(SK_ROCP_CATEGORY_TRACING, ROCPROFILER_BUFFER_CATEGORY_TRACING);
SAME(SK_ROCP_BUFFER_MEMORY_COPY, ROCPROFILER_BUFFER_TRACING_MEMORY_COPY);
SAME(SK_ROCP_BUFFER_KERNEL_DISPATCH, ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH);
SAME(SK_ROCP_CALLBACK_CODE_OBJECT, ROCPROFILER_CALLBACK_TRACING_CODE_OBJECT);
SAME(SK_ROCP_CALLBACK_KERNEL_DISPATCH, ROCPROFILER_CALLBACK_TRACING_KERNEL_DISPATCH);
SAME(SK_ROCP_CALLBACK_MEMORY_COPY, ROCPROFILER_CALLBACK_TRACING_MEMORY_COPY);
SAME(SK_ROCP_EXTERNAL_MEMORY_COPY, ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_MEMORY_COPY);
SAME(SK_ROCP_EXTERNAL_KERNEL_DISPATCH, ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_KERNEL_DISPATCH);
SAME(SK_ROCP_KERNEL_ENQUEUE, ROCPROFILER_KERNEL_DISPATCH_ENQUEUE);
SAME(SK_ROCP_SYMBOL_REGISTER, ROCPROFILER_CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER);
SAME(SK_ROCP_PHASE_ENTER, ROCPROFILER_CALLBACK_PHASE_ENTER);
SAME(SK_ROCP_PHASE_EXIT, ROCPROFILER_CALLBACK_PHASE_EXIT);
SAME(SK_ROCP_COPY_HOST_TO_HOST, ROCPROFILER_MEMORY_COPY_HOST_TO_HOST);
SAME(SK_ROCP_COPY_HOST_TO_DEVICE, ROCPROFILER_MEMORY_COPY_HOST_TO_DEVICE);
SAME(SK_ROCP_COPY_DEVICE_TO_HOST, ROCPROFILER_MEMORY_COPY_DEVICE_TO_HOST);
SAME(SK_ROCP_COPY_DEVICE_TO_DEVICE, ROCPROFILER_MEMORY_COPY_DEVICE_TO_DEVICE);
SAME(SK_ROCP_POLICY_DISCARD, ROCPROFILER_BUFFER_POLICY_DISCARD);
SAME(SK_ROCP_AGENT_GPU, ROCPROFILER_AGENT_TYPE_GPU);
SAME(SK_ROCP_AGENT_VERSION_0, ROCPROFILER_AGENT_INFO_VERSION_0);

typedef struct sk_rocp_kernel_record kernel_record;
typedef rocprofiler_buffer_tracing_kernel_dispatch_record_t their_kernel_record;
PLACE(kernel_record, kind, their_kernel_record, kind);
PLACE(kernel_record, correlation, their_kernel_record, correlation_id);
PLACE(kernel_record, tid, their_kernel_record, thread_id);
PLACE(kernel_record, start_ns, their_kernel_record, start_timestamp);
PLACE(kernel_record, end_ns, their_kernel_record, end_timestamp);
PLACE(kernel_record, dispatch, their_kernel_record, dispatch_info);

typedef struct sk_rocp_copy_record copy_record;
typedef rocprofiler_buffer_tracing_memory_copy_record_t their_copy_record;
PLACE(copy_record, operation, their_copy_record, operation);
PLACE(copy_record, tid, their_copy_record, thread_id);
PLACE(copy_record, start_ns, their_copy_record, start_timestamp);
PLACE(copy_record, to, their_copy_record, dst_agent_id);
PLACE(copy_record, from, their_copy_record, src_agent_id);
PLACE(copy_record, bytes, their_copy_record, bytes);

typedef struct sk_rocp_dispatch dispatch;
PLACE(dispatch, agent, rocprofiler_kernel_dispatch_info_t, agent_id);
PLACE(dispatch, queue, rocprofiler_kernel_dispatch_info_t, queue_id);
PLACE(dispatch, kernel_id, rocprofiler_kernel_dispatch_info_t, kernel_id);

typedef struct sk_rocp_kernel_call kernel_call;
PLACE(kernel_call, dispatch, rocprofiler_callback_tracing_kernel_dispatch_data_t, dispatch_info);
typedef struct sk_rocp_copy_call copy_call;
PLACE(copy_call, to, rocprofiler_callback_tracing_memory_copy_data_t, dst_agent_id);
PLACE(copy_call, bytes, rocprofiler_callback_tracing_memory_copy_data_t, bytes);

typedef struct sk_rocp_symbol symbol;
typedef rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t their_symbol;
PLACE(symbol, kernel_id, their_symbol, kernel_id);
PLACE(symbol, name, their_symbol, kernel_name);

typedef struct sk_rocp_callback_record callback_record;
PLACE(callback_record, kind, rocprofiler_callback_tracing_record_t, kind);
PLACE(callback_record, phase, rocprofiler_callback_tracing_record_t, phase);
PLACE(callback_record, payload, rocprofiler_callback_tracing_record_t, payload);
_Static_assert(sizeof(callback_record) == sizeof(rocprofiler_callback_tracing_record_t),
	       "by value");

typedef struct sk_rocp_agent agent;
PLACE(agent, type, rocprofiler_agent_v0_t, type);
PLACE(agent, render_minor, rocprofiler_agent_v0_t, drm_render_minor);
PLACE(agent, name, rocprofiler_agent_v0_t, name);
PLACE(agent, product, rocprofiler_agent_v0_t, product_name);
PLACE(agent, logical_node_of_type, rocprofiler_agent_v0_t, logical_node_type_id);
