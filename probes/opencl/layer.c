/* SPDX-License-Identifier: Apache-2.0 */
/* The two functions that a loader looks up, and the dispatch table that it gets; see layer.h. */
#include "layer.h"

#include <string.h>

struct sk_cl_layer *sk_cl;
struct _cl_icd_dispatch sk_cl_next;

static struct _cl_icd_dispatch table;

#define EXPORTED __attribute__((visibility("default")))

EXPORTED cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t size, void *value,
					   size_t *size_ret)
{
	static const char name[] = "stoker tracer";
	const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
	bool is_version = what == CL_LAYER_API_VERSION;
	size_t bytes = is_version ? sizeof(version) : sizeof(name);

	if (!is_version && what != CL_LAYER_NAME)
		return CL_INVALID_VALUE;
	if (value && size < bytes)
		return CL_INVALID_VALUE;
	if (value)
		memcpy(value, is_version ? (const void *)&version : name, bytes);
	if (size_ret)
		*size_ret = bytes;
	return CL_SUCCESS;
}

/* The layer's pages are zeros again in a forked child, so the layer is new there. */
static bool prepare(void)
{
	const struct sk_tracer_options options = {
		.kind = SK_TRACER_OPENCL,
		.slot_bytes = sizeof(struct sk_cl_thread),
		.wakes = true,
		.throttles = true,
		.on_join = sk_cl_harvest_join,
		.on_leave = sk_cl_harvest_leave,
		.on_throttled = sk_cl_harvest_held,
		.adapter = &sk_cl_adapter,
	};

	if (!sk_tracer_prepare(&options))
		return false;
	if (!sk_cl)
		sk_cl = sk_tracer_pages(sizeof(*sk_cl));
	return sk_cl;
}

EXPORTED cl_int CL_API_CALL clInitLayer(cl_uint num_entries, const cl_icd_dispatch *target,
					cl_uint *num_entries_ret,
					const cl_icd_dispatch **layer_dispatch_ret)
{
	size_t bytes = num_entries * sizeof(void *);

	if (!target || !num_entries_ret || !layer_dispatch_ret)
		return CL_INVALID_VALUE;
	/* A loader may know fewer functions than this header, or more; it handles the others
	 * itself. */
	memcpy(&sk_cl_next, target, bytes < sizeof(sk_cl_next) ? bytes : sizeof(sk_cl_next));
	table = sk_cl_next;
	if (prepare()) {
		sk_cl_queue_hook(&table);
		sk_cl_kernel_hook(&table);
		sk_cl_wait_hook(&table);
		sk_cl_order_hook(&table);
		sk_cl_enqueue_hook(&table);
		sk_cl_copies_hook(&table);
	}
	*layer_dispatch_ret = &table;
	*num_entries_ret = sizeof(table) / sizeof(void *);
	return CL_SUCCESS;
}
