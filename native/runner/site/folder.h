/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A job's folder, made when there is something to put into it.
 *
 * Most jobs of a burst write nothing, and making a folder costs more than starting them.
 */
#ifndef SK_RUNNER_SITE_FOLDER_H
#define SK_RUNNER_SITE_FOLDER_H

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/** Return a descriptor of the folder, made with mode 0700 if it is missing; negative errno. */
static inline int sk_runner_folder_open(const char *path)
{
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0 && errno == ENOENT && (!mkdir(path, 0700) || errno == EEXIST))
		folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return folder < 0 ? -errno : folder;
}

#endif
