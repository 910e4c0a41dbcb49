// SPDX-License-Identifier: Apache-2.0
// The ways of launching. Each says what its gaps wait for, by the rules of
// native/trace/causes/causes.h.
#define _GNU_SOURCE
#include "launches.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CROWD = 300 };

static void launch(cl_kernel kernel, double ms)
{
	cl_event event = device_launch(kernel, ms, 0, NULL);

	must(clWaitForEvents(1, &event), "wait");
	device_done(event);
}

static void *launch_once(void *kernel)
{
	launch(kernel, 0.3);
	return NULL;
}

/* A thread for each launch: it is not there yet while its maker keeps the device waiting. */
static void by_new_threads(int rounds, void (*keep)(double), double ms)
{
	device_open();
	cl_kernel kernel = device_kernel();

	for (int round = 0; round < rounds; round++) {
		pthread_t thread;

		keep(ms);
		must(pthread_create(&thread, NULL, launch_once, kernel), "thread");
		pthread_join(thread, NULL);
	}
}

static void threads_work(int rounds)
{
	by_new_threads(rounds, work, 5);
}

static void threads_nap(int rounds)
{
	by_new_threads(rounds, nap, 5);
}

/* The parent keeps the device waiting for the next of its children. */
static void children_nap(int rounds)
{
	for (int round = 0; round < rounds; round++) {
		pid_t child = fork();

		if (!child) {
			device_open();
			_exit(0);
		}
		must(waitpid(child, NULL, 0) != child, "child");
		if (round + 1 < rounds) /* after the last nobody calls any more */
			nap(200);
	}
}

/* It sleeps until its child has begun its program, and then until that has ended. */
static void start_programs(int rounds)
{
	device_open();
	cl_kernel kernel = device_kernel();

	for (int round = 0; round < rounds; round++) {
		char *argv[] = {"sleep", "0.02", NULL};
		pid_t child = vfork();

		if (!child) {
			execv("/bin/sleep", argv);
			_exit(1);
		}
		must(waitpid(child, NULL, 0) != child, "child");
		launch(kernel, 0.3);
	}
}

/* Nothing that waits is ever called, and what a tracer has not taken in at the end is lost. */
static void poll_status(int rounds)
{
	const struct timespec moment = {0, 100000};

	device_open();
	cl_kernel kernel = device_kernel();

	for (int round = 0; round < rounds; round++) {
		cl_event event = device_launch(kernel, 5, 0, NULL);
		cl_int status = CL_QUEUED;

		device_flush();
		while (status != CL_COMPLETE) {
			nanosleep(&moment, NULL);
			must(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
					    sizeof(status), &status, NULL),
			     "status");
		}
		device_done(event);
		work(5);
	}
	tell();
	_exit(0);
}

static struct {
	sem_t over;
	int left;
	cl_kernel kernel;
} chain;

/* Runs in a thread of the driver, which makes the next launch. */
static void CL_CALLBACK next_of_chain(cl_event event, cl_int status, void *unused)
{
	(void)status;
	(void)unused;
	device_done(event);
	if (!--chain.left) {
		sem_post(&chain.over);
		return;
	}
	nap(8);
	event = device_launch(chain.kernel, 0.5, 0, NULL);
	must(clSetEventCallback(event, CL_COMPLETE, next_of_chain, NULL), "callback");
	device_flush();
}

static void callbacks(int rounds)
{
	device_open();
	chain.kernel = device_kernel();
	chain.left = rounds;
	sem_init(&chain.over, 0, 0);
	cl_event event = device_launch(chain.kernel, 0.5, 0, NULL);

	must(clSetEventCallback(event, CL_COMPLETE, next_of_chain, NULL), "callback");
	device_flush();
	sem_wait(&chain.over);
}

/* Launches that wait for each other in a queue without order. */
static void in_diamonds(int rounds)
{
	device_open();
	cl_kernel kernel = device_kernel();

	for (int round = 0; round < rounds; round++) {
		cl_event event[4];

		event[0] = device_launch(kernel, 0.5, 0, NULL);
		event[1] = device_launch(kernel, 0.5, 1, &event[0]);
		event[2] = device_launch(kernel, 0.5, 1, &event[0]);
		event[3] = device_launch(kernel, 0.5, 2, &event[1]);
		device_finish();
		for (int i = 0; i < 4; i++)
			device_done(event[i]);
		nap(7);
		work(3);
	}
}

static void *nap_and_launch(void *rounds)
{
	const struct timespec moment = {0, 20000000};
	cl_kernel kernel = device_kernel();

	for (int round = 0; round < *(int *)rounds; round++) {
		nanosleep(&moment, NULL); /* of all at once: no time of the device's own */
		launch(kernel, 0.2);
	}
	clReleaseKernel(kernel);
	return NULL;
}

/* More threads than a tracer gives places to. */
static void crowd(int rounds)
{
	pthread_t threads[CROWD];

	device_open();
	for (int i = 0; i < CROWD; i++)
		must(pthread_create(&threads[i], NULL, nap_and_launch, &rounds), "thread");
	for (int i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
}

const struct way WAYS[] = {{"threads-work", threads_work},
			   {"threads-nap", threads_nap},
			   {"children-nap", children_nap},
			   {"start-programs", start_programs},
			   {"poll-status", poll_status},
			   {"callbacks", callbacks},
			   {"in-diamonds", in_diamonds},
			   {"crowd", crowd},
			   {NULL, NULL}};
