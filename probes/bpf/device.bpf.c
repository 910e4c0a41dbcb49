/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Opens of device files by jobs: which job opened which device, and which opens were refused.
 *
 * The program is attached to the jobs cgroup beside the device gate and after it, so that nothing
 * outside jobs comes here, and it always allows: an open that another program refused stays
 * refused. Kernels from 5.18 on report that refusal to it. Harmless devices that every program
 * opens are left out unless they were refused. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "notice.bpf.h"
#include "job.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Numbers: Documentation/admin-guide/devices.txt: memory devices but mem, terminals. */
static __always_inline bool is_everyday(struct bpf_cgroup_dev_ctx *ctx)
{
	if ((ctx->access_type & 0xffff) != 2) /* BPF_DEVCG_DEV_CHAR */
		return false;
	if (ctx->major == 1)
		return ctx->minor == 3 || ctx->minor == 5 || (ctx->minor >= 7 && ctx->minor <= 9);
	return ctx->major == 5 || (ctx->major >= 136 && ctx->major <= 143);
}

static __always_inline bool was_refused(void)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_retval))
		return bpf_get_retval() < 0;
	return false;
}

SEC("cgroup/dev")
int on_device(struct bpf_cgroup_dev_ctx *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	bool refused = was_refused();
	struct sk_notice *notice;

	if (!refused && is_everyday(ctx))
		return 1;
	if (refused)
		notice = notice_begin(&critical_notices, SK_PRODUCER_REFUSED_OPEN,
				      SK_NOTICE_REFUSED_OPEN);
	else
		notice =
			notice_begin(&open_notices, SK_PRODUCER_DEVICE_OPEN, SK_NOTICE_DEVICE_OPEN);
	if (!notice)
		return 1;
	notice_of_task(notice, task, job_of_task(task));
	notice->code = ctx->access_type >> 16;
	notice->major = ctx->major;
	notice->minor = ctx->minor;
	bpf_ringbuf_submit(notice, BPF_RB_NO_WAKEUP);
	return 1;
}
