/* SPDX-License-Identifier: Apache-2.0 */
/* stoker-gate CGROUP OBJECT: load the device gate, attach it to a cgroup and exit.
 *
 * The spawner runs it at its start if no gate is attached yet. The attachment belongs to the cgroup
 * (no link, no pin): it outlives this process and the spawner, and ends with the cgroup. On failure
 * one line on standard output says why. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static char last_line[160];

/* Keep the last warning: it names the step that failed. */
static int keep_line(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level == LIBBPF_WARN) {
		vsnprintf(last_line, sizeof(last_line), format, arguments);
		last_line[strcspn(last_line, "\n")] = 0;
	}
	return 0;
}

static int fail(const char *step, int error)
{
	printf("%s: %s%s%s\n", step, strerror(error < 0 ? -error : error), last_line[0] ? "; " : "",
	       last_line);
	return 1;
}

int main(int argc, char **argv)
{
	struct bpf_program *program;
	struct bpf_object *object;
	int cgroup, error;

	if (argc != 3) {
		fprintf(stderr, "usage: stoker-gate CGROUP OBJECT\n");
		return 2;
	}
	libbpf_set_print(keep_line);
	cgroup = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cgroup < 0)
		return fail("the cgroup cannot be opened", errno);
	object = bpf_object__open_file(argv[2], NULL);
	if (!object)
		return fail("the BPF object cannot be read", errno);
	error = bpf_object__load(object);
	if (error)
		return fail("the kernel refused the BPF program", error);
	program = bpf_object__find_program_by_name(object, "device_gate");
	if (!program)
		return fail("the BPF object has no device gate", ENOENT);
	error = bpf_prog_attach(bpf_program__fd(program), cgroup, BPF_CGROUP_DEVICE,
				BPF_F_ALLOW_MULTI);
	return error ? fail("the BPF program cannot be attached", error) : 0;
}
