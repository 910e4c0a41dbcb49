/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The functions of CUPTI and of the CUDA driver that the tracer uses, looked up when they are
 * needed.
 *
 * The tracer links neither library. CUPTI is the copy that the process has loaded already (a
 * framework's own), otherwise the one at the path that the agent gives in STOKER_CUPTI, otherwise
 * the one that the loader finds. Tracing uses calls of the first API only (those without `_v2`):
 * the two APIs may not be mixed, and every version from 11.6 on has the first. Memory: the
 * caller's. Threads: written once, then read by any.
 */
#ifndef SK_CUPTI_API_H
#define SK_CUPTI_API_H

#include <cupti.h>
#include <stdbool.h>

enum { SK_CUPTI_VERSION_MIN = 17 /* CUDA 11.6 is the first version that takes a clock of ours */ };

struct sk_cupti_api {
	CUptiResult (*get_version)(uint32_t *);
	CUptiResult (*get_result_string)(CUptiResult, const char **);
	CUptiResult (*subscribe)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);
	CUptiResult (*unsubscribe)(CUpti_SubscriberHandle);
	CUptiResult (*enable_callback)(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain,
				       CUpti_CallbackId);
	CUptiResult (*activity_enable)(CUpti_ActivityKind);
	CUptiResult (*activity_disable)(CUpti_ActivityKind);
	CUptiResult (*register_callbacks)(CUpti_BuffersCallbackRequestFunc,
					  CUpti_BuffersCallbackCompleteFunc);
	CUptiResult (*register_clock)(CUpti_TimestampCallbackFunc);
	CUptiResult (*set_attribute)(CUpti_ActivityAttribute, size_t *, void *);
	CUptiResult (*next_record)(uint8_t *, size_t, CUpti_Activity **);
	CUptiResult (*flush_all)(uint32_t);
	CUptiResult (*dropped_records)(CUcontext, uint32_t, size_t *);
	/* These are NULL in versions that lack them. */
	CUptiResult (*subscribe_v2)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *,
				    CUpti_SubscriberParams *);
	CUptiResult (*latency_stamps)(uint8_t);
	uint32_t version;
};

struct sk_cupti_cuda {
	CUresult (*device_of_context)(CUdevice *);
	CUresult (*device_name)(char *, int, CUdevice);
	CUresult (*device_uuid)(CUuuid *, CUdevice);
	CUresult (*device_uuid_v2)(CUuuid *,
				   CUdevice); /* id of a part, where the device is divided */
	CUresult (*driver_version)(int *);
	CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus *);
	bool simulated; /* the driver says that its devices are simulated */
};

/** Find CUPTI. Returns NULL, or why it cannot be used. */
const char *sk_cupti_api_load(struct sk_cupti_api *ret);

/** Find the driver that is loaded. Functions that it lacks are NULL. */
void sk_cupti_cuda_load(struct sk_cupti_cuda *ret);

#endif
