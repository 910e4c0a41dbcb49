/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of what one operation records in the journal, in bytes. Invariant: memory.c provides this
 * room, and propose refuses a request before it could need more.
 */
#ifndef SK_CORE_STATE_JOURNAL_BOUND_H
#define SK_CORE_STATE_JOURNAL_BOUND_H

#include "core/state/state.h"

#define SK_JOURNAL_REQUEST 4096ull /* any request, without the tasks that it ends */
#define SK_JOURNAL_TASK 5120ull	   /* one task placed, ended or lost, with its job */
#define SK_JOURNAL_SHARE 768ull	   /* one device share given or taken back */

#define SK_JOURNAL_AFTER 2048ull   /* one job that waited for others is released */
#define SK_JOURNAL_PROMOTE 2048ull /* one job whose time has come */
#define SK_JOURNAL_REGROUP 1024ull /* one job or task of a queue whose order groups by users */
#define SK_JOURNAL_SPEED 2048ull   /* the measures of one task that ended */

#endif
