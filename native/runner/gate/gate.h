/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The device gate seen from user space: find it, load it where it is not, grant and revoke.
 *
 * The program is found by its name at the jobs cgroup, so a restarted spawner uses the one that its
 * predecessor attached, with all grants of running jobs in it. Loading is done by the small program
 * `stoker-gate` next to the spawner: libbpf stays out of the processes that hold jobs.
 */
#ifndef SK_RUNNER_GATE_GATE_H
#define SK_RUNNER_GATE_GATE_H

#include <stdint.h>

#include "runner/site/site.h"
#include "runner/wire/wire.h"

/** Have the gate at the jobs cgroup and its maps at SK_FD_GRANTS and SK_FD_DENIED;
 *  fills `site->gate` and `site->gate_why`. */
void sk_runner_gate_open(struct sk_runner_site *site);

/** Admit devices to a cgroup; 0 or negative errno. */
int sk_runner_gate_grant(uint64_t cgroup_id, const struct sk_runner_device *devices, int count);

/** Take grants back; the cgroup's processes are gone. */
void sk_runner_gate_revoke(uint64_t cgroup_id, const struct sk_runner_device *devices, int count);

/** Take back whatever a cgroup was granted, by a walk over the map. */
void sk_runner_gate_revoke_all(uint64_t cgroup_id);

/** Say in `ret` what was refused to a cgroup, "" if nothing, and forget it. */
void sk_runner_gate_denied(uint64_t cgroup_id, char *ret, int size);

/** Detach every gate from the jobs cgroup. */
void sk_runner_gate_close(void);

#endif
