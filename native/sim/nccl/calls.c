/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the simulated NCCL, with the arguments of nccl.h. An operation takes 20 us and
 * the time of its bytes at 100 GB/s after its last rank has come. What is in the buffers stays.
 */
#include "sim/nccl/nccl.h"

enum { LATENCY_NS = 20000, BYTES_PER_NS = 100, TYPES = 12 };

static const uint8_t size_of[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

/* Fill in what all operations have in common; returns a result. */
static int begin(struct sk_nccl_meeting *ret, struct sk_nccl_comm *comm, size_t count, int type,
		 void *stream)
{
	if (!sk_nccl_is_comm(comm) || type < 0 || type >= TYPES)
		return SK_NCCL_ARGUMENT;
	*ret = (struct sk_nccl_meeting){.comm = comm,
					.parties = comm->ranks,
					.own = comm->rank,
					.took_ns = LATENCY_NS +
						   (uint64_t)count * size_of[type] / BYTES_PER_NS,
					.stream = stream};
	return SK_NCCL_SUCCESS;
}

static int of_all(struct sk_nccl_comm *comm, size_t count, int type, void *stream)
{
	struct sk_nccl_meeting meeting;
	int result = begin(&meeting, comm, count, type, stream);

	return result ? result : sk_nccl_put(&meeting);
}

SK_NCCL ncclAllReduce(const void *from, void *to, size_t count, int type, int how,
		      struct sk_nccl_comm *comm, void *stream)
{
	return of_all(comm, count, type, stream);
}

SK_NCCL ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
		      struct sk_nccl_comm *comm, void *stream)
{
	return of_all(comm, count, type, stream);
}

SK_NCCL ncclReduce(const void *from, void *to, size_t count, int type, int how, int root,
		   struct sk_nccl_comm *comm, void *stream)
{
	return of_all(comm, count, type, stream);
}

SK_NCCL ncclAllGather(const void *from, void *to, size_t count, int type, struct sk_nccl_comm *comm,
		      void *stream)
{
	return of_all(comm, count, type, stream);
}

SK_NCCL ncclReduceScatter(const void *from, void *to, size_t count, int type, int how,
			  struct sk_nccl_comm *comm, void *stream)
{
	return of_all(comm, count, type, stream);
}

/* A message has two parties: its sender, and behind it its receiver. */
static int message(struct sk_nccl_comm *comm, size_t count, int type, int peer, bool sends,
		   void *stream)
{
	struct sk_nccl_meeting meeting;
	int result = begin(&meeting, comm, count, type, stream);
	uint32_t from, to;

	if (result)
		return result;
	if (peer < 0 || (uint32_t)peer >= comm->ranks)
		return SK_NCCL_ARGUMENT;
	from = sends ? comm->rank : (uint32_t)peer;
	to = sends ? (uint32_t)peer : comm->rank;
	meeting.first = comm->ranks + 2 * (from * comm->ranks + to);
	meeting.parties = 2;
	meeting.own = meeting.first + !sends;
	return sk_nccl_put(&meeting);
}

SK_NCCL ncclSend(const void *from, size_t count, int type, int peer, struct sk_nccl_comm *comm,
		 void *stream)
{
	return message(comm, count, type, peer, true, stream);
}

SK_NCCL ncclRecv(void *to, size_t count, int type, int peer, struct sk_nccl_comm *comm,
		 void *stream)
{
	return message(comm, count, type, peer, false, stream);
}

SK_NCCL ncclGroupStart(void)
{
	return sk_nccl_group_begin();
}

SK_NCCL ncclGroupEnd(void)
{
	return sk_nccl_group_end();
}

SK_NCCL ncclGetVersion(int *ret)
{
	if (!ret)
		return SK_NCCL_ARGUMENT;
	*ret = SK_NCCL_VERSION;
	return SK_NCCL_SUCCESS;
}

__attribute__((visibility("default"))) const char *ncclGetErrorString(int result)
{
	static const char *const text[] = {"no error",
					   "unhandled cuda error",
					   "unhandled system error",
					   "internal error",
					   "invalid argument",
					   "invalid usage",
					   "remote process exited or there was a network error",
					   "NCCL operation in progress"};

	return result >= 0 && result <= SK_NCCL_IN_PROGRESS ? text[result] : "unknown result code";
}

__attribute__((visibility("default"))) const char *ncclGetLastError(struct sk_nccl_comm *comm)
{
	return "";
}
