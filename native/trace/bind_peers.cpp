/* SPDX-License-Identifier: Apache-2.0 */
/* Python's view of who waits for whom: a thin handle over trace/peers, without logic. */
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#define _Static_assert static_assert /* the shared records are C */
extern "C" {
#include "trace/causes/causes.h"
#include "trace/peers/peers.h"
}

namespace nb = nanobind;

namespace {

constexpr size_t WAITS_ROOM = 1 << 16;
constexpr size_t STUCK_ROOM = 16;

const char *const loss_names[SK_PEERS_LOSSES] = {
	"peers.handle", "peers.call",	   "peers.return",    "peers.entry",
	"peers.unmatched", "peers.unaligned", "peers.wait"};

class Peers {
public:
	explicit Peers(const nb::bytes &kinds) : waits_(WAITS_ROOM)
	{
		sk_trace_peers_init(body_.get(), reinterpret_cast<const uint8_t *>(kinds.c_str()),
				    kinds.size());
		body_->waits = waits_.data();
		body_->waits_room = waits_.size();
	}

	int join(uint32_t pid, uint32_t rank, uint64_t key, uint32_t size, uint64_t handle)
	{
		return sk_trace_peers_join(body_.get(), pid, rank, key, size, handle);
	}

	void start(uint32_t pid) { sk_trace_peers_start(body_.get(), pid); }
	void leave(uint32_t pid) { sk_trace_peers_leave(body_.get(), pid); }
	void blind(uint32_t pid) { sk_trace_peers_blind(body_.get(), pid); }
	void show(uint64_t to_ns) { sk_trace_peers_show(body_.get(), to_ns); }

	size_t add(const nb::bytes &records)
	{
		size_t count = records.size() / sizeof(sk_collective);
		std::vector<sk_collective> copy(count); /* the caller's bytes may lie anywhere */

		if (count)
			memcpy(copy.data(), records.c_str(), count * sizeof(sk_collective));
		return sk_trace_peers_add(body_.get(), copy.data(), count);
	}

	/* The waits told since the last call, as spans of threads, by process. */
	nb::dict take()
	{
		std::map<uint32_t, std::vector<sk_trace_thread_span>> spans;
		nb::dict found;

		for (size_t i = 0; i < body_->waits_used; i++)
			spans[waits_[i].pid].push_back({waits_[i].from_ns, waits_[i].to_ns,
							waits_[i].tid, SK_THREAD_PEER, 0});
		body_->waits_used = 0;
		for (const auto &[pid, own] : spans)
			found[nb::int_(pid)] =
				nb::bytes(reinterpret_cast<const char *>(own.data()),
					  own.size() * sizeof(sk_trace_thread_span));
		return found;
	}

	nb::list ranks() const
	{
		nb::list rows;

		for (unsigned rank = 0; rank < SK_PEERS_RANKS; rank++) {
			const sk_trace_peers_rank &of = body_->ranks[rank];

			if (of.pid)
				rows.append(nb::make_tuple(rank, of.pid, of.gone != 0, of.calls,
							   of.inside_ns, of.wait_ns, of.message_ns,
							   of.last, of.caused_ns, of.seen_ns,
							   of.until_ns, of.queued_ns, of.own_ns,
							   of.messages));
		}
		return rows;
	}

	nb::list groups() const
	{
		nb::list rows;

		for (unsigned g = 0; g < SK_PEERS_GROUPS; g++) {
			const sk_trace_peers_group &of = body_->groups[g];

			if (of.origin)
				rows.append(nb::make_tuple(g, unsigned(of.origin), of.size,
							   of.aligned != 0, of.settled, of.wait_ns,
							   members(of)));
		}
		return rows;
	}

	nb::list operations() const
	{
		nb::list rows;

		for (unsigned call = 0; call < SK_PEERS_CALLS; call++)
			if (body_->operations[call].count)
				rows.append(nb::make_tuple(call, body_->operations[call].count,
							   body_->operations[call].wait_ns));
		return rows;
	}

	nb::list stuck(uint64_t now_ns, uint64_t after_ns) const
	{
		std::vector<sk_trace_peers_stuck> found(STUCK_ROOM);
		size_t count = sk_trace_peers_find_stuck(body_.get(), now_ns, after_ns,
							 found.data(), found.size());
		nb::list rows;

		for (size_t i = 0; i < count; i++)
			rows.append(row(found[i]));
		return rows;
	}

	/* The communicators with ranks on other hosts, and what their members here have done. */
	nb::list spread() const
	{
		nb::list rows;

		for (unsigned g = 0; g < SK_PEERS_GROUPS; g++) {
			const sk_trace_peers_group &of = body_->groups[g];

			if (sk_trace_peers_is_spread(&of))
				rows.append(nb::make_tuple(
					of.split_key ? of.split_key : of.key,
					of.split_key ? of.split_size : of.size, of.colour,
					doings(g)));
		}
		return rows;
	}

	nb::dict losses() const
	{
		nb::dict named;

		for (int loss = 0; loss < SK_PEERS_LOSSES; loss++)
			named[loss_names[loss]] = body_->losses[loss];
		return named;
	}

private:
	std::unique_ptr<sk_trace_peers> body_ = std::make_unique<sk_trace_peers>();
	std::vector<sk_trace_peers_wait> waits_;

	nb::tuple members(const sk_trace_peers_group &of) const
	{
		nb::list rows;

		for (unsigned at = of.first; at != SK_PEERS_NONE;
		     at = body_->streams[at].neighbour) {
			const sk_trace_peers_stream &stream = body_->streams[at];

			rows.append(nb::make_tuple(stream.rank, stream.last, stream.caused_ns,
						   stream.wait_ns));
		}
		return nb::tuple(rows);
	}

	nb::tuple doings(unsigned group) const
	{
		std::vector<sk_trace_peers_member> found(SK_PEERS_RANKS);
		size_t count = sk_trace_peers_find_members(body_.get(), group, found.data(),
							   found.size());
		nb::list rows;

		for (size_t i = 0; i < count; i++)
			rows.append(nb::make_tuple(found[i].rank, found[i].pid, found[i].entered,
						   call(found[i].call), found[i].since_ns,
						   found[i].from_start != 0));
		return nb::tuple(rows);
	}

	static nb::object call(uint16_t number)
	{
		return number == SK_PEERS_NONE ? nb::none() : nb::object(nb::cast(number));
	}

	static nb::tuple row(const sk_trace_peers_stuck &found)
	{
		nb::list waiting, missing;

		for (uint32_t i = 0; i < found.waiting_used; i++)
			waiting.append(found.waiting[i]);
		for (uint32_t i = 0; i < found.missing_used; i++)
			missing.append(nb::make_tuple(found.missing[i], call(found.doing[i]),
						      found.doing_ns[i]));
		return nb::make_tuple(found.group, found.call, found.number, found.since_ns,
				      nb::tuple(waiting), nb::tuple(missing));
	}
};

} /* namespace */

NB_MODULE(_peers, module)
{
	module.attr("RECORD_BYTES") = sizeof(sk_collective);
	module.attr("ENTER") = int(SK_COLLECTIVE_ENTER);
	module.attr("LEAVE") = int(SK_COLLECTIVE_LEAVE);
	module.attr("RANK_NONE") = int(SK_PEERS_NONE);
	module.attr("RANKS_MAX") = int(SK_PEERS_RANKS);
	nb::class_<Peers>(module, "Peers")
		.def(nb::init<nb::bytes>(), nb::arg("kinds"))
		.def("join", &Peers::join, nb::arg("pid"), nb::arg("rank"), nb::arg("key"),
		     nb::arg("size"), nb::arg("handle"))
		.def("start", &Peers::start)
		.def("leave", &Peers::leave)
		.def("blind", &Peers::blind)
		.def("add", &Peers::add)
		.def("show", &Peers::show)
		.def("take", &Peers::take)
		.def("ranks", &Peers::ranks)
		.def("groups", &Peers::groups)
		.def("operations", &Peers::operations)
		.def("stuck", &Peers::stuck, nb::arg("now_ns"), nb::arg("after_ns"))
		.def("spread", &Peers::spread)
		.def("losses", &Peers::losses);
}
