// SPDX-License-Identifier: Apache-2.0
//
// A kernel that refuses one BPF program, for a process that is started with this preloaded: loading
// the program named by REFUSED_PROGRAM fails like a verifier's refusal. libbpf calls the
// kernel through syscall(2).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	const char *refused = getenv("REFUSED_PROGRAM");
	long a[6];
	va_list arguments;

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_bpf && a[0] == BPF_PROG_LOAD && refused) {
		const union bpf_attr *asked = (const union bpf_attr *)a[1];

		if (!strncmp(asked->prog_name, refused, sizeof(asked->prog_name) - 1)) {
			if (asked->log_buf && asked->log_size > 40)
				snprintf((char *)asked->log_buf, asked->log_size,
					 "R1 type=ctx expected=simulated\n");
			errno = EINVAL;
			return -1;
		}
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
