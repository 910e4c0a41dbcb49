// SPDX-License-Identifier: Apache-2.0
// A job for the tracing tests on simulated cards (SIM): `cuda ROUNDS` finds libcuda.so.1 as a
// runtime does, launches ROUNDS kernels of one name in each of two streams, turn about, copies, and
// prints one line of JSON: the time between CUDA's own events around them, of each stream.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { VERSION = 13000, NON_BLOCKING = 1, BYTES = 1 << 20, COPIES = 7 };

typedef void *handle;

static int (*find)(const char *, void **, int, uint64_t, int *);

static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "cuda: %s: %d\n", what, error);
		exit(1);
	}
}

static void *at(const char *name)
{
	void *found = NULL;
	int status = 0;

	must(find(name, &found, VERSION, 0, &status) || status, name);
	return found;
}

#define CALL(name, types, ...) must(((int(*) types)at(#name))(__VA_ARGS__), #name)

typedef int (*launch_function)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			       unsigned, handle, void **, void **);

static launch_function launch_call;

static void launch(handle kernel, handle stream)
{
	must(launch_call(kernel, 4, 1, 1, 128, 1, 1, 0, stream, NULL, NULL), "launch");
}

static void copy(handle stream)
{
	char *host = calloc(1, BYTES);
	uint64_t device;

	CALL(cuMemAlloc, (uint64_t *, size_t), &device, BYTES);
	for (int i = 0; i < COPIES; i++)
		CALL(cuMemcpyHtoDAsync, (uint64_t, const void *, size_t, handle), device, host,
		     BYTES, stream);
	CALL(cuMemsetD32Async, (uint64_t, unsigned, size_t, handle), device, 7, BYTES / 4, stream);
	CALL(cuStreamSynchronize, (handle), stream);
	CALL(cuMemcpyDtoH, (void *, uint64_t, size_t), host, device, BYTES);
	if (host[BYTES - 4] != 7)
		must(1, "memory");
}

static double elapsed_ns(handle from, handle to)
{
	float ms;

	CALL(cuEventElapsedTime, (float *, handle, handle), &ms, from, to);
	return (double)ms * 1e6;
}

int main(int argc, char **argv)
{
	handle library = dlopen("libcuda.so.1", RTLD_NOW), context, module, kernel[2], begins;
	handle stream[2], from[2], to[2];
	int device, rounds = argc > 1 ? atoi(argv[1]) : 1;

	if (!library)
		must(1, dlerror());
	find = (int (*)(const char *, void **, int, uint64_t, int *))dlsym(library,
									   "cuGetProcAddress_v2");
	CALL(cuInit, (unsigned), 0);
	CALL(cuDeviceGet, (int *, int), &device, 0);
	CALL(cuDevicePrimaryCtxRetain, (handle *, int), &context, device);
	CALL(cuCtxSetCurrent, (handle), context);
	CALL(cuModuleLoadData, (handle *, const void *), &module, "image");
	CALL(cuModuleGetFunction, (handle *, handle, const char *), &begins, module, "begin_200ms");
	CALL(cuModuleGetFunction, (handle *, handle, const char *), &kernel[0], module,
	     "saxpy_150us");
	CALL(cuModuleGetFunction, (handle *, handle, const char *), &kernel[1], module,
	     "gemm_230us");
	launch_call = (launch_function)at("cuLaunchKernel");
	for (int i = 0; i < 2; i++) {
		CALL(cuStreamCreate, (handle *, unsigned), &stream[i], NON_BLOCKING);
		CALL(cuEventCreate, (handle *, unsigned), &from[i], 0);
		CALL(cuEventCreate, (handle *, unsigned), &to[i], 0);
		launch(begins, stream[i]); // so that the streams never run dry afterwards
		CALL(cuEventRecord, (handle, handle), from[i], stream[i]);
	}
	for (int round = 0; round < rounds; round++)
		for (int i = 0; i < 2; i++)
			launch(kernel[i], stream[i]);
	for (int i = 0; i < 2; i++)
		CALL(cuEventRecord, (handle, handle), to[i], stream[i]);
	for (int i = 0; i < 2; i++)
		CALL(cuEventSynchronize, (handle), to[i]);
	copy(stream[0]);
	printf("{\"saxpy_150us\": %.0f, \"gemm_230us\": %.0f}\n", elapsed_ns(from[0], to[0]),
	       elapsed_ns(from[1], to[1]));
	CALL(cuCtxSynchronize, (handle), context);
	return 0;
}
