// SPDX-License-Identifier: Apache-2.0
/*
 * SIM: a library that stands in for libcuda.so.1 or libnccl.so.2, for the probes over calls.
 *
 * Each function begins with the instruction its name's comment says, so that every kind of probe
 * site is met. Compiled by the tests, with -DNEWER for a library that replaces the first one.
 */
#define _GNU_SOURCE
#include <time.h>

#define FUNCTION(name, first)                                                                      \
	__asm__(".text\n.balign 16\n.globl " #name "\n.type " #name ",@function\n" #name ":\n"     \
		"\t" first "\n\tpush %rbp\n\tmov %rsp, %rbp\n\tpop %rbp\n\tret\n"                  \
		".size " #name ", .-" #name "\n")

#define ENDBR64 ".byte 0xf3, 0x0f, 0x1e, 0xfa"

#ifdef NEWER
FUNCTION(cuNewer, "lea 0(%rsp), %rax"); /* moves all that follows */
#endif
FUNCTION(cuLaunchKernel, "");				     /* push */
FUNCTION(cuLaunchKernel_ptsz, "");			     /* push, at another address */
FUNCTION(cuMemAlloc_v2, ".byte 0x0f, 0x1f, 0x44, 0, 0");     /* nop5 */
FUNCTION(cuGraphLaunch, "nop");				     /* nop1 */
FUNCTION(cuStreamSynchronize, ENDBR64);			     /* endbr64, then push */
FUNCTION(cuCtxSynchronize, ENDBR64 "\n\tlea 0(%rsp), %rax"); /* endbr64, then stepped */
FUNCTION(cuModuleLoadData, "lea 0(%rsp), %rax");	     /* stepped */
FUNCTION(ncclAllReduce, "");
FUNCTION(ncclGroupEnd, ".byte 0x0f, 0x1f, 0x44, 0, 0");

/* The older name of the same code. */
__asm__(".globl cuMemAlloc\n.type cuMemAlloc,@function\n.set cuMemAlloc, cuMemAlloc_v2\n");

/* Sleeps for two milliseconds. */
__attribute__((noinline)) int cuEventSynchronize(void)
{
	struct timespec left = {.tv_nsec = 2000000};

	return nanosleep(&left, NULL);
}

/* Calls another traced function; the address is taken at run time, so it is a real call. */
static int (*volatile inner)(void);

int cuMemcpyHtoDAsync_v2(void)
{
	static volatile int copies;

	return ++copies;
}

int cuMemcpyAsync(void)
{
	inner = cuMemcpyHtoDAsync_v2;
	return inner() + 1;
}

/* `depth` of them inside of each other. */
int cuMemMap(int depth)
{
	static int (*volatile again)(int);

	again = cuMemMap;
	return depth > 1 ? again(depth - 1) + 1 : 1;
}

static int chosen(void)
{
	return 0;
}

static int (*choose(void))(void)
{
	return chosen;
}

int cuMemFree_v2(void) __attribute__((ifunc("choose")));

/* A USDT probe as sys/sdt.h writes it, with a semaphore: provider fake, name launch. */
unsigned short fake_launch_semaphore __attribute__((section(".probes"), used));

int usdt_caller(void)
{
	__asm__ volatile("990: nop\n"
			 ".pushsection .note.stapsdt,\"\",\"note\"\n"
			 ".balign 4\n"
			 ".4byte 992f-991f, 994f-993f, 3\n"
			 "991: .asciz \"stapsdt\"\n"
			 "992: .balign 4\n"
			 "993: .8byte 990b\n"
			 ".8byte _.stapsdt.base\n"
			 ".8byte fake_launch_semaphore\n"
			 ".asciz \"fake\"\n.asciz \"launch\"\n.asciz \"\"\n"
			 "994: .balign 4\n"
			 ".popsection\n"
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
			 ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"
			 "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n"
			 ".popsection\n");
	return fake_launch_semaphore;
}
