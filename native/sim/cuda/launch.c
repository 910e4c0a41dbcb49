/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, kernels and launches of the simulated CUDA driver. Any image is accepted and has every
 * kernel; nothing runs. A kernel takes its time in its stream and loads its card. Its time at the
 * highest clock is that at the end of its name (`..._250us`), or STOKER_SIM_KERNEL_NS, or 10 us; a
 * lower clock lengthens the part that depends on the clock.
 */
#include "sim/cuda/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MODULES = 1024, FUNCTIONS = 16384, NAME = 256, DEFAULT_NS = 10000, THREADS = 1024 };

struct module {
	uint32_t used;
};

struct function {
	struct module *of;
	char name[NAME];
	uint64_t ns; /* at the highest clock */
};

static struct module module[MODULES];
static struct function function[FUNCTIONS];
static uint32_t functions_high;

static uint64_t unit_ns(const char *text)
{
	return !strncmp(text, "ns", 2)	 ? 1
	       : !strncmp(text, "us", 2) ? 1000
	       : !strncmp(text, "ms", 2) ? 1000000
					 : 0;
}

/* Parse the last `_<number><unit>` in a name, which may go on as mangled names do. */
static uint64_t time_of(const char *name)
{
	const char *given = getenv("STOKER_SIM_KERNEL_NS");
	uint64_t ns = given ? strtoull(given, NULL, 10) : 0;

	if (!ns)
		ns = DEFAULT_NS;
	for (const char *at = strchr(name, '_'); at; at = strchr(at + 1, '_')) {
		char *end;
		unsigned long long number = strtoull(at + 1, &end, 10);

		if (end != at + 1 && at[1] >= '0' && at[1] <= '9' && unit_ns(end))
			ns = number * unit_ns(end);
	}
	return ns;
}

static int load(const char *name, struct module **ret, const void *image)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(name, &context);

	if (result)
		return result;
	if (!ret || !image)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	for (uint32_t i = 0; i < MODULES; i++) {
		if (module[i].used)
			continue;
		module[i].used = 1;
		*ret = &module[i];
		return sk_cuda_end(SK_CUDA_SUCCESS);
	}
	return sk_cuda_end(SK_CUDA_OUT_OF_MEMORY);
}

SK_CUDA cuModuleLoad(struct module **ret, const char *path)
{
	if (path && access(path, R_OK))
		return SK_CUDA_FILE_NOT_FOUND;
	return load(__func__, ret, path);
}

SK_CUDA cuModuleLoadData(struct module **ret, const void *image)
{
	return load(__func__, ret, image);
}

SK_CUDA cuModuleLoadDataEx(struct module **ret, const void *image, unsigned count, int *options,
			   void **values)
{
	return load(__func__, ret, image);
}

SK_CUDA cuModuleLoadFatBinary(struct module **ret, const void *image)
{
	return load(__func__, ret, image);
}

SK_CUDA cuLibraryLoadData(struct module **ret, const void *image, int *jit, void **jit_values,
			  unsigned jit_count, int *options, void **values, unsigned count)
{
	return load(__func__, ret, image);
}

static bool is_module(const struct module *at)
{
	return SK_CUDA_IS_OF(module, at) && at->used;
}

static int unload(const char *name, struct module *at)
{
	int result = sk_cuda_begin(name, UINT32_MAX);

	if (result)
		return result;
	if (!is_module(at))
		return sk_cuda_end(SK_CUDA_INVALID_HANDLE);
	for (uint32_t i = 0; i < functions_high; i++)
		if (function[i].of == at)
			function[i].of = NULL;
	at->used = 0;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuModuleUnload(struct module *at)
{
	return unload(__func__, at);
}

SK_CUDA cuLibraryUnload(struct module *at)
{
	return unload(__func__, at);
}

/* Find the place of a kernel, or a free one. A used place is reused only when there are no more,
 * since a profiler may still read its name. */
static struct function *place_of(const struct module *of, const char *name)
{
	struct function *same = NULL, *other = NULL;

	for (uint32_t i = 0; i < functions_high; i++) {
		bool is_named = !strcmp(function[i].name, name);

		if (function[i].of == of && is_named)
			return &function[i];
		if (!function[i].of)
			*(is_named ? &same : &other) = &function[i];
	}
	if (same)
		return same;
	return functions_high < FUNCTIONS ? &function[functions_high++] : other;
}

static int get(const char *caller, struct function **ret, struct module *of, const char *name)
{
	int result = sk_cuda_begin(caller, UINT32_MAX);

	if (result)
		return result;
	if (!is_module(of))
		return sk_cuda_end(SK_CUDA_INVALID_HANDLE);
	if (!ret || !name || !*name || strlen(name) >= NAME)
		return sk_cuda_end(SK_CUDA_NOT_FOUND);
	*ret = place_of(of, name);
	if (!*ret)
		return sk_cuda_end(SK_CUDA_OUT_OF_MEMORY);
	(*ret)->of = of;
	(*ret)->ns = time_of(name);
	snprintf((*ret)->name, NAME, "%s", name);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuModuleGetFunction(struct function **ret, struct module *of, const char *name)
{
	return get(__func__, ret, of, name);
}

SK_CUDA cuLibraryGetKernel(struct function **ret, struct module *of, const char *name)
{
	return get(__func__, ret, of, name);
}

static bool is_function(const struct function *at)
{
	return SK_CUDA_IS_OF(function, at) && at->of;
}

/* A kernel of a library and its function are the same here. */
SK_CUDA cuKernelGetFunction(struct function **ret, struct function *kernel)
{
	if (!is_function(kernel) || !ret)
		return SK_CUDA_INVALID_HANDLE;
	*ret = kernel;
	return SK_CUDA_SUCCESS;
}

SK_CUDA cuFuncGetName(const char **ret, struct function *of)
{
	if (!is_function(of) || !ret)
		return SK_CUDA_INVALID_HANDLE;
	*ret = of->name;
	return SK_CUDA_SUCCESS;
}

SK_CUDA cuKernelGetName(const char **ret, struct function *of)
{
	return cuFuncGetName(ret, of);
}

SK_CUDA cuFuncGetAttribute(int *ret, int attribute, struct function *of)
{
	enum { MAX_THREADS = 0, REGISTERS = 4, SOME = 32 };

	if (!is_function(of) || !ret)
		return SK_CUDA_INVALID_HANDLE;
	*ret = attribute == MAX_THREADS ? THREADS : attribute == REGISTERS ? SOME : 0;
	return SK_CUDA_SUCCESS;
}

SK_CUDA cuFuncSetAttribute(struct function *of, int attribute, int value)
{
	return is_function(of) ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_HANDLE;
}

SK_CUDA cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, struct function *of, int threads,
						    size_t shared_bytes)
{
	if (!is_function(of))
		return SK_CUDA_INVALID_HANDLE;
	if (!ret || threads <= 0)
		return SK_CUDA_INVALID_VALUE;
	*ret = threads > THREADS ? 0 : 2 * THREADS / threads;
	return SK_CUDA_SUCCESS;
}

static bool launchable(const struct sk_cuda_launch *how)
{
	uint64_t threads = 1, blocks = 1;

	for (uint32_t i = 0; i < 3; i++) {
		threads *= how->block[i];
		blocks *= how->grid[i] != 0;
	}
	return blocks && threads && threads <= THREADS;
}

/* A card at rest goes to its highest clock at once when it gets work. */
static double clock_mhz(const struct sk_sim_card *card)
{
	if (!(card->now.why & 1U << SK_SIM_WHY_IDLE))
		return card->now.clock_mhz;
	return card->now.locked_max_mhz ? card->now.locked_max_mhz : card->model.clock_max_mhz;
}

static uint64_t lasts_ns(const struct sk_sim_card *card, uint64_t ns)
{
	double slow = card->model.clock_max_mhz / clock_mhz(card);

	return (uint64_t)((double)ns * (card->load.bound + (1 - card->load.bound) * slow));
}

static int put(const char *name, const struct sk_cuda_launch *how, struct function *of,
	       struct sk_cuda_work *ret)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(name, &context);
	struct sk_cuda_stream *stream;
	uint64_t ns;

	if (result)
		return result;
	stream = sk_cuda_stream(context, how->stream);
	if (!is_function(of) || !stream)
		return sk_cuda_end(SK_CUDA_INVALID_HANDLE);
	if (!launchable(how))
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	ns = lasts_ns(sk_cuda_card(context->device), of->ns);
	sk_cuda_enqueue(stream, ns);
	sk_cuda_work_in(ret, SK_CUDA_WORK_KERNEL, stream, ns);
	ret->name = of->name;
	sk_cuda_busy(context->device, ret->end);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

static int launch(const char *name, uint32_t id, const void *arguments,
		  const struct sk_cuda_launch *how, struct function *of)
{
	struct sk_cuda_work work = {0};
	struct sk_cuda_call call;
	int result;

	sk_cuda_call_begin(&call, id, name, arguments, is_function(of) ? of->name : NULL);
	result = put(name, how, of, &work);
	return sk_cuda_call_end_work(&call, result, &work);
}

static uint64_t two(uint32_t first, uint32_t second)
{
	return (uint64_t)second << 32 | first;
}

SK_CUDA cuLaunchKernel(struct function *of, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		       unsigned by, unsigned bz, unsigned shared_bytes, void *stream, void **values,
		       void **extra)
{
	struct sk_cuda_launch how = {{gx, gy, gz}, {bx, by, bz}, shared_bytes, stream, NULL, 0};
	const uint64_t arguments[] = {(uintptr_t)of,	 two(gx, gy),	  two(gz, bx),
				      two(by, bz),	 shared_bytes,	  (uintptr_t)stream,
				      (uintptr_t)values, (uintptr_t)extra};

	return launch(__func__, SK_CUDA_ID_LAUNCH, arguments, &how, of);
}

SK_CUDA cuLaunchCooperativeKernel(struct function *of, unsigned gx, unsigned gy, unsigned gz,
				  unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
				  void *stream, void **values)
{
	struct sk_cuda_launch how = {{gx, gy, gz}, {bx, by, bz}, shared_bytes, stream, NULL, 0};
	const uint64_t arguments[] = {(uintptr_t)of,	two(gx, gy),  two(gz, bx),
				      two(by, bz),	shared_bytes, (uintptr_t)stream,
				      (uintptr_t)values};

	return launch(__func__, SK_CUDA_ID_LAUNCH_COOPERATIVE, arguments, &how, of);
}

SK_CUDA cuLaunchKernelEx(const struct sk_cuda_launch *how, struct function *of, void **values,
			 void **extra)
{
	const uint64_t arguments[] = {(uintptr_t)how, (uintptr_t)of, (uintptr_t)values,
				      (uintptr_t)extra};

	if (!how)
		return SK_CUDA_INVALID_VALUE;
	return launch(__func__, SK_CUDA_ID_LAUNCH_EX, arguments, how, of);
}
