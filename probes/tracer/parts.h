/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Functions and state that the files of the tracer library share; tracers include tracer.h alone.
 */
#ifndef SK_TRACER_PARTS_H
#define SK_TRACER_PARTS_H

#include "tracer/tracer.h"

extern struct sk_tracer_options sk_tracer_options; /* a copy of what sk_tracer_prepare was given */

/** Map the segment of this process and fill its header; with `lock` held. */
bool sk_tracer_make_segment(void);

/** Begin the tick thread; with `lock` held. */
void sk_tracer_start_ticks(void);

/* driver.c, in the thread that has `tick_lock` */

/** Change the mode or the budget, with an adapter. False: not now, try at the next tick. */
bool sk_tracer_drive_mode(uint32_t mode, uint32_t budget_ppm);
/** Only count calls until the mode changes, since the lease has ended. False: not now. */
bool sk_tracer_drive_lapse(void);
/** Do one tick. True when there was work. `tick_at_ns` is set when the next tick is due sooner than
 * usual. */
bool sk_tracer_drive_tick(uint64_t now_ns);
/** Harvest the last records: the process ends. */
void sk_tracer_drive_exit(void);

#endif
