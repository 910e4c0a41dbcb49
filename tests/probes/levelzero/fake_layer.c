/* SPDX-License-Identifier: Apache-2.0 */
/* The tracers of the simulated loader; see fake_layer.h. */
#include "fake_layer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TRACERS = 4 };

struct tracer {
	_Atomic bool enabled;
	void *data;
	sk_levelzero_callback calls[API_COUNT][2];
};

static struct tracer tracers[TRACERS];
static unsigned tracer_count;
static _Thread_local bool in_callback;

EXPORTED int zelTracerCreate(const struct sk_levelzero_tracer_desc *desc, sk_levelzero_handle *ret)
{
	const char *asked = getenv("ZE_ENABLE_TRACING_LAYER");

	if (!asked || strcmp(asked, "1") || tracer_count == TRACERS)
		return UNSUPPORTED;
	tracers[tracer_count].data = desc->data;
	*ret = (sk_levelzero_handle)&tracers[tracer_count++];
	return 0;
}

EXPORTED int zelTracerSetEnabled(sk_levelzero_handle tracer, uint8_t enable)
{
	((struct tracer *)tracer)->enabled = enable;
	return 0;
}

/* The interface allows this only while the tracer is off. */
__attribute__((unused)) static int set_callback(sk_levelzero_handle handle, enum api api,
						uint32_t kind, sk_levelzero_callback call)
{
	struct tracer *tracer = (struct tracer *)handle;

	if (tracer->enabled)
		return BAD_ARGUMENT;
	tracer->calls[api][kind] = call;
	return 0;
}

#define REGISTER(name)                                                                             \
	EXPORTED int zelTracer##name##RegisterCallback(sk_levelzero_handle tracer, uint32_t kind,  \
						       sk_levelzero_callback call);                \
	EXPORTED int zelTracer##name##RegisterCallback(sk_levelzero_handle tracer, uint32_t kind,  \
						       sk_levelzero_callback call)                 \
	{                                                                                          \
		return set_callback(tracer, IN_##name, kind, call);                                \
	}
#ifndef FAKE_WITHOUT_CALLBACKS
APIS(REGISTER)
#endif

/* Make the call with its callbacks; a tracer that is on at the beginning gets both. */
int traced(enum api api, void *call, int (*body)(void *call))
{
	void *own[TRACERS] = {0};
	bool on[TRACERS];
	int result;

	if (in_callback)
		return body(call);
	in_callback = true;
	for (unsigned i = 0; i < TRACERS; i++) {
		on[i] = i < tracer_count && tracers[i].enabled;
		if (on[i] && tracers[i].calls[api][0])
			tracers[i].calls[api][0](call, 0, tracers[i].data, &own[i]);
	}
	in_callback = false;
	result = body(call);
	in_callback = true;
	for (unsigned i = 0; i < TRACERS; i++)
		if (on[i] && tracers[i].calls[api][1])
			tracers[i].calls[api][1](call, result, tracers[i].data, &own[i]);
	in_callback = false;
	return result;
}
