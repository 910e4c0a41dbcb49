/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/wire/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/** Take one NUL-terminated string from `*at`; NULL if there is none before `end`. */
static const char *take_string(const char **at, const char *end)
{
	const char *text = *at;
	const char *stop = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;

	if (!stop)
		return NULL;
	*at = stop + 1;
	return text;
}

static int check_counts(const struct sk_runner_launch *fixed, const char **ret_why)
{
	*ret_why = "too many arguments and variables";
	if (fixed->arguments > SK_ARGUMENTS_MAX || fixed->variables > SK_ARGUMENTS_MAX ||
	    fixed->arguments + fixed->variables + 5 > SK_ARGUMENTS_MAX)
		return -E2BIG;
	*ret_why = "too many supplementary groups";
	if (fixed->groups > SK_GROUPS_MAX)
		return -E2BIG;
	*ret_why = "too many devices";
	if (fixed->devices > SK_DEVICES_MAX)
		return -E2BIG;
	return 0;
}

static int check_values(const struct sk_runner_launch *fixed, const char **ret_why)
{
	*ret_why = "no program was given";
	if (fixed->arguments == 0)
		return -EINVAL;
	*ret_why = "unknown flag";
	if (fixed->flags & ~(uint32_t)SK_LAUNCH_FLAGS)
		return -EINVAL;
	*ret_why = "job and attempt count from 1";
	if (fixed->key.job == 0 || fixed->key.attempt == 0)
		return -EINVAL;
	*ret_why = "umask is above 0777";
	if (fixed->umask > 0777)
		return -EINVAL;
	*ret_why = "uid and gid must not be -1";
	if (fixed->uid == UINT32_MAX || fixed->gid == UINT32_MAX)
		return -EINVAL;
	*ret_why = "a limit of zero";
	if (((fixed->flags & (SK_LAUNCH_MEMORY | SK_LAUNCH_MEMORY_DEFAULT)) &&
	     fixed->memory_bytes == 0) ||
	    ((fixed->flags & (SK_LAUNCH_PIDS | SK_LAUNCH_PIDS_DEFAULT)) && fixed->pids == 0) ||
	    ((fixed->flags & SK_LAUNCH_TIME) && fixed->time_limit_ns == 0))
		return -EINVAL;
	*ret_why = "less than 10 milli of a CPU";
	if ((fixed->flags & SK_LAUNCH_CPU) && fixed->cpu_milli < 10)
		return -EINVAL;
	return 0;
}

static int take_paths(struct sk_runner_launch_view *view, const char **at, const char **ret_why)
{
	view->cwd = take_string(at, view->end);
	view->folder = take_string(at, view->end);
	view->trace_folder = take_string(at, view->end);
	view->cpus = take_string(at, view->end);
	view->memory_nodes = take_string(at, view->end);
	*ret_why = "a string is not ended";
	if (!view->cwd || !view->folder || !view->trace_folder || !view->cpus ||
	    !view->memory_nodes)
		return -EBADMSG;
	*ret_why = "the job's folder or trace folder is no absolute path of at most 255 bytes";
	if (view->folder[0] != '/' || strlen(view->folder) > SK_PATH_MAX)
		return -EINVAL;
	if (view->trace_folder[0] &&
	    (view->trace_folder[0] != '/' || strlen(view->trace_folder) > SK_PATH_MAX))
		return -EINVAL;
	*ret_why = "a list of CPUs or memory nodes has more than 1023 bytes";
	if (strlen(view->cpus) > SK_LIST_MAX || strlen(view->memory_nodes) > SK_LIST_MAX)
		return -E2BIG;
	*ret_why = "the working directory is no absolute path";
	return view->cwd[0] == '/' ? 0 : -EINVAL;
}

int sk_runner_launch_parse(const void *bytes, size_t size, struct sk_runner_launch_view *ret,
			   const char **ret_why)
{
	const struct sk_runner_launch *fixed = bytes;
	struct sk_runner_launch_view view = {.fixed = fixed};
	const char *at;
	size_t arrays;
	int error;

	*ret_why = "the launch is shorter than it says";
	if (size < sizeof(*fixed) || fixed->size > size || fixed->size < sizeof(*fixed) ||
	    fixed->size % 8)
		return -EBADMSG;
	*ret_why = "the launch is larger than 384 KiB";
	if (fixed->size > SK_LAUNCH_MAX)
		return -E2BIG;
	error = check_counts(fixed, ret_why);
	if (error)
		return error;
	*ret_why = "the launch is shorter than it says";
	arrays =
		fixed->groups * sizeof(uint32_t) + fixed->devices * sizeof(struct sk_runner_device);
	if (arrays > fixed->size - sizeof(*fixed))
		return -EBADMSG;
	view.groups = (const uint32_t *)(fixed + 1);
	view.devices = (const struct sk_runner_device *)(view.groups + fixed->groups);
	view.end = (const char *)bytes + fixed->size;
	at = (const char *)(view.devices + fixed->devices);
	error = take_paths(&view, &at, ret_why);
	if (error)
		return error;
	view.arguments = at;
	*ret_why = "a string is not ended";
	for (uint32_t i = 0; i < fixed->arguments + fixed->variables; i++)
		if (!take_string(&at, view.end))
			return -EBADMSG;
	error = check_values(fixed, ret_why);
	if (!error)
		*ret = view;
	return error;
}

void sk_runner_launch_vectors(const struct sk_runner_launch_view *view, char **ret_argv,
			      char ***ret_envp)
{
	const char *at = view->arguments;
	uint32_t filled = 0;

	for (uint32_t i = 0; i < view->fixed->arguments; i++)
		ret_argv[filled++] = (char *)(uintptr_t)take_string(&at, view->end);
	ret_argv[filled++] = NULL;
	*ret_envp = ret_argv + filled;
	for (uint32_t i = 0; i < view->fixed->variables; i++)
		ret_argv[filled++] = (char *)(uintptr_t)take_string(&at, view->end);
	ret_argv[filled] = NULL;
}
