/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of abi.h with the real headers of Level Zero, where the build has found them: a
 * number or an offset that differs stops the build. It contains no code. */
#include "levelzero/abi.h"

#include <level_zero/layers/zel_tracing_api.h>
#include <level_zero/layers/zel_tracing_register_cb.h>
#include <level_zero/ze_api.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
#define SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #theirs)
#define PLACE(ours, member, theirs, name)                                                          \
	_Static_assert(offsetof(ours, member) == offsetof(theirs, name), #theirs "." #name)

SAME(SK_LEVELZERO_DEVICE_PROPERTIES, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2);
SAME(SK_LEVELZERO_EVENT_POOL_DESC, ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
SAME(SK_LEVELZERO_EVENT_DESC, ZE_STRUCTURE_TYPE_EVENT_DESC);
SAME(SK_LEVELZERO_POOL_HOST_VISIBLE, ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
SAME(SK_LEVELZERO_POOL_IPC, ZE_EVENT_POOL_FLAG_IPC);
SAME(SK_LEVELZERO_POOL_TIMESTAMP, ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP);
SAME(SK_LEVELZERO_SCOPE_HOST, ZE_EVENT_SCOPE_FLAG_HOST);
SAME(SK_LEVELZERO_TYPE_GPU, ZE_DEVICE_TYPE_GPU);
SAME(SK_LEVELZERO_TRACER_DESC, ZEL_STRUCTURE_TYPE_TRACER_DESC);
SAME(SK_LEVELZERO_PROLOGUE, ZEL_REGISTER_PROLOGUE);
SAME(SK_LEVELZERO_EPILOGUE, ZEL_REGISTER_EPILOGUE);
SAME(SK_LEVELZERO_NAME_BYTES, ZE_MAX_DEVICE_NAME);
SAME(0, ZE_RESULT_SUCCESS);
SIZE(uint8_t, ze_bool_t);

typedef struct sk_levelzero_pool_desc pool_desc;
SIZE(pool_desc, ze_event_pool_desc_t);
PLACE(pool_desc, flags, ze_event_pool_desc_t, flags);
typedef struct sk_levelzero_event_desc event_desc;
SIZE(event_desc, ze_event_desc_t);
PLACE(event_desc, wait, ze_event_desc_t, wait);
typedef struct sk_levelzero_stamps stamps;
SIZE(stamps, ze_kernel_timestamp_result_t);
PLACE(stamps, context_start, ze_kernel_timestamp_result_t, context);
typedef struct sk_levelzero_device_properties properties;
SIZE(properties, ze_device_properties_t);
PLACE(properties, timer_hz, ze_device_properties_t, timerResolution);
PLACE(properties, kernel_timestamp_bits, ze_device_properties_t, kernelTimestampValidBits);
PLACE(properties, uuid, ze_device_properties_t, uuid);
PLACE(properties, name, ze_device_properties_t, name);
SIZE(struct sk_levelzero_tracer_desc, zel_tracer_desc_t);

typedef struct sk_levelzero_launch_call launch_call;
SIZE(launch_call, ze_command_list_append_launch_kernel_params_t);
PLACE(launch_call, signal, ze_command_list_append_launch_kernel_params_t, phSignalEvent);
SIZE(launch_call, ze_command_list_append_launch_cooperative_kernel_params_t);
PLACE(launch_call, signal, ze_command_list_append_launch_cooperative_kernel_params_t,
      phSignalEvent);
SIZE(launch_call, ze_command_list_append_launch_kernel_indirect_params_t);
PLACE(launch_call, signal, ze_command_list_append_launch_kernel_indirect_params_t, phSignalEvent);
typedef struct sk_levelzero_copy_call copy_call;
SIZE(copy_call, ze_command_list_append_memory_copy_params_t);
PLACE(copy_call, signal, ze_command_list_append_memory_copy_params_t, phSignalEvent);
typedef struct sk_levelzero_fill_call fill_call;
SIZE(fill_call, ze_command_list_append_memory_fill_params_t);
PLACE(fill_call, signal, ze_command_list_append_memory_fill_params_t, phSignalEvent);
PLACE(fill_call, bytes, ze_command_list_append_memory_fill_params_t, psize);
SIZE(struct sk_levelzero_execute_call, ze_command_queue_execute_command_lists_params_t);
SIZE(struct sk_levelzero_list_create_call, ze_command_list_create_params_t);
SIZE(struct sk_levelzero_list_create_call, ze_command_list_create_immediate_params_t);
SIZE(struct sk_levelzero_pool_create_call, ze_event_pool_create_params_t);
SIZE(struct sk_levelzero_event_create_call, ze_event_create_params_t);
SIZE(struct sk_levelzero_one_call, ze_event_host_reset_params_t);
SIZE(struct sk_levelzero_event_reset_call, ze_command_list_append_event_reset_params_t);
