/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Uprobes of one process by bare system calls: one link for many sites, or one link for each.
 *
 * Attaching and detaching wait for the kernel (tens of milliseconds for a link, whatever the number
 * of its sites), so neither belongs on a hot path.
 */
#ifndef SK_BPF_KERNEL_UPROBE_H
#define SK_BPF_KERNEL_UPROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* enum bpf_attach_type of include/uapi/linux/bpf.h; the build host's header may be older. */
#define SK_TRACE_UPROBE_MULTI 48

/* Sites of one file; the arrays have `count` entries each. */
struct sk_bpf_uprobes {
	const char *path;
	uint32_t pid; /* thread group */
	bool on_return;
	const uint64_t *offsets;    /* in the file */
	const uint64_t *semaphores; /* in the file, 0: none */
	const uint64_t *cookies;
	uint32_t count;
};

/* Make one link for all of them (Linux 6.6). A descriptor, or a negative errno. */
int sk_bpf_uprobe_link_many(int program_fd, const struct sk_bpf_uprobes *uprobes);

/* Make a link for the one at `index`; closing it detaches. A descriptor, or a negative errno. */
int sk_bpf_uprobe_link_one(int program_fd, const struct sk_bpf_uprobes *uprobes, uint32_t index);

#endif
