/* SPDX-License-Identifier: Apache-2.0 */
/* The rows themselves; see table.h. */
#include "table.h"

#include <string.h>

#define ON(event, name)                                                                            \
	{                                                                                          \
		.tracepoint = (event), .program = (name)                                           \
	}
#define EITHER_FORM(event, name)                                                                   \
	{                                                                                          \
		.tracepoint = (event), .program = (name), .other_program = name "_raw"             \
	}
#define ONE_OF(event, name, other, other_name)                                                     \
	{                                                                                          \
		.tracepoint = (event), .program = (name), .other_tracepoint = (other),             \
		.other_program = (other_name)                                                      \
	}

static const struct sk_bpf_row rows[SK_PROBES] = {
	[SK_PROBE_SWITCH] = {.id = "host.sched.switch", .hooks = {ON("sched_switch", "on_switch")}},
	[SK_PROBE_WAKEUP] = {.id = "host.sched.wakeup",
			     .needs_threads = true,
			     .hooks = {ON("sched_wakeup", "on_wakeup")}},
	[SK_PROBE_WAKEUP_NEW] = {.id = "host.sched.wakeup_new",
				 .needs_threads = true,
				 .hooks = {ON("sched_wakeup_new", "on_wakeup_new")}},
	[SK_PROBE_SYSCALL] = {.id = "host.sched.syscall", .needs_threads = true},
	[SK_PROBE_EXEC] = {.id = "host.process.exec",
			   .hooks = {EITHER_FORM("sched_process_exec", "on_exec")}},
	[SK_PROBE_FORK] = {.id = "host.process.fork",
			   .hooks = {EITHER_FORM("sched_process_fork", "on_fork")}},
	[SK_PROBE_EXIT] = {.id = "host.process.exit",
			   .hooks = {EITHER_FORM("sched_process_exit", "on_exit")}},
	[SK_PROBE_USER_FAULT] = {.id = "host.memory.user_fault",
				 .object = SK_OBJECT_OPT_IN,
				 .cost = SK_COST_FAULT,
				 .needs_threads = true,
				 .opt_in = SK_OPT_IN_FAULTS,
				 .hooks = {ON("page_fault_user", "on_user_fault")}},
	[SK_PROBE_KERNEL_FAULT] = {.id = "host.memory.kernel_fault",
				   .object = SK_OBJECT_OPT_IN,
				   .cost = SK_COST_FAULT,
				   .needs_threads = true,
				   .opt_in = SK_OPT_IN_FAULTS,
				   .hooks = {ON("page_fault_kernel", "on_kernel_fault")}},
	[SK_PROBE_RECLAIM] = {.id = "host.memory.reclaim",
			      .needs_threads = true,
			      .hooks = {ON("mm_vmscan_direct_reclaim_begin", "on_reclaim_begin"),
					ON("mm_vmscan_direct_reclaim_end", "on_reclaim_end")}},
	[SK_PROBE_GROUP_RECLAIM] =
		{.id = "host.memory.group_reclaim",
		 .needs_threads = true,
		 .hooks = {ON("mm_vmscan_memcg_reclaim_begin", "on_group_reclaim_begin"),
			   ON("mm_vmscan_memcg_reclaim_end", "on_group_reclaim_end")}},
	[SK_PROBE_RECLAIM_SLEEP] = {.id = "host.memory.reclaim_sleep",
				    .hooks = {ON("mm_vmscan_throttled", "on_reclaim_sleep")}},
	[SK_PROBE_BLOCK] = {.id = "host.block.request",
			    .hooks = {ONE_OF("block_io_start", "on_request_start", "block_rq_issue",
					     "on_request_issue"),
				      ONE_OF("block_io_done", "on_request_done",
					     "block_rq_complete", "on_request_complete"),
				      ON("block_rq_merge", "on_request_merge")}},
	[SK_PROBE_RETRANSMIT] = {.id = "host.network.retransmit",
				 .cost = SK_COST_RARE,
				 .hooks = {ON("tcp_retransmit_skb", "on_retransmit")}},
	[SK_PROBE_HANDLER] = {.id = "host.irq.handler",
			      .needs_threads = true,
			      .hooks = {ON("irq_handler_entry", "on_handler_entry"),
					ON("irq_handler_exit", "on_handler_exit")}},
	[SK_PROBE_SOFTIRQ] = {.id = "host.irq.softirq",
			      .needs_threads = true,
			      .hooks = {ON("softirq_entry", "on_softirq_entry"),
					ON("softirq_exit", "on_softirq_exit")}},
	[SK_PROBE_DEVICE_OPEN] = {.id = "host.device.open", .hooks = {{.program = "on_device"}}},
	[SK_PROBE_OOM_KILL] = {.id = "host.critical.oom_kill",
			       .cost = SK_COST_RARE,
			       .hooks = {ON("mark_victim", "on_victim")}},
	[SK_PROBE_SIGNAL] = {.id = "host.critical.signal",
			     .hooks = {ON("signal_generate", "on_signal")}},
	[SK_PROBE_KILLED_EXIT] = {.id = "host.critical.killed_exit",
				  .hooks = {ON("sched_process_exit", "on_killed_exit")}},
	[SK_PROBE_XID] = {.id = "host.critical.xid",
			  .untyped = true,
			  .cost = SK_COST_RARE,
			  .hooks = {ON("nvidia_dev_xid", "on_xid")}},
	[SK_PROBE_FREQUENCY] = {.id = "host.power.frequency",
				.cost = SK_COST_RARE,
				.hooks = {ON("cpu_frequency", "on_frequency")}},
	[SK_PROBE_TEMPERATURE] = {.id = "host.power.temperature",
				  .cost = SK_COST_RARE,
				  .hooks = {ON("thermal_temperature", "on_temperature")}},
	[SK_PROBE_TRIP] = {.id = "host.power.trip",
			   .cost = SK_COST_RARE,
			   .hooks = {ON("thermal_zone_trip", "on_trip")}},
	[SK_PROBE_COOLING] = {.id = "host.power.cooling",
			      .cost = SK_COST_RARE,
			      .hooks = {ON("cdev_update", "on_cooling")}},
	[SK_PROBE_FENCE] = {.id = "host.gpu.fence_wait",
			    .needs_threads = true,
			    .hooks = {ON("dma_fence_wait_start", "on_fence_wait"),
				      ON("dma_fence_wait_end", "on_fence_waited")}},
	[SK_PROBE_GPU_QUEUE] = {.id = "host.gpu.queue",
				.untyped = true,
				.hooks = {ONE_OF("drm_sched_job_queue", "on_gpu_queue",
						 "drm_sched_job", "on_gpu_queue_before_6_17"),
					  ONE_OF("drm_sched_job_run", "on_gpu_run", "drm_run_job",
						 "on_gpu_run_before_6_17")}},
	[SK_PROBE_GPU_RUN] = {.id = "host.gpu.run",
			      .untyped = true,
			      .hooks = {ONE_OF("drm_sched_job_done", "on_gpu_done",
					       "drm_sched_process_job",
					       "on_gpu_done_before_6_17")}},
	[SK_PROBE_IOCTL] = {.id = "host.device.ioctl",
			    .object = SK_OBJECT_OPT_IN,
			    .cost = SK_COST_CALL,
			    .opt_in = SK_OPT_IN_CALLS,
			    .hooks = {ON("sys_enter", "on_call"), ON("sys_exit", "on_return")}},
	[SK_PROBE_STACK] = {.id = "host.sched.stack",
			    .object = SK_OBJECT_OPT_IN,
			    .cost = SK_COST_STACK,
			    .opt_in = SK_OPT_IN_STACKS,
			    .hooks = {ON("sched_switch", "on_block"),
				      ON("sched_wakeup", "on_unblock")}},
	[SK_PROBE_HANDLING] = {.id = "host.memory.handling",
			       .object = SK_OBJECT_OPT_IN,
			       .cost = SK_COST_FAULT,
			       .needs_threads = true,
			       .opt_in = SK_OPT_IN_FAULTS,
			       .hooks = {{.program = "on_fault_handled"}}},
};

const struct sk_bpf_row *sk_bpf_row_of(enum sk_bpf_probe probe)
{
	return &rows[probe];
}

static bool names(const struct sk_bpf_hook *hook, const char *program)
{
	return (hook->program && !strcmp(hook->program, program)) ||
	       (hook->other_program && !strcmp(hook->other_program, program));
}

enum sk_bpf_probe sk_bpf_row_with(const char *program)
{
	for (enum sk_bpf_probe probe = 0; probe < SK_PROBES; probe++)
		for (int i = 0; i < SK_HOOKS; i++)
			if (names(&rows[probe].hooks[i], program))
				return probe;
	return SK_PROBES;
}
