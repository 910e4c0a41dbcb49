/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What the files of the tracer library have between them; tracers include tracer.h alone. */
#ifndef SK_TRACER_PARTS_H
#define SK_TRACER_PARTS_H

#include "tracer/tracer.h"

extern struct sk_tracer_options sk_tracer_options; /* as given to sk_tracer_prepare */

/** Map the segment of this process and fill its header; with `lock` held. */
bool sk_tracer_make_segment(void);

/** Begin the tick thread; with `lock` held. */
void sk_tracer_start_ticks(void);

/* driver.c: in the thread that holds `tick_lock`. */

/** The mode or the budget is to change, with an adapter. False: not now, ask at the next tick. */
bool sk_tracer_drive_mode(uint32_t mode, uint32_t budget_ppm);
/** The lease has ended: calls are only counted until the mode changes. False: not now. */
bool sk_tracer_drive_lapse(void);
/** True when there was work. Sets `tick_at_ns` when the next tick is due sooner than usual. */
bool sk_tracer_drive_tick(uint64_t now_ns);
/** The process ends. */
void sk_tracer_drive_exit(void);

#endif
