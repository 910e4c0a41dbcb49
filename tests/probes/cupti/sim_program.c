/* SPDX-License-Identifier: Apache-2.0 */
/* SIM: CUDA programs for the tests of the CUPTI tracer, on the simulated driver.
 *
 * The first argument names the program. Each one prints what a trace of it must show, as one line
 * of JSON.
 */
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern CUresult sim_runtime_launch(CUfunction function, unsigned grid, CUstream stream);

static CUcontext contexts[2];
static CUfunction saxpy, gemm;

static void check(CUresult error, const char *what)
{
	if (error) {
		fprintf(stderr, "%s: %d\n", what, (int)error);
		exit(1);
	}
}

static long tid(void)
{
	return syscall(SYS_gettid);
}

static void open_devices(int count)
{
	CUmodule module;

	check(cuInit(0), "cuInit");
	for (int device = 0; device < count; device++)
		check(cuDevicePrimaryCtxRetain(&contexts[device], device), "context");
	check(cuCtxSetCurrent(contexts[0]), "current");
	check(cuModuleLoadData(&module, "image"), "module");
	check(cuModuleGetFunction(&saxpy, module, "_Z5saxpyfPfS_"), "saxpy");
	check(cuModuleGetFunction(&gemm, module, "_Z4gemmPfS_S_i"), "gemm");
}

static void launch(CUfunction function, unsigned ns, CUstream stream)
{
	check(cuLaunchKernel(function, ns, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), "launch");
}

static void mixed(void)
{
	enum { BYTES = 1 << 20 };
	char *host = calloc(1, BYTES);
	CUdeviceptr one, two;
	CUstream stream;

	open_devices(1);
	check(cuStreamCreate(&stream, 0), "stream");
	check(cuMemAlloc(&one, BYTES), "memory");
	check(cuMemAlloc(&two, BYTES), "memory");
	for (int i = 0; i < 3; i++)
		check(cuMemcpyHtoDAsync(one, host, BYTES, stream), "write");
	for (int i = 0; i < 10; i++)
		launch(saxpy, 20000, stream);
	for (int i = 0; i < 5; i++)
		launch(gemm, 100000, stream);
	check(cuMemcpyDtoDAsync(two, one, BYTES / 2, stream), "copy");
	check(cuMemcpyDtoDAsync(two, one, 0, stream), "copy of nothing");
	check(cuMemsetD32Async(one, 7, 1024, stream), "fill");
	for (int i = 0; i < 4; i++)
		check(cuStreamSynchronize(stream), "wait");
	check(cuMemcpyDtoH(host, one, 4096), "read");
	if (cuLaunchKernel(gemm, 0, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) == CUDA_SUCCESS)
		exit(1);
	printf("{\"tid\": %ld, \"value\": %d}\n", tid(), host[0]);
}

struct task {
	pthread_t thread;
	int number;
	int launches;
	long tid;
};

static void *run_task(void *argument)
{
	struct task *task = argument;
	CUstream stream;

	task->tid = tid();
	check(cuCtxSetCurrent(contexts[task->number % 2]), "current");
	check(cuStreamCreate(&stream, 0), "stream");
	for (int i = 0; i < task->launches; i++)
		launch(task->number % 2 ? gemm : saxpy, 1000, stream);
	check(cuStreamSynchronize(stream), "wait");
	return NULL;
}

static void many(int threads, int launches)
{
	struct task *tasks = calloc((size_t)threads, sizeof(*tasks));

	open_devices(2);
	for (int i = 0; i < threads; i++) {
		tasks[i] = (struct task){.number = i, .launches = launches};
		pthread_create(&tasks[i].thread, NULL, run_task, &tasks[i]);
	}
	printf("{\"tids\": [");
	for (int i = 0; i < threads; i++) {
		pthread_join(tasks[i].thread, NULL);
		printf("%s%ld", i ? ", " : "", tasks[i].tid);
	}
	printf("]}\n");
}

static void graph(int launches, int nodes)
{
	CUstream stream;
	CUgraph made;
	CUgraphExec executable;

	open_devices(1);
	check(cuStreamCreate(&stream, 0), "stream");
	launch(gemm, 1000, stream);
	check(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "capture");
	for (int i = 0; i < nodes; i++)
		launch(saxpy, 10000, stream);
	check(cuStreamEndCapture(stream, &made), "captured");
	check(cuGraphInstantiateWithFlags(&executable, made, 0), "executable");
	for (int i = 0; i < launches; i++)
		check(cuGraphLaunch(executable, stream), "graph");
	check(cuStreamSynchronize(stream), "wait");
	printf("{\"tid\": %ld}\n", tid());
}

/* Launch until standard input ends, at most `rate` a second (0: at will). */
static void loop(int rate, int ns)
{
	struct timespec pause = {0, rate ? 1000000000L / rate : 0};
	unsigned long made = 0;
	fd_set input;
	CUstream stream;

	open_devices(1);
	check(cuStreamCreate(&stream, 0), "stream");
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct timeval none = {0, 0};

		launch(saxpy, (unsigned)ns, stream);
		if (++made % 16 == 0)
			check(cuStreamSynchronize(stream), "wait");
		if (rate)
			nanosleep(&pause, NULL);
		FD_ZERO(&input);
		FD_SET(0, &input);
		if (made % 16 == 0 && select(1, &input, NULL, NULL, &none) > 0)
			break;
	}
	check(cuStreamSynchronize(stream), "wait");
	printf("{\"made\": %lu}\n", made);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Run a host that sets the pace: it computes for `work_ns`, then launches, for so many ms. Kernels
 * have one of sixteen lengths up to `ns`, by chance; their number and the sum of their lengths are
 * printed. Work is measured in processor time, so other processes on the machine do not shorten it.
 */
static void pace(int work_ns, int ns, int ms)
{
	uint64_t from, until, cpu, begin, chance = 88172645463325252, total = 0, made = 0;
	CUstream stream;

	open_devices(1);
	check(cuStreamCreate(&stream, 0), "stream");
	from = now_ns(CLOCK_MONOTONIC);
	until = from + (uint64_t)ms * 1000000;
	cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
	while (now_ns(CLOCK_MONOTONIC) < until) {
		unsigned length;

		chance ^= chance << 13; /* xorshift64, Marsaglia 2003 */
		chance ^= chance >> 7;
		chance ^= chance << 17;
		length = (unsigned)ns / 16 * (1 + (unsigned)(chance >> 40 & 15));
		begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
		while (now_ns(CLOCK_THREAD_CPUTIME_ID) < begin + (uint64_t)work_ns)
			;
		launch(saxpy, length, stream);
		total += length;
		made++;
	}
	cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	from = now_ns(CLOCK_MONOTONIC) - from;
	check(cuStreamSynchronize(stream), "wait");
	printf("{\"made\": %lu, \"busy_ns\": %lu, \"took_ns\": %lu, \"cpu_ns\": %lu}\n",
	       (unsigned long)made, (unsigned long)total, (unsigned long)from, (unsigned long)cpu);
}

static void forked(void)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	open_devices(1);
	for (int i = 0; i < (child ? 3 : 5); i++)
		launch(saxpy, 1000, NULL);
	check(cuCtxSynchronize(), "wait");
	if (child)
		waitpid(child, NULL, 0);
	/* A child of a process that uses CUDA can only leave. */
	if (child && !fork())
		exit(0);
	wait(NULL);
}

static void on_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id,
		    const void *data)
{
}

/* Run a program that profiles itself; the argument says when. */
static void profiles(int first)
{
	void *library = dlopen("libcupti.so.13", RTLD_NOW);
	CUptiResult (*subscribe)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *) =
		(CUptiResult(*)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *))dlsym(
			library, "cuptiSubscribe");
	CUpti_SubscriberHandle handle;
	int error = -1;

	if (first)
		error = (int)subscribe(&handle, on_call, NULL);
	open_devices(1);
	launch(saxpy, 1000, NULL);
	check(cuCtxSynchronize(), "wait");
	if (!first)
		error = (int)subscribe(&handle, on_call, NULL);
	printf("{\"error\": %d}\n", error);
}

static void die(void)
{
	struct timespec pause = {0, 300000000};
	CUstream stream;

	open_devices(1);
	check(cuStreamCreate(&stream, 0), "stream");
	for (int i = 0; i < 20; i++)
		launch(saxpy, 1000, stream);
	check(cuStreamSynchronize(stream), "wait");
	nanosleep(&pause, NULL);
	launch(gemm, 2000000000u, stream);
	kill(getpid(), SIGKILL);
}

static void runtime(int launches)
{
	open_devices(1);
	for (int i = 0; i < launches; i++)
		check(sim_runtime_launch(saxpy, 2000, NULL), "launch");
	check(cuCtxSynchronize(), "wait");
	printf("{\"tid\": %ld}\n", tid());
}

int main(int argc, char **argv)
{
	const char *which = argc > 1 ? argv[1] : "";
	int one = argc > 2 ? atoi(argv[2]) : 0, two = argc > 3 ? atoi(argv[3]) : 0;
	int three = argc > 4 ? atoi(argv[4]) : 0;

	if (!strcmp(which, "mixed"))
		mixed();
	else if (!strcmp(which, "many"))
		many(one, two);
	else if (!strcmp(which, "graph"))
		graph(one, two);
	else if (!strcmp(which, "loop"))
		loop(one, two);
	else if (!strcmp(which, "pace"))
		pace(one, two, three);
	else if (!strcmp(which, "fork"))
		forked();
	else if (!strcmp(which, "profiles"))
		profiles(one);
	else if (!strcmp(which, "die"))
		die();
	else if (!strcmp(which, "runtime"))
		runtime(one);
	else
		return 2;
	return 0;
}
