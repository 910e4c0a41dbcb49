/* SPDX-License-Identifier: Apache-2.0 */
/* A tool of rocprofiler-sdk that traces kernels and copies. The library loads it into a process
 * that uses ROCm (ROCP_TOOL_LIBRARIES), or rocprof-attach into one that began with
 * ROCP_TOOL_ATTACH=1.
 *
 * It has three contexts: names (which kernels there are), counts (each launch, in its thread) and
 * times (records with the device's stamps, in batches). The thread and the time of a launch come
 * from the launch itself, by a ticket that travels as external correlation id. The library is not
 * linked: its functions are looked up when it calls. Where one is missing or the library is too old
 * the tracer steps aside and says so in the segment.
 */
#include "tool.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

struct sk_rocp_tool sk_rocp = {
	.lock = PTHREAD_MUTEX_INITIALIZER}; /* zeros take no place in the file */

/* The library that called is loaded, but its names may not be visible to everybody. */
static void *library(void)
{
	static const char *const NAMES[] = {"librocprofiler-sdk.so.1", "librocprofiler-sdk.so"};

	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
		void *found = dlopen(NAMES[i], RTLD_LAZY | RTLD_NOLOAD);

		if (found)
			return found;
	}
	return RTLD_DEFAULT;
}

static void *look_up(void *from, const char *name)
{
	void *found = dlsym(from, name);

	return found ? found : dlsym(RTLD_DEFAULT, name);
}

/* Return the first function that is missing, or NULL. */
static const char *resolve(void)
{
	void *from = library();

#define RESOLVE(name, vendor, parameters)                                                          \
	sk_rocp.call.name = (int(*) parameters)look_up(from, "rocprofiler_" #vendor);              \
	if (!sk_rocp.call.name)                                                                    \
		return "rocprofiler_" #vendor;
	SK_ROCP_CALLS(RESOLVE)
#undef RESOLVE
	return NULL;
}

static bool make_contexts(void)
{
	return !sk_rocp.call.create_context(&sk_rocp.names) &&
	       !sk_rocp.call.create_context(&sk_rocp.counts) &&
	       !sk_rocp.call.create_context(&sk_rocp.times);
}

static bool watch_launches(void)
{
	static const int32_t ENQUEUE[] = {SK_ROCP_KERNEL_ENQUEUE};

	return !sk_rocp.call.called_back(sk_rocp.names, SK_ROCP_CALLBACK_CODE_OBJECT, NULL, 0,
					 sk_rocp_on_symbol, NULL) &&
	       !sk_rocp.call.called_back(sk_rocp.counts, SK_ROCP_CALLBACK_KERNEL_DISPATCH, ENQUEUE,
					 1, sk_rocp_on_launch, NULL) &&
	       !sk_rocp.call.called_back(sk_rocp.counts, SK_ROCP_CALLBACK_MEMORY_COPY, NULL, 0,
					 sk_rocp_on_copy, NULL);
}

static bool watch_times(void)
{
	static const uint32_t ASKED[] = {SK_ROCP_EXTERNAL_KERNEL_DISPATCH,
					 SK_ROCP_EXTERNAL_MEMORY_COPY};
	struct sk_rocp_id thread;

	return !sk_rocp.call.create_buffer(sk_rocp.times, SK_ROCP_BUFFER_BYTES,
					   SK_ROCP_BUFFER_CALL_AT, SK_ROCP_POLICY_DISCARD,
					   sk_rocp_on_buffer, NULL, &sk_rocp.buffer) &&
	       !sk_rocp.call.buffered(sk_rocp.times, SK_ROCP_BUFFER_KERNEL_DISPATCH, NULL, 0,
				      sk_rocp.buffer) &&
	       !sk_rocp.call.buffered(sk_rocp.times, SK_ROCP_BUFFER_MEMORY_COPY, NULL, 0,
				      sk_rocp.buffer) &&
	       !sk_rocp.call.external(sk_rocp.times, ASKED, 2, sk_rocp_on_request, NULL) &&
	       !sk_rocp.call.create_thread(&thread) &&
	       !sk_rocp.call.assign_thread(sk_rocp.buffer, thread);
}

/* Services may be set up only here; afterwards contexts are started and stopped at will. */
static int initialize(sk_rocp_finalize finalize, void *data)
{
	if (!sk_tracer_ready())
		return -1;
	if (sk_tracer->segment->header.stepped_aside)
		return 0; /* a function is missing: nothing is set up, and the segment says so */
	if (!make_contexts() || !watch_launches() || !watch_times() ||
	    sk_rocp.call.start(sk_rocp.names)) {
		sk_tracer_step_aside("rocprofiler-sdk refused a service");
		return 0;
	}
	sk_rocp_find_devices();
	sk_rocp_fit(sk_tracer_now());
	pthread_mutex_lock(&sk_tracer->tick_lock);
	sk_rocp.generation = sk_tracer->generation;
	sk_rocp.configured = true;
	sk_tracer_enter(sk_tracer->mode);
	pthread_mutex_unlock(&sk_tracer->tick_lock);
	return 0;
}

/* All records have been delivered by now, and the runtime must not be called any more. */
static void finalize(void *data)
{
	if (!sk_tracer || sk_tracer->state != SK_TRACER_READY)
		return;
	sk_rocp.finished = 1;
}

static bool prepare(void)
{
	const struct sk_tracer_options options = {
		.kind = SK_TRACER_ROCPROFILER |
			(look_up(RTLD_DEFAULT, "stoker_simulated") ? SK_TRACER_SIMULATED : 0),
		.adapter = &sk_rocp_adapter,
	};

	return sk_tracer_prepare(&options);
}

static void step_aside(const char *why)
{
	if (sk_tracer_ready())
		sk_tracer_step_aside(why);
}

EXPORTED struct sk_rocp_configured *rocprofiler_configure(uint32_t version, const char *runtime,
							  uint32_t priority,
							  struct sk_rocp_client *client)
{
	static struct sk_rocp_configured configured = {sizeof(configured), initialize, finalize,
						       NULL};
	char why[60];

	if (!prepare())
		return NULL;
	client->name = "stoker";
	if (version < SK_ROCP_OLDEST_VERSION) {
		snprintf(why, sizeof(why), "rocprofiler-sdk %u.%u is older than 1.0",
			 version / 10000, version / 100 % 100);
		step_aside(why);
		return NULL;
	}
	const char *missing = resolve();

	if (missing) {
		snprintf(why, sizeof(why), "no %.56s", missing);
		step_aside(why);
		return NULL;
	}
	return &configured;
}

/* The tool was attached to a running process. Its contexts are those of `initialize`, which came
 * before. */
static int attach(void (*detach)(struct sk_rocp_client), struct sk_rocp_id *contexts,
		  uint64_t count, void *data)
{
	return sk_rocp.configured ? 0 : -1;
}

static void detach(void *data)
{
	if (!sk_rocp.configured || sk_rocp.finished)
		return;
	pthread_mutex_lock(&sk_tracer->tick_lock);
	sk_tracer_step_aside("detached");
	sk_tracer_enter(SK_MODE_DORMANT);
	pthread_mutex_unlock(&sk_tracer->tick_lock);
}

EXPORTED struct sk_rocp_configured_attach *
rocprofiler_configure_attach(uint32_t version, const char *runtime, uint32_t priority,
			     struct sk_rocp_client *client)
{
	static struct sk_rocp_configured_attach configured = {sizeof(configured), attach, detach,
							      NULL};

	return &configured;
}
