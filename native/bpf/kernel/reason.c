/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of libbpf while programs are loaded; see reason.h. libbpf has one print function per
 * process, so the memory here is one per process too; hosts attach under one lock (the
 * interpreter's). */
#define _GNU_SOURCE /* vasprintf */
#include "reason.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

static libbpf_print_fn_t told_before;
static char heard[160];
static int heard_verifier;
static char heard_program[64];

static size_t line_length(const char *line)
{
	return strcspn(line, "\n");
}

static int says_something(const char *line, size_t length)
{
	static const char *const noise[] = {"processed ", "verification time", "stack depth", "--"};

	for (size_t i = 0; i < sizeof(noise) / sizeof(*noise); i++)
		if (!strncmp(line, noise[i], strlen(noise[i])))
			return 0;
	return length > 0;
}

void sk_bpf_reason_verifier_line(const char *log, char *ret, size_t size)
{
	ret[0] = 0;
	while (*log) {
		size_t length = line_length(log);

		if (says_something(log, length))
			snprintf(ret, size, "%.*s", (int)length, log);
		log += length + (log[length] == '\n');
	}
}

void sk_bpf_reason_program_of(const char *message, char *ret, size_t size)
{
	static const char prefix[] = "libbpf: prog '";
	const char *name = message + sizeof(prefix) - 1;

	ret[0] = 0;
	if (!strncmp(message, prefix, sizeof(prefix) - 1))
		snprintf(ret, size, "%.*s", (int)strcspn(name, "'"), name);
}

const char *sk_bpf_reason_program(void)
{
	return heard_program;
}

/* Verifier logs are megabytes long: they are formatted once, on this failure path alone. */
static void hear(const char *message)
{
	const char *log = strstr(message, "BEGIN PROG LOAD LOG --\n");

	if (!heard_program[0])
		sk_bpf_reason_program_of(message, heard_program, sizeof(heard_program));
	if (log && !heard_verifier) {
		sk_bpf_reason_verifier_line(log + strlen("BEGIN PROG LOAD LOG --\n"), heard,
					    sizeof(heard));
		heard_verifier = 1;
	} else if (!heard[0]) {
		snprintf(heard, sizeof(heard), "%.*s", (int)line_length(message), message);
	}
}

static int listener(enum libbpf_print_level level, const char *format, va_list args)
{
	char *message = NULL;

	if (level != LIBBPF_WARN)
		return 0;
	if (vasprintf(&message, format, args) >= 0) {
		hear(message);
		free(message);
	}
	return 0;
}

void sk_bpf_reason_forget(void)
{
	heard[0] = heard_program[0] = 0;
	heard_verifier = 0;
}

void sk_bpf_reason_listen(void)
{
	sk_bpf_reason_forget();
	told_before = libbpf_set_print(listener);
}

void sk_bpf_reason_restore(void)
{
	libbpf_set_print(told_before);
}

void sk_bpf_reason_write(char *ret, size_t size, const char *what, int negative_errno)
{
	int denied = negative_errno == -EPERM || negative_errno == -EACCES;

	if (denied && !heard_verifier) {
		snprintf(ret, size, "%s: %s: CAP_BPF and CAP_PERFMON, or root, are needed", what,
			 strerror(-negative_errno));
		return;
	}
	snprintf(ret, size, "%s: %s%s%s", what, strerror(-negative_errno), heard[0] ? ": " : "",
		 heard);
}
