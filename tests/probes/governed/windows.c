/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of governed tracers as they are drawn: windows SHARE_PPM SECONDS TICK_MS SEED prints,
 * tick by tick, whether launches are timed, and the period: for
 * tests/probes/test_governed_windows.py. */
#include "governed/windows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words)
{
	if (count < 5)
		return 2;
	uint32_t share = (uint32_t)strtoul(words[1], NULL, 10);
	uint64_t end = strtoull(words[2], NULL, 10) * 1000, tick = strtoull(words[3], NULL, 10);
	struct sk_windows windows = {.random = strtoull(words[4], NULL, 10) | 1};

	for (uint64_t ms = 1; ms < end; ms += tick) {
		bool timed = sk_windows_timed(&windows, ms * 1000000, share);

		printf("%" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", ms, timed,
		       windows.period_from_ns / 1000000, windows.period_ns / 1000000,
		       windows.to_ns / 1000000 - windows.from_ns / 1000000);
	}
	return 0;
}
