/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/journal/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int sk_runner_file_lock_make(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static struct flock lock_of(uint32_t slot)
{
	return (struct flock){
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)slot,
		.l_len = 1,
	};
}

bool sk_runner_file_lock_is_held(const char *path, uint32_t slot)
{
	struct flock lock = lock_of(slot);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	bool held = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;

	if (fd >= 0)
		close(fd);
	return held;
}

int sk_runner_file_lock_take(const char *path, uint32_t slot)
{
	struct flock lock = lock_of(slot);
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_SETLK, &lock)) {
		close(fd);
		return -EAGAIN;
	}
	return fd;
}

int sk_runner_file_lock_any(const char *path)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(path, O_RDWR | O_CLOEXEC), slot = -1;

	/* A length of zero tests every byte; the answer is one lock that conflicts. */
	if (fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
		slot = (int)lock.l_start;
	if (fd >= 0)
		close(fd);
	return slot;
}
