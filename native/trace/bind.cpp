/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's view of the trace fold: a thin handle per object, errors as negative errno, no logic.
 * Long calls release the GIL; a Job belongs to one thread at a time.
 */
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <vector>

extern "C" {
#include "trace/timeline/timeline.h"
}

#include "trace/bind_causes.h"
#include "trace/bind_layout.h"

namespace nb = nanobind;

namespace {

nb::object quantile(const sk_trace_histogram &histogram, unsigned permille)
{
	uint64_t value;

	if (sk_trace_histogram_quantile(&histogram, permille, &value))
		return nb::none();
	return nb::cast(value);
}

struct Histogram {
	sk_trace_histogram body{};

	void add(uint64_t value, uint64_t weight) { sk_trace_histogram_add(&body, value, weight); }
	void merge(const Histogram &other) { sk_trace_histogram_merge(&body, &other.body); }
	nb::object at(unsigned permille) const { return quantile(body, permille); }

	nb::tuple totals() const
	{
		return nb::make_tuple(body.count, body.sum, body.min, body.max, body.zero,
				      body.high);
	}

	nb::dict buckets() const
	{
		nb::dict found;

		for (int bucket = 0; bucket < SK_HISTOGRAM_BUCKETS; bucket++)
			if (body.buckets[bucket])
				found[nb::int_(bucket + SK_HISTOGRAM_INDEX_FIRST)] =
					body.buckets[bucket];
		return found;
	}
};

struct Stat {
	sk_trace_stat body{};

	void add(uint64_t ns, unsigned shift, int draw)
	{ sk_trace_stat_add(&body, ns, shift, sk_trace_stat_draw(draw)); }

	nb::tuple total(uint64_t count) const
	{
		struct sk_trace_stat_total total;

		sk_trace_stat_total(&body, count, &total);
		return nb::make_tuple(total.timed, total.total_ns, total.error_ns, total.estimate);
	}
};

/* Returns the causes after estimation; `host` has four aggregates and the longest life, or nothing.
 */
nb::tuple estimated(std::vector<uint64_t> causes, uint64_t kernel_ns, uint64_t copy_ns,
		    const std::vector<uint64_t> &host, uint64_t held_ns)
{
	struct sk_trace_causes_estimate estimate{};

	if (causes.size() != SK_CAUSES || (!host.empty() && host.size() != 5))
		throw nb::value_error("causes are ten numbers, host none or five");
	estimate.kernel_ns = kernel_ns;
	estimate.copy_ns = copy_ns;
	estimate.has_host = !host.empty();
	estimate.held_ns = held_ns;
	for (size_t part = 0; part < 4 && !host.empty(); part++)
		estimate.host[part] = host[part];
	estimate.host_longest_ns = host.empty() ? 0 : host[4];
	::sk_trace_causes_estimate(&estimate, causes.data());
	nb::list all;

	for (uint64_t each : causes)
		all.append(each);
	return nb::tuple(all);
}

class Job {
public:
	Job() = default;
	Job(const Job &) = delete;
	~Job() { close(); }

	int open(const std::string &folder, const std::string &store, uint32_t mode, uint32_t owner,
		 uint64_t now_ns)
	{
		return sk_trace_job_open(&job_, folder.c_str(), store.c_str(), mode, owner, now_ns);
	}

	void close()
	{
		sk_trace_job_close(job_);
		job_ = nullptr;
	}

	int set_window_from(uint64_t ns) { return sk_trace_job_set_window_from(job_, ns); }
	void set_window_to(uint64_t ns) { sk_trace_job_set_window_to(job_, ns); }
	int grant(const std::string &id) { return sk_trace_job_grant(job_, id.c_str()); }

	void add_spans(const nb::bytes &spans)
	{
		sk_trace_job_add_spans(
			job_, reinterpret_cast<const sk_trace_thread_span *>(spans.c_str()),
			spans.size() / sizeof(sk_trace_thread_span));
	}

	void add_open(const nb::bytes &open)
	{
		sk_trace_job_add_open(job_,
				      reinterpret_cast<const sk_trace_thread_span *>(open.c_str()),
				      open.size() / sizeof(sk_trace_thread_span));
	}

	void add_waits(const nb::bytes &waits, uint64_t to_ns)
	{
		sk_trace_job_add_waits(
			job_, reinterpret_cast<const sk_trace_thread_span *>(waits.c_str()),
			waits.size() / sizeof(sk_trace_thread_span), to_ns);
	}

	int set_host_times(uint32_t tid, uint64_t on_cpu, uint64_t runnable, uint64_t blocked,
			   uint64_t io)
	{
		const uint64_t ns[4] = {on_cpu, runnable, blocked, io};

		return sk_trace_job_set_host_times(job_, tid, ns);
	}

	void control(uint32_t mode, uint32_t budget_ppm, uint64_t lease_ns, uint64_t now_ns)
	{
		sk_trace_job_control(job_, mode, budget_ppm, lease_ns, now_ns);
	}

	void hold(uint32_t share, uint64_t now_ns) { sk_trace_job_throttle(job_, share, now_ns); }

	/* A reading of a device for the timeline. */
	void add_counter(const std::string &device, const std::string &name, uint64_t t_ns,
			 double value, const std::string &unit)
	{
		sk_trace_history_track track{};

		strncpy(track.device, device.c_str(), sizeof(track.device) - 1);
		strncpy(track.name, name.c_str(), sizeof(track.name) - 1);
		strncpy(track.unit, unit.c_str(), sizeof(track.unit) - 1);
		job_->fold.state->retired.loss[SK_LOSS_timeline_counters_dropped] +=
			sk_trace_history_read(&job_->history, &track, t_ns, value);
	}

	/* The answer of each tracer whose process lives, and the request to it. */
	nb::list answers() const
	{
		const sk_trace_fold_state *state = job_->fold.state;
		nb::list all;

		for (unsigned row = 0; row < state->segments_used; row++) {
			const sk_trace_reader *reader = job_->readers[row];

			if (!reader)
				continue;
			const sk_trace_reader_answer &said = reader->answer;

			all.append(nb::make_tuple(
				state->segments[row].pid,
				text(state->processes[state->segments[row].process].comm),
				said.tracer, reader->wanted, said.applied, said.mode, said.phase,
				said.since_ns, said.switches, said.switches_late, said.pinned,
				said.stepped_aside != 0, text(said.holder), reader->lease_ns,
				said.holds, said.hold, said.held, said.held_ns));
		}
		return all;
	}

	/* Segments that drains found since the last call: (pid, start time, made_ns). */
	nb::list found()
	{
		sk_trace_job_found segments[SK_FOLD_SEGMENTS];
		unsigned count = sk_trace_job_take_found(job_, segments);
		nb::list all;

		for (unsigned i = 0; i < count; i++)
			all.append(nb::make_tuple(segments[i].pid, segments[i].starttime,
						  segments[i].made_ns));
		return all;
	}

	void fed(uint64_t ns) { sk_trace_job_fed(job_, ns); }
	nb::tuple drain(uint64_t now_ns) { return drained(now_ns, sk_trace_job_drain); }
	nb::tuple finish(uint64_t to_ns) { return drained(to_ns, sk_trace_job_finish); }

	nb::dict summary() const
	{
		const sk_trace_fold_state *state = job_->fold.state;
		sk_trace_fold_counters sum;
		nb::dict all;

		auto sums = std::make_unique<struct sk_trace_job_sums>();

		sk_trace_job_counters(job_, &sum);
		sk_trace_job_sums(job_, sums.get());
		all["mode"] = state->mode;
		all["window"] = nb::make_tuple(state->causes.origin_ns, state->causes.frontier_ns);
		add_rows(all, *sums);
		all["devices"] = devices();
		all["processes"] = processes(*sums);
		all["events"] = events_seen();
		all["windows"] = sum.windows;
		all["profiler_ns"] = sum.profiler_ns;
		all["loss"] = losses(sum);
		all["cost"] =
			nb::make_tuple(sum.launches + sum.copies, sum.tracer_ns, sum.thread_ns);
		all["made"] = sum.made;
		all["timed"] = sum.timed;
		all["records"] = state->records;
		all["spans"] = state->spans;
		all["segments"] = state->segments_seen;
		all["spans_seen"] = state->causes.spans_seen != 0;
		all["command_buffers"] = sum.command_buffers;
		all["finished"] = state->finished != 0;
		return all;
	}

	/* Returns a kernel's histogram of device times for exporters; None for an unknown name. */
	nb::object histogram(const std::string &name) const
	{
		const sk_trace_fold_state *state = job_->fold.state;

		for (unsigned row = 0; row < state->names_used; row++)
			if (name == state->names[row]) {
				Histogram found;

				found.body = state->kernels[row].histogram;
				return nb::cast(found);
			}
		return nb::none();
	}

	/* Returns (duration, end) of the slowest launch of a kernel of late, or None. */
	nb::object slowest(const std::string &name) const
	{
		const sk_trace_fold_state *state = job_->fold.state;

		for (unsigned row = 0; row < state->names_used; row++) {
			const sk_trace_job_slowest &kept = job_->slowest[row];

			if (name == state->names[row] && kept.end_ns &&
			    kept.turn == state->turns[row])
				return nb::make_tuple(kept.ns, kept.end_ns);
		}
		return nb::none();
	}

	/* Returns kept records from number `first` on, at most `most`, as (number of the first of
	 * them, number of records ever folded, the records packed). */
	nb::object events(uint64_t first, uint64_t most)
	{
		uint64_t total = job_->fold.state->records;
		uint64_t oldest = total > SK_EVENTS_CAPACITY ? total - SK_EVENTS_CAPACITY : 0;

		first = first < oldest ? oldest : first > total ? total : first;
		uint64_t count = total - first < most ? total - first : most;
		std::vector<sk_trace_event> found(count);
		int got = sk_trace_events_copy(&job_->events, job_->store_fd, first, count,
					       found.data());

		for (int i = 0; i < got; i++) /* a row that has another name by now */
			if (found[i].name < SK_FOLD_NAMES &&
			    found[i].turn != job_->fold.state->turns[found[i].name])
				found[i].name = 0;
		size_t bytes = got > 0 ? (size_t)got * sizeof(sk_trace_event) : 0;

		for (sk_trace_event &event : found) /* another name may have its row by now */
			if (event.name < SK_FOLD_NAMES &&
			    event.turn != job_->fold.state->turns[event.name])
				event.name = 0;

		return nb::make_tuple(first, total,
				      nb::bytes(reinterpret_cast<const char *>(found.data()),
						bytes));
	}

	/* Kernel names by row, as records speak of them. */
	nb::list names() const
	{
		const sk_trace_fold_state *state = job_->fold.state;
		nb::list all;

		for (unsigned row = 0; row < state->names_used; row++)
			all.append(text(state->names[row]));
		return all;
	}

	nb::object write_timeline(int fd, const std::string &title, uint64_t now_ns,
				  uint64_t realtime_ns, uint64_t from_ns, uint64_t to_ns,
				  int events_fd)
	{
		sk_trace_timeline_stats stats;
		int error;
		{
			nb::gil_scoped_release release;
			error = sk_trace_timeline_write(job_, fd, title.c_str(),
						  {from_ns, to_ns, events_fd}, now_ns, realtime_ns,
						  &stats);
		}
		return nb::make_tuple(error, stats.records, stats.spans, stats.bytes);
	}

private:
	sk_trace_job *job_ = nullptr;

	template <typename Call> nb::tuple drained(uint64_t ns, Call call)
	{
		sk_trace_job_drained found;
		nb::list tids;
		int error;
		{
			nb::gil_scoped_release release;
			error = call(job_, ns, &found);
		}
		for (unsigned i = 0; i < found.tids_used; i++)
			tids.append(found.tids[i]);
		return nb::make_tuple(error, found.records, found.lost, nb::tuple(tids),
				      found.segments, found.fill);
	}

	static nb::tuple row(const char *name, const sk_trace_stat &stat,
			     const struct sk_trace_job_row &found, uint64_t bytes)
	{
		return nb::make_tuple(text(name), found.count, found.total_ns,
				      quantile(stat.histogram, 500), quantile(stat.histogram, 990),
				      bytes, found.estimate, found.error_ns, found.timed,
				      found.unseen);
	}

	/* Names come from the job and may hold any bytes. */
	static nb::object text(const char *bytes)
	{
		return nb::steal(PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)strlen(bytes), "replace"));
	}

	void add_rows(nb::dict &all, const struct sk_trace_job_sums &sums) const
	{
		const sk_trace_fold_state *state = job_->fold.state;
		const struct sk_trace_job_counts &counts = sums.counts;
		nb::list kernel_rows, copy_rows;
		struct sk_trace_job_row found;

		for (unsigned i = 0; i < state->names_used; i++) {
			sk_trace_job_row(&sums, &state->kernels[i], counts.kernels[i],
				   counts.kernels_unseen[i], &found);
			if (found.count)
				kernel_rows.append(
					row(state->names[i], state->kernels[i], found, 0));
		}
		for (unsigned i = 0; i < SK_COPY_KINDS; i++) {
			sk_trace_job_row(&sums, &state->copies[i], counts.copies[i],
				   counts.copies_unseen[i], &found);
			if (found.count)
				copy_rows.append(row(sk_trace_timeline_kind_name(i),
						     state->copies[i], found, counts.bytes[i]));
		}
		all["kernels"] = kernel_rows;
		all["copies"] = copy_rows;
	}

	nb::list devices() const
	{
		const sk_trace_fold_state *state = job_->fold.state;
		nb::list rows;

		for (unsigned i = 0; i < state->devices_used; i++) {
			const struct sk_trace_fold_device &from = state->devices[i];
			struct sk_trace_job_causes found;
			nb::list causes;

			sk_trace_job_causes(job_, i, &found);
			for (uint64_t each : found.ns)
				causes.append(each);
			rows.append(nb::make_tuple(
				text(from.id), text(from.name), from.granted != 0,
				state->causes.device[i].used != 0, nb::tuple(causes),
				found.estimate, text(from.clock), from.offset_ns, from.drift_ppb,
				from.error_ns, found.error_ns, found.observed_ns));
		}
		return rows;
	}

	nb::list processes(const struct sk_trace_job_sums &sums) const
	{
		const sk_trace_fold_state *state = job_->fold.state;
		nb::list rows;

		for (unsigned i = 0; i < state->processes_used; i++) {
			const struct sk_trace_fold_process &from = state->processes[i];
			struct sk_trace_job_process found;
			nb::list cover;

			sk_trace_job_process(job_, i, &found);
			double error_ns = sk_trace_job_window_error_ns(
				&sums, double(found.ns[0]) + double(found.ns[1]));
			for (uint64_t each : from.cover_ns)
				cover.append(each);
			rows.append(nb::make_tuple(from.pid, text(from.comm), from.tracer,
						   found.launches, found.copies, found.unseen,
						   found.ns[0], found.ns[1], found.estimate,
						   found.tracer_ns, nb::tuple(cover),
						   error_ns));
		}
		return rows;
	}

	/* Host events by kind: (name, count, ns). */
	nb::list events_seen() const
	{
		nb::list rows;

		for (unsigned i = 0; i < SK_FOLD_HOST_KINDS; i++) {
			const struct sk_trace_fold_event_sum &sum = job_->fold.state->events[i];

			if (sum.count)
				rows.append(nb::make_tuple(
					sk_trace_timeline_kind_name(SK_KIND_BARRIER + i), sum.count,
					sum.ns));
		}
		return rows;
	}

	static nb::dict losses(const sk_trace_fold_counters &sum)
	{
		nb::dict named;

		for (int loss = 0; loss < SK_LOSS_COUNT; loss++)
			named[sk_trace_loss_name((sk_trace_loss)loss)] = sum.loss[loss];
		return named;
	}
};

} /* namespace */

NB_MODULE(_trace, module)
{
	module.attr("SEGMENT_MAGIC") = SK_SEGMENT_MAGIC;
	module.def("layout", &layout);
	module.def("estimated", &estimated, nb::arg("causes"), nb::arg("kernel_ns"),
		   nb::arg("copy_ns"), nb::arg("host"), nb::arg("held_ns") = 0);
	nb::class_<Histogram>(module, "Histogram")
		.def(nb::init<>())
		.def("add", &Histogram::add, nb::arg("value"), nb::arg("weight") = 1)
		.def("merge", &Histogram::merge)
		.def("quantile", &Histogram::at)
		.def("totals", &Histogram::totals)
		.def("buckets", &Histogram::buckets)
		.def_static("index", &sk_trace_histogram_index)
		.def_static("lower", &sk_trace_histogram_lower);
	nb::class_<Stat>(module, "Stat")
		.def(nb::init<>())
		.def("add", &Stat::add)
		.def("total", &Stat::total);
	nb::class_<Causes>(module, "Causes")
		.def(nb::init<uint64_t>())
		.def("know", &Causes::know)
		.def("called", &Causes::called)
		.def("busy", &Causes::busy, nb::arg("from_ns"), nb::arg("to_ns"), nb::arg("tid"),
		     nb::arg("device"), nb::arg("kind"), nb::arg("cover") = false,
		     nb::arg("called_ns") = 0)
		.def("unended", &Causes::unended)
		.def("unseen", &Causes::unseen)
		.def("span", &Causes::span, nb::arg("from_ns"), nb::arg("to_ns"), nb::arg("tid"),
		     nb::arg("state"), nb::arg("detail") = 0xffff)
		.def("held", &Causes::held)
		.def("peer", &Causes::peer)
		.def("sweep", &Causes::sweep)
		.def("whole", &Causes::whole)
		.def("read", &Causes::read, nb::arg("device"), nb::arg("ended") = false)
		.def("check", &Causes::check)
		.def("losses", &Causes::losses);
	nb::class_<Job>(module, "Job")
		.def(nb::init<>())
		.def("open", &Job::open)
		.def("close", &Job::close)
		.def("set_window_from", &Job::set_window_from)
		.def("set_window_to", &Job::set_window_to)
		.def("grant", &Job::grant)
		.def("add_spans", &Job::add_spans)
		.def("add_open", &Job::add_open)
		.def("add_waits", &Job::add_waits, nb::arg("waits"), nb::arg("to_ns"))
		.def("set_host_times", &Job::set_host_times)
		.def("control", &Job::control)
		.def("hold", &Job::hold)
		.def("answers", &Job::answers)
		.def("found", &Job::found)
		.def("add_counter", &Job::add_counter)
		.def("fed", &Job::fed)
		.def("drain", &Job::drain)
		.def("finish", &Job::finish)
		.def("summary", &Job::summary)
		.def("histogram", &Job::histogram)
		.def("slowest", &Job::slowest)
		.def("events", &Job::events)
		.def("names", &Job::names)
		.def("write_timeline", &Job::write_timeline, nb::arg("fd"), nb::arg("title"),
		     nb::arg("now_ns"), nb::arg("realtime_ns"), nb::arg("from_ns") = 0,
		     nb::arg("to_ns") = UINT64_MAX, nb::arg("events_fd") = -1);
}
