/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The tracing layer of the simulated loader: the calls that it knows, and the making of a call with
 * its callbacks.
 *
 * A tracer that is on when a call begins gets both callbacks of it. Calls from inside of a callback
 * have no callbacks. Memory: static. Threads: any.
 */
#ifndef FAKE_LAYER_H
#define FAKE_LAYER_H

#include "levelzero/abi.h"

#define EXPORTED __attribute__((visibility("default")))

enum { UNSUPPORTED = 0x78000003, BAD_ARGUMENT = 0x78000004 };

#ifdef FAKE_OLDER
#define NEWER_APIS(X)
#else
#define NEWER_APIS(X)                                                                              \
	X(CommandListAppendLaunchKernelWithParameters)                                             \
	X(CommandListAppendLaunchKernelWithArguments)
#endif

#define APIS(X)                                                                                    \
	X(CommandListCreate)                                                                       \
	X(CommandListCreateImmediate)                                                              \
	X(CommandListReset)                                                                        \
	X(CommandListDestroy)                                                                      \
	X(EventPoolCreate)                                                                         \
	X(EventPoolDestroy)                                                                        \
	X(EventCreate)                                                                             \
	X(EventDestroy)                                                                            \
	X(EventHostReset)                                                                          \
	X(CommandListAppendEventReset)                                                             \
	X(KernelDestroy)                                                                           \
	X(ContextDestroy)                                                                          \
	X(CommandListAppendLaunchKernel)                                                           \
	X(CommandListAppendLaunchCooperativeKernel)                                                \
	X(CommandListAppendLaunchKernelIndirect)                                                   \
	X(CommandListAppendMemoryCopy)                                                             \
	NEWER_APIS(X)                                                                              \
	X(CommandListAppendMemoryFill)                                                             \
	X(CommandQueueExecuteCommandLists)

enum api {
#define API(name) IN_##name,
	APIS(API)
#undef API
		API_COUNT
};

/** Make a call; `body` executes the call whose arguments `call` points to. */
int traced(enum api api, void *call, int (*body)(void *call));

#endif
