/* SPDX-License-Identifier: Apache-2.0 */
/* The Level Zero tracer: a client of the loader's tracing layer. It is loaded ahead of the program
 * (LD_PRELOAD), because the loader itself loads no tools.
 *
 * It does nothing until the program initializes Level Zero: zeInit and zeInitDrivers are the only
 * functions that it interposes. A program that gets them by dlsym from a handle of its own is not
 * seen. There are two tracers: one of objects, which is always on, and one of launches, which is on
 * while they are to be seen. The loader is not linked; where a function or the layer is missing the
 * tracer steps aside and says so in the segment.
 */
#include "levelzero/levelzero.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

struct sk_levelzero_tracer sk_levelzero = {
	.lock = PTHREAD_MUTEX_INITIALIZER}; /* zeros take no place in the file */

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The loader is loaded once a program calls, but its names may not be visible to everybody. */
static void *library(void)
{
	void *found = dlopen("libze_loader.so.1", RTLD_LAZY | RTLD_NOLOAD);

	return found ? found : RTLD_NEXT;
}

static void *original(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	return found ? found : dlsym(library(), name);
}

/* Return the first function that is missing, or NULL. */
static const char *resolve(void *from)
{
#define RESOLVE(name, vendor, parameters)                                                          \
	sk_levelzero.call.name = (int(*) parameters)dlsym(from, #vendor);                          \
	if (!sk_levelzero.call.name)                                                               \
		return #vendor;
	SK_LEVELZERO_CALLS(RESOLVE)
#undef RESOLVE
	return NULL;
}

/* Newer loaders can be told at any time; older ones read ZE_ENABLE_TRACING_LAYER once. */
static void enable_layer(void *from)
{
	int (*enable)(void) = (int (*)(void))dlsym(from, "zelEnableTracingLayer");

	if (enable)
		enable();
}

static bool make_tracers(void)
{
	static char data; /* must not be NULL; it is not used */
	const struct sk_levelzero_tracer_desc desc = {.type = SK_LEVELZERO_TRACER_DESC,
						      .data = &data};

	return !sk_levelzero.call.tracer_create(&desc, &sk_levelzero.objects) &&
	       !sk_levelzero.call.tracer_create(&desc, &sk_levelzero.launches);
}

static const char *set_up(void *from)
{
	static char why[60];
	const char *missing = resolve(from);

	if (missing) {
		snprintf(why, sizeof(why), "no %.50s", missing);
		return why;
	}
	enable_layer(from);
	if (!make_tracers())
		return "no tracing layer; ZE_ENABLE_TRACING_LAYER was not set";
	if (!sk_levelzero_watch_objects(from) || !sk_levelzero_watch_launches(from))
		return "the tracing layer does not know a call";
	return sk_levelzero.call.tracer_enable(sk_levelzero.objects, 1)
		       ? "the tracing layer stays off"
		       : NULL;
}

static bool prepare(void)
{
	const struct sk_tracer_options options = {
		.kind = SK_TRACER_LEVEL_ZERO |
			(dlsym(RTLD_DEFAULT, "stoker_simulated") ? SK_TRACER_SIMULATED : 0),
		.adapter = &sk_levelzero_adapter,
	};

	return sk_tracer_prepare(&options) && sk_tracer_ready();
}

static void begin(void)
{
	if (!prepare())
		return;
	pthread_mutex_lock(&sk_tracer->tick_lock);
	const char *why = set_up(library());

	if (why) {
		sk_tracer_step_aside(why);
	} else {
		sk_levelzero.configured = true;
		sk_levelzero.generation = sk_tracer->generation;
		sk_tracer_enter(sk_tracer->mode);
	}
	pthread_mutex_unlock(&sk_tracer->tick_lock);
}

EXPORTED int zeInit(uint32_t flags)
{
	int (*call)(uint32_t) = (int (*)(uint32_t))original("zeInit");
	int result = call ? call(flags) : 0x78000001; /* ZE_RESULT_ERROR_UNINITIALIZED */

	if (!result)
		pthread_once(&once, begin);
	return result;
}

EXPORTED int zeInitDrivers(uint32_t *count, sk_levelzero_handle *drivers, void *desc)
{
	int (*call)(uint32_t *, sk_levelzero_handle *, void *) =
		(int (*)(uint32_t *, sk_levelzero_handle *, void *))original("zeInitDrivers");
	int result = call ? call(count, drivers, desc) : 0x78000003; /* UNSUPPORTED_FEATURE */

	if (!result)
		pthread_once(&once, begin);
	return result;
}
