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

#endif
