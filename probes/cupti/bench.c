/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA program of known work, with which `make gpu-check` compares its trace.
 *
 *     stoker-bench-cuda known             each kind of work, in known numbers
 *     stoker-bench-cuda curve N NS DEPTH  N kernels of NS ns, waiting after each DEPTH
 *     stoker-bench-cuda until NS          kernels of NS ns until standard input ends
 *
 * It prints one line of JSON and exits with 0; 2 where there is no driver or no device. It links
 * no CUDA library and its kernels are PTX, which the driver compiles, so that it runs wherever a
 * driver is. A kernel spins by the multiprocessor's own clock.
 */
#include "tracer/clock.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

enum {
	BYTES = 16 << 20,
	SPINS = 200,
	GRAPHS = 20,
	NODES = 10,
	PAIRS = 32,
	WRITES = 4,
	READS = 2,
	FILLS = 3
};

#define SPIN(name)                                                                                 \
	".visible .entry " name "(.param .u64 cycles)\n"                                           \
	"{\n"                                                                                      \
	" .reg .pred %p<2>;\n"                                                                     \
	" .reg .b64 %r<5>;\n"                                                                      \
	" ld.param.u64 %r1, [cycles];\n"                                                           \
	" mov.u64 %r2, %clock64;\n"                                                                \
	"again:\n"                                                                                 \
	" mov.u64 %r3, %clock64;\n"                                                                \
	" sub.s64 %r4, %r3, %r2;\n"                                                                \
	" setp.lt.s64 %p1, %r4, %r1;\n"                                                            \
	" @%p1 bra again;\n"                                                                       \
	" ret;\n"                                                                                  \
	"}\n"

#define IMAGE(version, target)                                                                     \
	".version " version "\n"                                                                   \
	".target " target "\n"                                                                     \
	".address_size 64\n" SPIN("stoker_spin") SPIN("stoker_node")

/* Drivers of CUDA 13 support nothing before Turing, and older devices nothing of Turing. */
static const char *const images[] = {IMAGE("6.3", "sm_75"), IMAGE("6.0", "sm_50")};

static struct {
	CUresult (*init)(unsigned);
	CUresult (*device)(CUdevice *, int);
	CUresult (*device_count)(int *);
	CUresult (*attribute)(int *, CUdevice_attribute, CUdevice);
	CUresult (*retain)(CUcontext *, CUdevice);
	CUresult (*set_current)(CUcontext);
	CUresult (*load)(CUmodule *, const void *);
	CUresult (*function)(CUfunction *, CUmodule, const char *);
	CUresult (*stream)(CUstream *, unsigned);
	CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			   unsigned, CUstream, void **, void **);
	CUresult (*wait)(CUstream);
	CUresult (*allocate)(CUdeviceptr *, size_t);
	CUresult (*write)(CUdeviceptr, const void *, size_t, CUstream);
	CUresult (*read)(void *, CUdeviceptr, size_t);
	CUresult (*fill)(CUdeviceptr, unsigned, size_t, CUstream);
	CUresult (*begin_capture)(CUstream, CUstreamCaptureMode);
	CUresult (*end_capture)(CUstream, CUgraph *);
	CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long);
	CUresult (*launch_graph)(CUgraphExec, CUstream);
	CUresult (*event)(CUevent *, unsigned);
	CUresult (*record)(CUevent, CUstream);
	CUresult (*wait_event)(CUevent);
	CUresult (*elapsed)(float *, CUevent, CUevent);
	bool simulated;
} cuda;

static CUstream stream;
static CUfunction spin, node;
static int clock_khz = 1000000;

static void check(CUresult error, const char *what)
{
	if (error) {
		fprintf(stderr, "stoker-bench-cuda: %s: CUDA error %d\n", what, (int)error);
		exit(1);
	}
}

static void absent(const char *why)
{
	fprintf(stderr, "stoker-bench-cuda: %s\n", why);
	exit(2);
}

static void load_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	const struct {
		const char *name;
		void **to;
	} rows[] = {
		{"cuInit", (void **)&cuda.init},
		{"cuDeviceGet", (void **)&cuda.device},
		{"cuDeviceGetCount", (void **)&cuda.device_count},
		{"cuDeviceGetAttribute", (void **)&cuda.attribute},
		{"cuDevicePrimaryCtxRetain", (void **)&cuda.retain},
		{"cuCtxSetCurrent", (void **)&cuda.set_current},
		{"cuModuleLoadData", (void **)&cuda.load},
		{"cuModuleGetFunction", (void **)&cuda.function},
		{"cuStreamCreate", (void **)&cuda.stream},
		{"cuLaunchKernel", (void **)&cuda.launch},
		{"cuStreamSynchronize", (void **)&cuda.wait},
		{"cuMemAlloc_v2", (void **)&cuda.allocate},
		{"cuMemcpyHtoDAsync_v2", (void **)&cuda.write},
		{"cuMemcpyDtoH_v2", (void **)&cuda.read},
		{"cuMemsetD32Async", (void **)&cuda.fill},
		{"cuStreamBeginCapture_v2", (void **)&cuda.begin_capture},
		{"cuStreamEndCapture", (void **)&cuda.end_capture},
		{"cuGraphInstantiateWithFlags", (void **)&cuda.instantiate},
		{"cuGraphLaunch", (void **)&cuda.launch_graph},
		{"cuEventCreate", (void **)&cuda.event},
		{"cuEventRecord", (void **)&cuda.record},
		{"cuEventSynchronize", (void **)&cuda.wait_event},
		{"cuEventElapsedTime", (void **)&cuda.elapsed},
	};

	if (!library)
		absent("no CUDA driver: libcuda.so.1 does not load");
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		*rows[i].to = dlsym(library, rows[i].name);
		if (!*rows[i].to)
			absent(rows[i].name);
	}
	cuda.simulated = dlsym(library, "stoker_sim_driver");
}

static void open_device(void)
{
	CUcontext context;
	CUmodule module;
	CUdevice device;
	int count = 0;

	load_driver();
	if (cuda.init(0) || cuda.device_count(&count) || !count)
		absent("no CUDA device");
	check(cuda.device(&device, 0), "device");
	check(cuda.attribute(&clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device), "clock rate");
	check(cuda.retain(&context, device), "context");
	check(cuda.set_current(context), "context");
	if (cuda.load(&module, images[0]))
		check(cuda.load(&module, images[1]), "compile");
	check(cuda.function(&spin, module, "stoker_spin"), "stoker_spin");
	check(cuda.function(&node, module, "stoker_node"), "stoker_node");
	check(cuda.stream(&stream, CU_STREAM_NON_BLOCKING), "stream");
}

static void launch(CUfunction function, uint64_t ns)
{
	uint64_t cycles = ns * (uint64_t)clock_khz / 1000000;
	void *arguments[] = {&cycles};

	/* The simulated device takes the grid as the kernel's length. */
	check(cuda.launch(function, cuda.simulated ? (unsigned)ns : 1, 1, 1, 1, 1, 1, 0, stream,
			  arguments, NULL),
	      "launch");
}

/* Launch one batch between two events. The time between the events is what a trace must show, from
 * the start of the first kernel to the end of the last. */
static float batch(void)
{
	CUevent from, to;
	float ms = 0;

	check(cuda.event(&from, 0), "event");
	check(cuda.event(&to, 0), "event");
	launch(spin, 2000000); /* long enough that all of the batch is queued before it begins */
	check(cuda.record(from, stream), "event");
	for (int i = 0; i < SPINS - 1; i++)
		launch(spin, 50000);
	check(cuda.record(to, stream), "event");
	check(cuda.wait_event(to), "event");
	check(cuda.elapsed(&ms, from, to), "events");
	return ms;
}

static void run_graphs(void)
{
	CUgraph made;
	CUgraphExec executable;

	check(cuda.begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "capture");
	for (int i = 0; i < NODES; i++)
		launch(node, 20000);
	check(cuda.end_capture(stream, &made), "capture");
	check(cuda.instantiate(&executable, made, 0), "graph");
	for (int i = 0; i < GRAPHS; i++)
		check(cuda.launch_graph(executable, stream), "graph");
	check(cuda.wait(stream), "wait");
}

static void run_known(void)
{
	char *host = calloc(1, BYTES);
	CUdeviceptr memory;
	float ms;

	open_device();
	check(cuda.allocate(&memory, BYTES), "memory");
	for (int i = 0; i < WRITES; i++)
		check(cuda.write(memory, host, BYTES, stream), "write");
	for (int i = 0; i < FILLS; i++)
		check(cuda.fill(memory, 7, BYTES / 4, stream), "fill");
	check(cuda.wait(stream), "wait");
	for (int i = 0; i < READS; i++)
		check(cuda.read(host, memory, BYTES), "read");
	ms = batch();
	for (int i = 0; i < PAIRS;
	     i++) { /* a wait after each one, which bounds the distance of the clocks */
		launch(node, 20000);
		check(cuda.wait(stream), "wait");
	}
	run_graphs();
	printf("{\"spins\": %d, \"nodes\": %d, \"graphs\": %d, \"writes\": %d, \"reads\": %d, "
	       "\"fills\": %d, \"copy_bytes\": %d, \"batch_ns\": %.0f, \"spin_ns\": 50000, "
	       "\"simulated\": %s, \"value\": %d}\n",
	       SPINS, GRAPHS * NODES + PAIRS, GRAPHS, WRITES, READS, FILLS, BYTES, (double)ms * 1e6,
	       cuda.simulated ? "true" : "false", host[0]);
}

static void run_curve(unsigned long count, unsigned long ns, unsigned long depth)
{
	uint64_t from, cpu;

	open_device();
	for (unsigned long i = 0; i < 200; i++)
		launch(spin, ns);
	check(cuda.wait(stream), "wait");
	from = sk_tracer_clock_ns(CLOCK_MONOTONIC);
	cpu = sk_tracer_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (unsigned long i = 0; i < count; i++) {
		launch(spin, ns);
		if (i % depth == depth - 1)
			check(cuda.wait(stream), "wait");
	}
	check(cuda.wait(stream), "wait");
	printf("{\"launches\": %lu, \"elapsed_ns\": %llu, \"cpu_ns\": %llu}\n", count,
	       (unsigned long long)(sk_tracer_clock_ns(CLOCK_MONOTONIC) - from),
	       (unsigned long long)(sk_tracer_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu));
}

static void run_until(unsigned long ns)
{
	unsigned long made = 0;
	struct timeval none;
	fd_set input;

	open_device();
	printf("ready\n");
	fflush(stdout);
	do {
		for (int i = 0; i < 16; i++, made++)
			launch(spin, ns);
		check(cuda.wait(stream), "wait");
		none = (struct timeval){0, 0};
		FD_ZERO(&input);
		FD_SET(0, &input);
	} while (!select(1, &input, NULL, NULL, &none));
	printf("{\"launches\": %lu}\n", made);
}

int main(int argc, char **argv)
{
	unsigned long numbers[3] = {0, 0, 64};

	for (int i = 2; i < argc && i < 5; i++)
		numbers[i - 2] = strtoul(argv[i], NULL, 10);
	if (argc == 2 && !strcmp(argv[1], "known"))
		run_known();
	else if (argc >= 4 && !strcmp(argv[1], "curve"))
		run_curve(numbers[0], numbers[1], numbers[2] ? numbers[2] : 1);
	else if (argc == 3 && !strcmp(argv[1], "until"))
		run_until(numbers[0]);
	else
		fprintf(stderr, "usage: stoker-bench-cuda known | curve N NS [DEPTH] | until NS\n");
	return 0;
}
