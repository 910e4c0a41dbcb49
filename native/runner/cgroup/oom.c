/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/cgroup/oom.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

enum { RAISED = 500 };

static const char FILE_NAME[] = "/proc/self/oom_score_adj";

static bool may_raise_for_good(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	return syscall(SYS_capget, &header, data) == 0 &&
	       (data[CAP_SYS_RESOURCE / 32].effective & (1u << (CAP_SYS_RESOURCE % 32)));
}

static bool set(int score)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", score);
	return sk_runner_file_write(AT_FDCWD, FILE_NAME, text) == 0;
}

void sk_runner_oom_find(struct sk_runner_site *site)
{
	char text[16];
	int own, floor;

	site->oom_score = RAISED;
	site->oom_held = may_raise_for_good();
	snprintf(site->oom_why, SK_SITE_TEXT,
		 "jobs are ended before the node's processes when memory runs out");
	if (site->oom_held)
		return;
	if (sk_runner_file_read(AT_FDCWD, FILE_NAME, text, sizeof(text)) <= 0) {
		snprintf(site->oom_why, SK_SITE_TEXT, "%s cannot be read", FILE_NAME);
		return;
	}
	own = atoi(text);
	for (floor = -1; floor < own && !set(floor); floor++)
		;
	set(own);
	if (floor < 0) {
		snprintf(site->oom_why, SK_SITE_TEXT,
			 "no CAP_SYS_RESOURCE: a job may lower its oom_score_adj, others are then "
			 "ended before it when memory runs out");
		return;
	}
	site->oom_held = true;
	site->oom_score = floor;
	snprintf(site->oom_why, SK_SITE_TEXT,
		 "no CAP_SYS_RESOURCE: jobs are not ended before the node's processes when memory "
		 "runs out, and none after another");
}

void sk_runner_oom_enter(const struct sk_runner_site *site)
{
	set(site->oom_score);
}
