/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The parts of CUPTI's records that the decoder reads: those that all versions from 11.6 on share.
 *
 * A record grows at its end from one version of CUPTI to the next, and its length is known to the
 * library alone. So each kind has a prefix here, which is held against every published layout when
 * this is compiled, and against the end of the buffer when it is read.
 */
#ifndef SK_CUPTI_RECORDS_H
#define SK_CUPTI_RECORDS_H

#include <cupti.h>
#include <stddef.h>

typedef CUpti_ActivityKernel7 sk_kernel_record;
typedef CUpti_ActivityMemcpy5 sk_memcpy_record;
typedef CUpti_ActivityMemcpyPtoP3 sk_peer_record;
typedef CUpti_ActivityMemset4 sk_memset_record;
typedef CUpti_ActivityGraphTrace sk_graph_record;
typedef CUpti_ActivitySynchronization sk_wait_record;
typedef CUpti_ActivityOverhead sk_overhead_record;

#define SK_UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

enum {
	SK_KERNEL_BYTES = SK_UP_TO(sk_kernel_record, graphId),
	SK_MEMCPY_BYTES = SK_UP_TO(sk_memcpy_record, graphId),
	SK_PEER_BYTES = SK_UP_TO(sk_peer_record, graphId),
	SK_MEMSET_BYTES = SK_UP_TO(sk_memset_record, graphId),
	SK_GRAPH_BYTES = SK_UP_TO(sk_graph_record, streamId),
	SK_WAIT_BYTES = SK_UP_TO(sk_wait_record, streamId),
	SK_OVERHEAD_BYTES = SK_UP_TO(sk_overhead_record, end),
};

#define SK_SAME(old, new, field)                                                                   \
	_Static_assert(offsetof(old, field) == offsetof(new, field), #new " moved " #field)

#define SK_SAME_KERNEL(new)                                                                        \
	SK_SAME(sk_kernel_record, new, start);                                                     \
	SK_SAME(sk_kernel_record, new, end);                                                       \
	SK_SAME(sk_kernel_record, new, deviceId);                                                  \
	SK_SAME(sk_kernel_record, new, contextId);                                                 \
	SK_SAME(sk_kernel_record, new, streamId);                                                  \
	SK_SAME(sk_kernel_record, new, correlationId);                                             \
	SK_SAME(sk_kernel_record, new, name);                                                      \
	SK_SAME(sk_kernel_record, new, queued);                                                    \
	SK_SAME(sk_kernel_record, new, submitted);                                                 \
	SK_SAME(sk_kernel_record, new, graphId)

SK_SAME_KERNEL(CUpti_ActivityKernel8);
SK_SAME_KERNEL(CUpti_ActivityKernel9);
SK_SAME_KERNEL(CUpti_ActivityKernel10);
SK_SAME_KERNEL(CUpti_ActivityKernel11);
SK_SAME_KERNEL(CUpti_ActivityKernel12);
SK_SAME_KERNEL(CUpti_ActivityKernel13);

#define SK_SAME_COPY(old, new)                                                                     \
	SK_SAME(old, new, bytes);                                                                  \
	SK_SAME(old, new, start);                                                                  \
	SK_SAME(old, new, end);                                                                    \
	SK_SAME(old, new, deviceId);                                                               \
	SK_SAME(old, new, contextId);                                                              \
	SK_SAME(old, new, streamId);                                                               \
	SK_SAME(old, new, correlationId);                                                          \
	SK_SAME(old, new, graphId)

SK_SAME_COPY(sk_memcpy_record, CUpti_ActivityMemcpy6);
SK_SAME_COPY(sk_memcpy_record, CUpti_ActivityMemcpy7);
SK_SAME(sk_memcpy_record, CUpti_ActivityMemcpy7, copyKind);
SK_SAME_COPY(sk_peer_record, CUpti_ActivityMemcpyPtoP4);
SK_SAME_COPY(sk_memset_record, CUpti_ActivityMemset5);

SK_SAME(sk_graph_record, CUpti_ActivityGraphTrace2, correlationId);
SK_SAME(sk_graph_record, CUpti_ActivityGraphTrace2, start);
SK_SAME(sk_graph_record, CUpti_ActivityGraphTrace2, end);
SK_SAME(sk_graph_record, CUpti_ActivityGraphTrace2, deviceId);
SK_SAME(sk_graph_record, CUpti_ActivityGraphTrace2, graphId);
SK_SAME(sk_graph_record, CUpti_ActivityGraphTrace2, streamId);

SK_SAME(sk_wait_record, CUpti_ActivitySynchronization2, type);
SK_SAME(sk_wait_record, CUpti_ActivitySynchronization2, start);
SK_SAME(sk_wait_record, CUpti_ActivitySynchronization2, end);
SK_SAME(sk_wait_record, CUpti_ActivitySynchronization2, correlationId);
SK_SAME(sk_wait_record, CUpti_ActivitySynchronization2, contextId);
SK_SAME(sk_wait_record, CUpti_ActivitySynchronization2, streamId);

SK_SAME(sk_overhead_record, CUpti_ActivityOverhead3, overheadKind);
SK_SAME(sk_overhead_record, CUpti_ActivityOverhead3, start);
SK_SAME(sk_overhead_record, CUpti_ActivityOverhead3, end);

#endif
