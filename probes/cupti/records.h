/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The parts of CUPTI's records that the decoder reads, which all versions from 11.6 on share.
 *
 * A record grows at its end from one version of CUPTI to the next, and only the library knows its
 * length. So each kind has a prefix here, which is compared with every published layout at compile
 * time, and with the end of the buffer when it is read. Memory: none. Threads: any.
 */
#ifndef SK_CUPTI_RECORDS_H
#define SK_CUPTI_RECORDS_H

#include <cupti.h>
#include <stddef.h>

typedef CUpti_ActivityKernel7 sk_cupti_kernel_record;
typedef CUpti_ActivityMemcpy5 sk_cupti_memcpy_record;
typedef CUpti_ActivityMemcpyPtoP3 sk_cupti_peer_record;
typedef CUpti_ActivityMemset4 sk_cupti_memset_record;
typedef CUpti_ActivityGraphTrace sk_cupti_graph_record;
typedef CUpti_ActivitySynchronization sk_cupti_wait_record;
typedef CUpti_ActivityOverhead sk_cupti_overhead_record;

#define SK_CUPTI_UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

enum {
	SK_CUPTI_KERNEL_BYTES = SK_CUPTI_UP_TO(sk_cupti_kernel_record, graphId),
	SK_CUPTI_MEMCPY_BYTES = SK_CUPTI_UP_TO(sk_cupti_memcpy_record, graphId),
	SK_CUPTI_PEER_BYTES = SK_CUPTI_UP_TO(sk_cupti_peer_record, graphId),
	SK_CUPTI_MEMSET_BYTES = SK_CUPTI_UP_TO(sk_cupti_memset_record, graphId),
	SK_CUPTI_GRAPH_BYTES = SK_CUPTI_UP_TO(sk_cupti_graph_record, streamId),
	SK_CUPTI_WAIT_BYTES = SK_CUPTI_UP_TO(sk_cupti_wait_record, streamId),
	SK_CUPTI_OVERHEAD_BYTES = SK_CUPTI_UP_TO(sk_cupti_overhead_record, end),
};

#define SK_CUPTI_SAME(old, new, field)                                                             \
	_Static_assert(offsetof(old, field) == offsetof(new, field), #new " moved " #field)

#define SK_CUPTI_SAME_KERNEL(new)                                                                  \
	SK_CUPTI_SAME(sk_cupti_kernel_record, new, start);                                         \
	SK_CUPTI_SAME(sk_cupti_kernel_record, new, end);                                           \
	SK_CUPTI_SAME(sk_cupti_kernel_record, new, deviceId);                                      \
	SK_CUPTI_SAME(sk_cupti_kernel_record, new, contextId);                                     \
	SK_CUPTI_SAME(sk_cupti_kernel_record, new, streamId);                                      \
	SK_CUPTI_SAME(sk_cupti_kernel_record, new, correlationId);                                 \
	SK_CUPTI_SAME(sk_cupti_kernel_record, new, name);                                          \
	SK_CUPTI_SAME(sk_cupti_kernel_record, new, queued);                                        \
	SK_CUPTI_SAME(sk_cupti_kernel_record, new, submitted);                                     \
	SK_CUPTI_SAME(sk_cupti_kernel_record, new, graphId)

SK_CUPTI_SAME_KERNEL(CUpti_ActivityKernel8);
SK_CUPTI_SAME_KERNEL(CUpti_ActivityKernel9);
SK_CUPTI_SAME_KERNEL(CUpti_ActivityKernel10);
SK_CUPTI_SAME_KERNEL(CUpti_ActivityKernel11);
SK_CUPTI_SAME_KERNEL(CUpti_ActivityKernel12);
SK_CUPTI_SAME_KERNEL(CUpti_ActivityKernel13);

#define SK_CUPTI_SAME_COPY(old, new)                                                               \
	SK_CUPTI_SAME(old, new, bytes);                                                            \
	SK_CUPTI_SAME(old, new, start);                                                            \
	SK_CUPTI_SAME(old, new, end);                                                              \
	SK_CUPTI_SAME(old, new, deviceId);                                                         \
	SK_CUPTI_SAME(old, new, contextId);                                                        \
	SK_CUPTI_SAME(old, new, streamId);                                                         \
	SK_CUPTI_SAME(old, new, correlationId);                                                    \
	SK_CUPTI_SAME(old, new, graphId)

SK_CUPTI_SAME_COPY(sk_cupti_memcpy_record, CUpti_ActivityMemcpy6);
SK_CUPTI_SAME_COPY(sk_cupti_memcpy_record, CUpti_ActivityMemcpy7);
SK_CUPTI_SAME(sk_cupti_memcpy_record, CUpti_ActivityMemcpy7, copyKind);
SK_CUPTI_SAME_COPY(sk_cupti_peer_record, CUpti_ActivityMemcpyPtoP4);
SK_CUPTI_SAME_COPY(sk_cupti_memset_record, CUpti_ActivityMemset5);

SK_CUPTI_SAME(sk_cupti_graph_record, CUpti_ActivityGraphTrace2, correlationId);
SK_CUPTI_SAME(sk_cupti_graph_record, CUpti_ActivityGraphTrace2, start);
SK_CUPTI_SAME(sk_cupti_graph_record, CUpti_ActivityGraphTrace2, end);
SK_CUPTI_SAME(sk_cupti_graph_record, CUpti_ActivityGraphTrace2, deviceId);
SK_CUPTI_SAME(sk_cupti_graph_record, CUpti_ActivityGraphTrace2, graphId);
SK_CUPTI_SAME(sk_cupti_graph_record, CUpti_ActivityGraphTrace2, streamId);

SK_CUPTI_SAME(sk_cupti_wait_record, CUpti_ActivitySynchronization2, type);
SK_CUPTI_SAME(sk_cupti_wait_record, CUpti_ActivitySynchronization2, start);
SK_CUPTI_SAME(sk_cupti_wait_record, CUpti_ActivitySynchronization2, end);
SK_CUPTI_SAME(sk_cupti_wait_record, CUpti_ActivitySynchronization2, correlationId);
SK_CUPTI_SAME(sk_cupti_wait_record, CUpti_ActivitySynchronization2, contextId);
SK_CUPTI_SAME(sk_cupti_wait_record, CUpti_ActivitySynchronization2, streamId);

SK_CUPTI_SAME(sk_cupti_overhead_record, CUpti_ActivityOverhead3, overheadKind);
SK_CUPTI_SAME(sk_cupti_overhead_record, CUpti_ActivityOverhead3, start);
SK_CUPTI_SAME(sk_cupti_overhead_record, CUpti_ActivityOverhead3, end);

#endif
