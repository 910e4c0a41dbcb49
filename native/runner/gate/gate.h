/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The device gate seen from user space: find it, load it, grant and revoke.
 *
 * The program is found by its name at the jobs cgroup, so a restarted spawner uses the one that its
 * predecessor attached, with all grants of running jobs. The small program `stoker-gate` next to
 * the spawner loads it, so that libbpf stays out of the processes that hold jobs.
 */
#ifndef SK_RUNNER_GATE_GATE_H
#define SK_RUNNER_GATE_GATE_H

#include <stdint.h>

#include "runner/site/site.h"
#include "runner/wire/wire.h"

/** Find or load the gate at the jobs cgroup, put its maps at SK_FD_GRANTS and SK_FD_DENIED, and
 * fill `site->gate` and `site->gate_why`. */
void sk_runner_gate_open(struct sk_runner_site *site);

/** Admit devices to a cgroup; 0 or negative errno. */
int sk_runner_gate_grant(uint64_t cgroup_id, const struct sk_runner_device *devices, int count);

/** Revoke grants of a cgroup that has no process left. */
void sk_runner_gate_revoke(uint64_t cgroup_id, const struct sk_runner_device *devices, int count);

/** Revoke everything that was granted to a cgroup, by a walk over the map. */
void sk_runner_gate_revoke_all(uint64_t cgroup_id);

/** Write into `ret` which opens were refused to a cgroup, or "", and delete that record. */
void sk_runner_gate_denied(uint64_t cgroup_id, char *ret, int size);

/** Detach every gate from the jobs cgroup. */
void sk_runner_gate_close(void);

#endif
