/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/site/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "runner/site/site.h"

int sk_runner_own(const char *journal)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[SK_SITE_PATH];
	int fd;

	snprintf(path, sizeof(path), "%s/spawner.lock", journal);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	/* The descriptor stays open: closing any descriptor of the file would release the lock. */
	return fcntl(fd, F_SETLK, &lock) ? -EBUSY : 0;
}
