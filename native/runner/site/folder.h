/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A job's folder, made by whoever first has something to put into it.
 *
 */
#ifndef SK_RUNNER_SITE_FOLDER_H
#define SK_RUNNER_SITE_FOLDER_H

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/** A descriptor of the folder, made 0700 if it is not there; negative errno. */
static inline int sk_runner_folder_open(const char *path)
{
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0 && errno == ENOENT && (!mkdir(path, 0700) || errno == EEXIST))
		folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return folder < 0 ? -errno : folder;
}

#endif
