/* SPDX-License-Identifier: Apache-2.0 */
/* The entry: the CUDA driver loads this library while it initialises, and calls it once.
 *
 * cuInit loads the library that CUDA_INJECTION64_PATH names, so a process that never calls CUDA
 * never comes here. The entry always returns 1, so that a failure of the tracer never fails the
 * application.
 */
#include "cupti.h"

#include <string.h>

struct sk_cupti *sk_cupti;

/* Take the slot whose ring takes all records. It has no thread of its own: this thread takes
 * another one at its first call, as any thread does. */
static struct sk_tracer_slot *take_home(void)
{
	struct sk_tracer_local before = sk_tracer_here;
	struct sk_tracer_slot *home;

	sk_tracer_here = (struct sk_tracer_local){0};
	home = sk_tracer_join();
	sk_tracer_here = before;
	return home;
}

static bool begin(void)
{
	struct sk_tracer_slot *home = take_home();

	if (!home)
		return false;
	sk_cupti->joins.oldest_ns = &home->shared->oldest_ns[0];
	home->shared->oldest_device[0] = SK_NO_DEVICE;
	sk_cupti->home = home;
	sk_cupti_begin();
	return true;
}

__attribute__((visibility("default"))) int InitializeInjection(void)
{
	struct sk_tracer_options options = {
		.kind = SK_TRACER_CUPTI,
		.adapter = &sk_cupti_adapter,
	};

	if (!sk_cupti)
		sk_cupti = sk_tracer_pages(sizeof(*sk_cupti));
	if (!sk_cupti || sk_cupti->home)
		return 1;
	sk_cupti_cuda_load(&sk_cupti->cuda);
	if (sk_cupti->cuda.simulated)
		options.kind |= SK_TRACER_SIMULATED;
	if (!sk_tracer_prepare(&options) || !sk_tracer_ready())
		return 1;
	/* Ticks have begun, and do nothing before there is a home. */
	pthread_mutex_lock(&sk_tracer->tick_lock);
	begin();
	pthread_mutex_unlock(&sk_tracer->tick_lock);
	return 1;
}
