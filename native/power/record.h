/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The settings that cards had before stoker's first write, in the file that
 * agent/power/setters/record.py writes.
 *
 * It is text, so that an operator can read it and restore by hand:
 *
 *     stoker-power 1 <boot id>
 *     nvidia <uuid> limit_mw <n>        power limit in milliwatts
 *     nvidia <uuid> clocks 0            stoker locked clocks: unlock them
 *     amd <PCI address> cap_uw <n>      power cap in microwatts
 *     intel <PCI address> limit_mw <n>  sustained power limit; `limit_mw/2`: of power domain 2
 *     intel <PCI address> clock_max_mhz/0 <n>  the range of clocks of frequency domain 0: its
 *     intel <PCI address> clock_min_mhz/0 <n>  upper end first
 *     hwmon <PCI device's folder> cap_uw <n>   power1_cap of its hwmon
 *     file <path> value <n>             a file of sysfs
 *     file <path> quota <n>             CPU time of limited processes (us), if the file exists
 *     file <path> cpu_max 0             cpu.max of a limited job (cgroup v2): max, if it exists
 *     end <lines between the first and this one>
 *
 * Invariant: a record is whole or refused, since the file is replaced in one step.
 * Memory: fixed size, no pointers. Threads: one.
 */
#ifndef SK_POWER_RECORD_H
#define SK_POWER_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum { SK_POWER_ENTRIES = 512, SK_POWER_BYTES = 160 << 10 };

struct sk_power_entry {
	char kind[12];
	char id[256]; /* uuid, address or path */
	char what[24];
	uint64_t value;
};

struct sk_power_record {
	char boot_id[40];
	uint32_t count;
	struct sk_power_entry entry[SK_POWER_ENTRIES];
};

/** Read the record. -ENOENT: no file; -EBADMSG: damaged, or of another version. */
int sk_power_record_read(const char *path, struct sk_power_record *ret);

#endif
