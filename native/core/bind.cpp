// SPDX-License-Identifier: Apache-2.0
//
// The Python binding of the core: bytes in, bytes out, with memory owned here and no logic. The
// interpreter lock is released during propose, apply, snapshot and restore; a second thread that
// calls meanwhile gets an error, since the core is for one thread.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

extern "C" {
#include "core/bench/bench_decide.h"
#include "core/core.h"
#include "core/wire_layout.h"
}

namespace nb = nanobind;

namespace
{

[[noreturn]] void raise_errno(int negative, const char *what)
{
	errno = -negative;
	PyErr_SetFromErrnoWithFilename(PyExc_OSError, what);
	throw nb::python_error();
}

uint64_t monotonic_ns()
{
	timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}

nb::bytes to_bytes(const void *data, size_t size)
{
	return nb::bytes(static_cast<const char *>(data), size);
}

class Core
{
      public:
	explicit Core(const sk_limits &limits)
	{
		size_t size = sk_core_memsize(&limits);

		if (!size)
			raise_errno(-EINVAL, "limits");
		allocate(size);
		sk_core_init(memory_, size, &limits, &core_);
	}

	Core(const char *snapshot, size_t snapshot_size)
	{
		sk_limits limits;
		int error = sk_core_snapshot_limits(snapshot, snapshot_size, &limits);

		if (error)
			raise_errno(error, "restore");
		allocate(sk_core_memsize(&limits));
		{
			nb::gil_scoped_release unlocked;
			error = sk_core_restore(memory_, size_, snapshot, snapshot_size, &core_);
		}
		if (error) {
			std::free(memory_);
			raise_errno(error, "restore");
		}
	}

	Core(const char *snapshot, size_t snapshot_size, const sk_limits &limits)
	{
		size_t size = sk_core_memsize(&limits);
		int error;

		if (!size)
			raise_errno(-EINVAL, "limits");
		allocate(size);
		{
			nb::gil_scoped_release unlocked;
			error = sk_core_resize(memory_, size_, snapshot, snapshot_size, &limits,
					       &core_);
		}
		if (error) {
			std::free(memory_);
			raise_errno(error, "resize");
		}
	}

	~Core()
	{
		std::free(memory_);
	}

	Core(const Core &) = delete;
	Core &operator=(const Core &) = delete;

	nb::tuple propose(nb::bytes requests, uint64_t now_ns, uint64_t seed, bool measure)
	{
		BusyGuard guard(busy_);
		sk_proposal proposal = {};
		uint64_t latency_ns = 0;
		int error;

		commands_.resize(requests.size() + SK_DECISIONS_BYTES_MAX);
		rejected_.resize(SK_BATCH_REQUESTS_MAX);
		proposal.commands = commands_.data();
		proposal.commands_capacity = commands_.size();
		proposal.rejected = rejected_.data();
		proposal.rejected_capacity = SK_BATCH_REQUESTS_MAX;
		{
			nb::gil_scoped_release unlocked;
			uint64_t from = measure ? monotonic_ns() : 0;

			error = sk_core_propose(core_, requests.c_str(), requests.size(), now_ns,
						seed, &proposal);
			latency_ns = measure ? monotonic_ns() - from : 0;
		}
		if (error)
			raise_errno(error, "propose");
		sk_core_stamp(proposal.commands, proposal.commands_size, latency_ns);
		return nb::make_tuple(
			to_bytes(proposal.commands, proposal.commands_size),
			to_bytes(proposal.rejected, proposal.rejected_count * sizeof(sk_rejected)),
			latency_ns, proposal.more);
	}

	nb::bytes apply(nb::bytes commands, uint64_t now_ns)
	{
		BusyGuard guard(busy_);
		std::vector<sk_effect> told;
		const char *bytes = commands.c_str();
		size_t left = commands.size();
		uint32_t first = 0;

		for (;;) {
			sk_effects effects = {effects_.data(), uint32_t(effects_.size()), 0, 0};
			size_t consumed = 0;
			int error;

			{
				nb::gil_scoped_release unlocked;
				error = sk_core_apply(core_, bytes, left, first, now_ns, &effects,
						      &consumed);
			}
			if (error && error != -ENOBUFS)
				raise_errno(error, "apply");
			if (!error)
				sk_core_settle(core_, SK_SETTLE_EACH);
			if (!error && told.empty())
				return to_bytes(effects_.data(), effects.count * sizeof(sk_effect));
			told.insert(told.end(), effects_.data(), effects_.data() + effects.count);
			if (!error)
				return to_bytes(told.data(), told.size() * sizeof(sk_effect));
			first += records(bytes, consumed);
			bytes += consumed;
			left -= consumed;
			if (effects.needed > effects_.size())
				effects_.resize(effects.needed);
		}
	}

	nb::bytes snapshot()
	{
		BusyGuard guard(busy_);
		std::vector<uint8_t> bytes(sk_core_snapshot_size(core_));

		{
			nb::gil_scoped_release unlocked;
			sk_core_snapshot(core_, bytes.data(), bytes.size());
		}
		return to_bytes(bytes.data(), bytes.size());
	}

	uint64_t digest() const
	{
		return sk_core_digest(idle());
	}

	bool observe(uint64_t node, uint64_t observation, uint32_t load_milli)
	{
		return sk_core_observe(idle(), node, observation, load_milli) == 0;
	}

	bool observe_device(uint64_t node, uint32_t index, nb::bytes sample)
	{
		sk_sample at;

		if (sample.size() != sizeof at)
			raise_errno(-EINVAL, "sample");
		std::memcpy(&at, sample.c_str(), sizeof at);
		int error = sk_core_observe_device(idle(), node, index, &at);
		if (error && error != -ENOENT)
			raise_errno(error, "sample");
		return !error;
	}

	nb::bytes evidence(uint64_t job, uint32_t attempt, uint32_t task) const
	{
		struct {
			sk_evidence head;
			sk_evidence_side sides[2];
		} found;

		if (sk_core_evidence(idle(), job, attempt, task, &found.head, found.sides))
			return nb::bytes("", 0);
		return to_bytes(&found, sizeof found);
	}

	nb::bytes speeds(uint64_t series) const
	{
		std::vector<sk_speed_view> found(SK_SPEEDS_MAX);
		size_t count = sk_core_speeds(idle(), series, found.data(), SK_SPEEDS_MAX);

		return to_bytes(found.data(), count * sizeof found[0]);
	}

	void model_power(uint64_t model, uint32_t idle_mw, uint32_t full_mw)
	{
		if (int error = sk_core_model_power(idle(), model, idle_mw, full_mw))
			raise_errno(error, "model_power");
	}

	void cpu_power(uint32_t socket_milli, uint32_t idle_mw, uint32_t full_mw)
	{
		if (int error = sk_core_cpu_power(idle(), socket_milli, idle_mw, full_mw))
			raise_errno(error, "cpu_power");
	}

	uint32_t workload_learn()
	{
		return sk_core_workload_learn(idle());
	}

	void workload(nb::bytes classes)
	{
		std::vector<sk_class> at(classes.size() / sizeof(sk_class));

		if (classes.size() % sizeof(sk_class))
			raise_errno(-EINVAL, "workload");
		std::memcpy(at.data(), classes.c_str(), classes.size());
		if (int error = sk_core_workload(idle(), at.data(), uint32_t(at.size())))
			raise_errno(error, "workload");
	}

	void choice(uint64_t job, uint32_t attempt, uint16_t reason, nb::bytes rows)
	{
		std::vector<sk_choice_row> found(rows.size() / sizeof(sk_choice_row));

		std::memcpy(found.data(), rows.c_str(), found.size() * sizeof(sk_choice_row));
		int error = sk_core_choice(idle(), job, attempt, reason, found.data(),
					   uint32_t(found.size()));
		if (error)
			raise_errno(error, "choice");
	}

	nb::bytes candidates(uint64_t job, nb::bytes chosen, uint64_t now_ns, uint64_t seed)
	{
		BusyGuard guard(busy_);
		std::vector<sk_place> places(chosen.size() / sizeof(sk_place));
		std::vector<sk_candidate> found(SK_CANDIDATES_MAX);

		if (chosen.size() % sizeof(sk_place))
			raise_errno(-EINVAL, "candidates");
		std::memcpy(places.data(), chosen.c_str(), chosen.size());
		int count = sk_core_candidates(core_, job, places.data(), uint32_t(places.size()),
					       now_ns, seed, found.data(), SK_CANDIDATES_MAX);
		if (count < 0)
			raise_errno(count, "candidates");
		return to_bytes(found.data(), size_t(count) * sizeof(sk_candidate));
	}

	// A figure of the whole state.
	template <auto read> auto figure() const
	{
		return read(idle());
	}

	unsigned move_refusal(uint64_t job) const
	{
		return sk_core_move_refusal(idle(), job);
	}

	nb::bytes explain(uint64_t job) const
	{
		sk_explain lines[SK_EXPLAIN_MAX];

		return to_bytes(lines, sk_core_explain(idle(), job, lines, SK_EXPLAIN_MAX) *
					       sizeof lines[0]);
	}

	nb::bytes job(uint64_t id) const
	{
		sk_job_view view;

		return to_bytes(&view, sk_core_job(idle(), id, &view) ? 0 : sizeof view);
	}

	nb::bytes node(uint64_t id) const
	{
		sk_node_view view;

		return to_bytes(&view, sk_core_node(idle(), id, &view) ? 0 : sizeof view);
	}

	std::vector<uint64_t> nodes() const
	{
		sk_limits limits;

		sk_core_limits(idle(), &limits);
		std::vector<uint64_t> ids(limits.nodes);
		ids.resize(sk_core_nodes(idle(), ids.data(), limits.nodes));
		return ids;
	}

	nb::bytes devices(uint64_t node) const
	{
		sk_device_view views[SK_NODE_DEVICES_MAX];

		return to_bytes(views, sk_core_devices(idle(), node, views, SK_NODE_DEVICES_MAX) *
					       sizeof views[0]);
	}

	nb::bytes node_tasks(uint64_t id) const
	{
		sk_node_view view = {};

		sk_core_node(idle(), id, &view);
		std::vector<sk_task_view> views(view.tasks);
		return to_bytes(views.data(),
				sk_core_node_tasks(idle(), id, views.data(), view.tasks) *
					sizeof(sk_task_view));
	}

	nb::bytes job_tasks(uint64_t id) const
	{
		sk_task_view views[SK_TASKS_MAX];

		return to_bytes(views, sk_core_job_tasks(idle(), id, views, SK_TASKS_MAX) *
					       sizeof views[0]);
	}

	nb::bytes labels(uint64_t node) const
	{
		sk_label_view views[SK_NODE_LABELS_MAX];

		return to_bytes(views, sk_core_labels(idle(), node, views, SK_NODE_LABELS_MAX) *
					       sizeof views[0]);
	}

	nb::bytes queue(uint32_t id, uint64_t now_ns) const
	{
		sk_queue_view view;

		return to_bytes(&view, sk_core_queue(idle(), id, now_ns, &view) ? 0 : sizeof view);
	}

	std::vector<uint32_t> queues() const
	{
		sk_limits limits;

		sk_core_limits(idle(), &limits);
		std::vector<uint32_t> ids(limits.queues + 1);
		ids.resize(sk_core_queues(idle(), ids.data(), uint32_t(ids.size())));
		return ids;
	}

	uint64_t due() const
	{
		return sk_core_due(idle());
	}

	uint64_t key_window(uint64_t client, nb::bytes key) const
	{
		uint64_t words[2] = {0, 0};

		std::memcpy(words, key.c_str(), std::min(key.size(), sizeof words));
		return sk_core_key_window(idle(), client, words);
	}

	nb::dict counters() const
	{
		nb::dict ret;
		uint64_t value;

		for (uint32_t i = 0; const char *name = sk_core_counter(idle(), i, &value); i++)
			ret[name] = value;
		return ret;
	}

	nb::tuple limits() const
	{
		sk_limits at;

		sk_core_limits(idle(), &at);
		return nb::make_tuple(at.nodes, at.devices, at.jobs, at.finished, at.tasks,
				      at.node_tasks, at.keys, at.queues);
	}

	// Returns times in ns, as arrays of uint32 by name, and counts of the same run.
	nb::tuple bench_decide(nb::bytes submits, uint64_t fill_milli, uint32_t warm,
			       uint32_t decisions, uint32_t batches, uint32_t naive,
			       uint32_t unique, uint64_t seed)
	{
		BusyGuard guard(busy_);
		sk_bench_plan plan = {reinterpret_cast<const uint8_t *>(submits.c_str()),
				      submits.size(),
				      decisions,
				      warm,
				      batches,
				      unique,
				      naive,
				      fill_milli,
				      seed};
		sk_bench_times times = {};
		nb::dict told, counted;

		if (std::max({decisions, batches, unique, naive}) > SK_BENCH_TIMES_MAX)
			raise_errno(-EINVAL, "bench_decide");
		std::vector<uint32_t> series[6];
		struct {
			const char *name;
			uint32_t count;
			uint32_t *sk_bench_times::*to;
		} const kinds[6] = {{"propose", decisions, &sk_bench_times::propose},
				    {"apply", decisions, &sk_bench_times::apply},
				    {"batch_propose", batches, &sk_bench_times::batch_propose},
				    {"batch_both", batches, &sk_bench_times::batch_both},
				    {"unique", unique, &sk_bench_times::unique},
				    {"naive", naive, &sk_bench_times::naive}};
		for (int i = 0; i < 6; i++) {
			series[i].resize(kinds[i].count);
			times.*kinds[i].to = series[i].data();
		}
		if (int error = sk_bench_decide(core_, &plan, &times))
			raise_errno(error, "bench_decide");
		for (int i = 0; i < 6; i++)
			told[kinds[i].name] =
				to_bytes(series[i].data(), series[i].size() * sizeof(uint32_t));
		counted["used_milli"] = times.used_milli;
		counted["clock_ns"] = times.clock_ns;
		counted["jobs"] = times.jobs;
		counted["placed"] = times.placed;
		counted["batches_placed"] = times.batches_placed;
		counted["unique_placed"] = times.unique_placed;
		counted["naive_agrees"] = times.naive_agrees;
		return nb::make_tuple(told, counted);
	}

	const char *check() const
	{
		const char *broken = sk_core_check(idle());

		return broken ? broken : "";
	}

      private:
	// Allows one call at a time; a second one is a programming error and raises.
	class BusyGuard
	{
	      public:
		explicit BusyGuard(std::atomic<bool> &busy) : busy_(busy)
		{
			if (busy_.exchange(true))
				throw std::runtime_error("the core is in use by another thread");
		}
		~BusyGuard()
		{
			busy_.store(false);
		}

	      private:
		std::atomic<bool> &busy_;
	};

	// Refuses to read while another thread decides, when the state is inconsistent.
	sk_core *idle() const
	{
		if (busy_.load())
			throw std::runtime_error("the core is in use by another thread");
		return core_;
	}

	void allocate(size_t size)
	{
		size_ = (size + 4095) & ~size_t(4095);
		memory_ = std::aligned_alloc(4096, size_);
		if (!memory_)
			throw std::bad_alloc();
	}

	static uint32_t records(const char *bytes, size_t size)
	{
		uint32_t count = 0;

		for (size_t at = 0; at < size; count++)
			at += uint8_t(bytes[at]) | size_t(uint8_t(bytes[at + 1])) << 8;
		return count;
	}

	void *memory_ = nullptr;
	size_t size_ = 0;
	sk_core *core_ = nullptr;
	std::vector<uint8_t> commands_;
	std::vector<sk_rejected> rejected_;
	std::vector<sk_effect> effects_ = std::vector<sk_effect>(512);
	std::atomic<bool> busy_{false};
};

} // namespace

NB_MODULE(_core, module)
{
	using namespace nb::literals;

	module.attr("LAYOUT") = SK_WIRE_DIGEST;
	nb::class_<Core>(module, "Core")
		.def(
			"__init__",
			[](Core *self, uint32_t nodes, uint32_t devices, uint32_t jobs,
			   uint32_t finished, uint32_t tasks, uint32_t node_tasks, uint32_t keys,
			   uint32_t queues) {
				new (self) Core(sk_limits{nodes, devices, jobs, finished, tasks,
							  node_tasks, keys, queues});
			},
			"nodes"_a, "devices"_a, "jobs"_a, "finished"_a, "tasks"_a, "node_tasks"_a,
			"keys"_a, "queues"_a)
		.def_static(
			"restore",
			[](nb::bytes snapshot) {
				return new Core(snapshot.c_str(), snapshot.size());
			},
			"snapshot"_a)
		.def_static(
			"resize",
			[](nb::bytes snapshot, uint32_t nodes, uint32_t devices, uint32_t jobs,
			   uint32_t finished, uint32_t tasks, uint32_t node_tasks, uint32_t keys,
			   uint32_t queues) {
				return new Core(snapshot.c_str(), snapshot.size(),
						sk_limits{nodes, devices, jobs, finished, tasks,
							  node_tasks, keys, queues});
			},
			"snapshot"_a, "nodes"_a, "devices"_a, "jobs"_a, "finished"_a, "tasks"_a,
			"node_tasks"_a, "keys"_a, "queues"_a)
		.def("snapshot", &Core::snapshot)
		.def("propose", &Core::propose, "requests"_a, "now_ns"_a, "seed"_a, "measure"_a)
		.def("apply", &Core::apply, "commands"_a, "now_ns"_a)
		.def("observe", &Core::observe, "node"_a, "observation"_a, "load_milli"_a)
		.def("observe_device", &Core::observe_device, "node"_a, "index"_a, "sample"_a)
		.def("speeds", &Core::speeds, "series"_a)
		.def("evidence", &Core::evidence, "job"_a, "attempt"_a, "task"_a)
		.def("model_power", &Core::model_power, "model"_a, "idle_mw"_a, "full_mw"_a)
		.def("cpu_power", &Core::cpu_power, "socket_milli"_a, "idle_mw"_a, "full_mw"_a)
		.def("workload_learn", &Core::workload_learn)
		.def("workload", &Core::workload, "classes"_a)
		.def("choice", &Core::choice, "job"_a, "attempt"_a, "reason"_a, "rows"_a)
		.def("candidates", &Core::candidates, "job"_a, "chosen"_a, "now_ns"_a, "seed"_a)
		.def("scores_check", &Core::figure<sk_core_scores_check>)
		.def("digest", &Core::digest)
		.def("explain", &Core::explain, "job"_a)
		.def("move_refusal", &Core::move_refusal, "job"_a)
		.def("job", &Core::job, "job"_a)
		.def("node", &Core::node, "node"_a)
		.def("nodes", &Core::nodes)
		.def("devices", &Core::devices, "node"_a)
		.def("node_tasks", &Core::node_tasks, "node"_a)
		.def("job_tasks", &Core::job_tasks, "job"_a)
		.def("labels", &Core::labels, "node"_a)
		.def("queue", &Core::queue, "queue"_a, "now_ns"_a)
		.def("queues", &Core::queues)
		.def("due", &Core::due)
		.def("key_window", &Core::key_window, "client"_a, "key"_a)
		.def("counters", &Core::counters)
		.def("term", &Core::figure<sk_core_term>)
		.def("leader", &Core::figure<sk_core_leader>)
		.def("limits", &Core::limits)
		.def("bench_decide", &Core::bench_decide, "submits"_a, "fill_milli"_a, "warm"_a,
		     "decisions"_a, "batches"_a, "naive"_a, "unique"_a, "seed"_a)
		.def("check", &Core::check)
		.def("memory_digest", &Core::figure<sk_core_memory_digest>);
}
