/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding of simulated nodes for probes/simdriver and the power loop: structures as dictionaries by
 * the table of fields.h, and calls. It has no logic of its own.
 */

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "bind_dicts.h"

extern "C" {
#include "sim/card/bounds.h"
#include "sim/node/fault.h"
#include "sim/node/node.h"
#include "sim/card/partition.h"
#include "sim/card/plant.h"
#include "sim/card/request.h"
#include "sim/card/sensor.h"
}

namespace nb = nanobind;

namespace
{

[[noreturn]] void raise_errno(int negative, const std::string &what)
{
	nb::object raised =
		nb::module_::import_("stoker.native.errors").attr("from_errno")(negative, what);

	PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(raised.ptr())), raised.ptr());
	throw nb::python_error();
}

void check(int result, const std::string &what)
{
	if (result < 0)
		raise_errno(result, what);
}

struct Model {
	sk_sim_model model;
	std::vector<sk_sim_partition> partitions;
};

sk_sim_partition to_partition(nb::dict dict)
{
	sk_sim_partition partition{};

	from_dict(&partition, sk_sim_partition_fields, dict);
	partition.used = partition.compute = 1;
	return partition;
}

Model to_model(nb::dict given)
{
	Model made{};
	nb::dict dict;

	for (auto [key, value] : given) {
		auto name = nb::cast<std::string>(key);

		if (name == "physics")
			from_dict(&made.model.physics, sk_sim_physics_fields,
				  nb::cast<nb::dict>(value));
		else if (name == "sensor")
			from_dict(&made.model.sensor, sk_sim_sensor_fields,
				  nb::cast<nb::dict>(value));
		else if (name == "partitions")
			for (nb::handle each : nb::cast<nb::list>(value))
				made.partitions.push_back(to_partition(nb::cast<nb::dict>(each)));
		else
			dict[key] = value;
	}
	from_dict(&made.model, sk_sim_model_fields, dict);
	return made;
}

nb::dict model_dict(const sk_sim_model &model)
{
	nb::dict dict = to_dict(&model, sk_sim_model_fields);

	dict["physics"] = to_dict(&model.physics, sk_sim_physics_fields);
	dict["sensor"] = to_dict(&model.sensor, sk_sim_sensor_fields);
	return dict;
}

uint32_t kind_of(const std::string &name)
{
	for (uint32_t kind = 1; kind < SK_SIM_FAULT_KINDS; kind++)
		if (name == sk_sim_fault_name(kind))
			return kind;
	throw nb::value_error(("no such fault: " + name).c_str());
}

class Node
{
      public:
	static std::unique_ptr<Node> create(std::optional<std::string> path, nb::list models,
					    bool virtual_time, uint64_t seed,
					    const std::string &profile);
	static std::unique_ptr<Node> open(std::optional<std::string> path);
	~Node();
	Node(sk_sim_node *made, bool mapped) : node(made), mapped(mapped)
	{
	}

	sk_sim_card &card(uint32_t index)
	{
		if (index >= sk_sim_node_cards(node))
			throw nb::index_error("no such card");
		return node->card[index];
	}

	sk_sim_node *node;

      private:
	bool mapped;
};

/* Holds the node's lock while it lives; the cards have been moved to the present. */
struct Inside {
	explicit Inside(Node &of) : node(of.node)
	{
		sk_sim_node_enter(node);
	}
	~Inside()
	{
		sk_sim_node_leave(node);
	}
	Inside(const Inside &) = delete;
	sk_sim_node *node;
};

void place(sk_sim_card *card, uint32_t slot, const sk_sim_partition &given)
{
	uint32_t start = 0;

	check(sk_sim_partition_place(card, sk_sim_size_of(&given), &start),
	      "partition of a simulated card");
	card->partition[slot] = given;
	card->partition[slot].start = start;
}

void partition(sk_sim_node *node, const std::vector<Model> &models)
{
	sk_sim_node_enter(node);
	for (size_t i = 0; i < models.size(); i++) {
		const auto &given = models[i].partitions;

		for (size_t k = 0; k < given.size(); k++)
			place(&node->card[i], uint32_t(k), given[k]);
		node->card[i].partitioned = node->card[i].partitioned_next = !given.empty();
	}
	sk_sim_node_leave(node);
}

std::unique_ptr<Node> Node::create(std::optional<std::string> path, nb::list dicts,
				   bool virtual_time, uint64_t seed, const std::string &profile)
{
	std::vector<Model> models;
	std::vector<sk_sim_model> plain;

	for (nb::handle each : dicts) {
		models.push_back(to_model(nb::cast<nb::dict>(each)));
		plain.push_back(models.back().model);
		if (models.back().partitions.size() > SK_SIM_PARTITIONS)
			throw nb::value_error("too many partitions");
	}
	if (!path) {
		auto *node = new sk_sim_node;
		auto made = std::make_unique<Node>(node, false);

		check(sk_sim_node_init(node, plain.data(), uint32_t(plain.size()), seed),
		      "simulated node: its cards");
		std::strncpy(node->profile, profile.c_str(), sizeof(node->profile) - 1);
		partition(node, models);
		return made;
	}
	check(sk_sim_node_create(path->c_str(), profile.c_str(), plain.data(),
				 uint32_t(plain.size()),
				 virtual_time ? SK_SIM_VIRTUAL : SK_SIM_REAL, seed),
	      "simulated node " + *path);
	auto made = open(path);
	partition(made->node, models);
	return made;
}

std::unique_ptr<Node> Node::open(std::optional<std::string> path)
{
	sk_sim_node *node;

	check(sk_sim_node_open(path ? path->c_str() : nullptr, &node),
	      "simulated node " + path.value_or("(" SK_SIM_VARIABLE ")"));
	return std::make_unique<Node>(node, true);
}

Node::~Node()
{
	if (mapped)
		sk_sim_node_close(node);
	else
		delete node;
}

void advance(Node &of, uint64_t ns)
{
	sk_sim_node_advance(of.node, ns);
}

uint64_t now_ns(Node &of)
{
	return Inside(of).node->now_ns;
}

void set_load(Node &of, uint32_t index, double compute, double memory, double bound)
{
	if (!(compute >= 0 && compute <= 1 && memory >= 0 && memory <= 1 && bound >= 0 &&
	      bound <= 1))
		throw nb::value_error("a load is three shares from 0 to 1");
	sk_sim_card &card = of.card(index);
	Inside inside(of);

	card.load = {compute, memory, bound};
}

void set_limit(Node &of, uint32_t index, uint32_t mw)
{
	sk_sim_card &card = of.card(index);
	Inside inside(of);

	if (sk_sim_card_limit(&card, mw))
		throw nb::value_error("power limit out of the card's range");
}

void lock_clocks(Node &of, uint32_t index, uint32_t low, uint32_t high)
{
	sk_sim_card &card = of.card(index);
	Inside inside(of);

	if (sk_sim_card_lock(&card, low, high))
		throw nb::value_error("clocks out of the card's range");
}

void reset(Node &of, uint32_t index)
{
	sk_sim_card &card = of.card(index);
	Inside inside(of);

	sk_sim_card_reset(&card);
}

int inject(Node &of, const std::string &kind, int64_t card, std::optional<uint64_t> from_ns,
	   uint64_t until_ns, int64_t value, uint64_t count, const std::string &call)
{
	sk_sim_fault fault{};

	fault.kind = kind_of(kind);
	fault.card = card < 0 ? UINT32_MAX : uint32_t(card);
	fault.until_ns = until_ns;
	fault.value = value;
	fault.count = count;
	if (call.size() >= sizeof(fault.call))
		throw nb::value_error("name of the call too long");
	std::memcpy(fault.call, call.data(), call.size());
	int slot;
	{
		Inside inside(of);

		fault.from_ns = from_ns.value_or(inside.node->now_ns);
		slot = sk_sim_fault_inject(inside.node, &fault);
	}
	check(slot, "fault " + kind);
	return slot;
}

void heal(Node &of)
{
	sk_sim_fault_heal(Inside(of).node);
}

nb::list processes(const sk_sim_card &card)
{
	nb::list list;

	for (const auto &each : card.process)
		if (each.pid)
			list.append(to_dict(&each, sk_sim_process_fields));
	return list;
}

nb::list partitions(const sk_sim_card &card)
{
	nb::list list;

	for (const auto &each : card.partition)
		if (each.used)
			list.append(to_dict(&each, sk_sim_partition_fields));
	return list;
}

nb::dict truth(Node &of, uint32_t index)
{
	auto card = std::make_unique<sk_sim_card>();
	nb::dict dict;

	{
		sk_sim_card &from = of.card(index);
		Inside inside(of);

		*card = from;
	}
	dict["model"] = model_dict(card->model);
	dict["load"] = to_dict(&card->load, sk_sim_load_fields);
	dict["now"] = to_dict(&card->now, sk_sim_now_fields);
	dict["processes"] = processes(*card);
	dict["partitions"] = partitions(*card);
	dict["partitioned"] = card->partitioned != 0;
	dict["partitioned_next"] = card->partitioned_next != 0;
	return dict;
}

/* Returns None where a driver would not answer: the card is lost, waits for a reset, or a fault
 * drops the reading. */
nb::object sensor(Node &of, uint32_t index)
{
	sk_sim_card &card = of.card(index);
	int64_t error;

	if (sk_sim_node_call(of.node, "sensor", index, &error) != SK_SIM_ANSWER_OK)
		return nb::none();
	Inside inside(of);
	nb::dict dict;

	if (card.now.state == SK_SIM_NEEDS_RESET)
		return nb::none();
	dict["t_ns"] = inside.node->now_ns;
	dict["power_mw"] = sk_sim_power_mw(&card);
	dict["power_instant_mw"] = sk_sim_power_instant_mw(&card);
	dict["energy_mj"] = sk_sim_energy_mj(&card);
	dict["temperature_mc"] = sk_sim_temperature_mc(&card);
	dict["memory_temperature_mc"] = sk_sim_memory_temperature_mc(&card);
	dict["clock_mhz"] = sk_sim_clock_mhz(&card);
	dict["memory_clock_mhz"] = sk_sim_memory_clock_mhz(&card);
	dict["busy_percent"] = sk_sim_busy_percent(&card);
	dict["memory_busy_percent"] = sk_sim_memory_busy_percent(&card);
	dict["fan_percent"] = sk_sim_fan_percent(&card);
	dict["limit_mw"] = card.now.limit_mw;
	dict["locked_min_mhz"] = card.now.locked_min_mhz;
	dict["locked_max_mhz"] = card.now.locked_max_mhz;
	dict["pcie_rx_bytes"] = uint64_t(card.now.pcie_rx_bytes);
	dict["pcie_tx_bytes"] = uint64_t(card.now.pcie_tx_bytes);
	dict["why"] = card.now.why;
	dict["power_ns"] = card.now.why_ns[SK_SIM_WHY_POWER];
	dict["thermal_ns"] =
		card.now.why_ns[SK_SIM_WHY_THERMAL] + card.now.why_ns[SK_SIM_WHY_HARD_THERMAL];
	return dict;
}

void add_process(Node &of, uint32_t index, int32_t pid, uint64_t memory_bytes, double share,
		 const std::string &name, uint32_t kind, uint32_t instance)
{
	sk_sim_card &card = of.card(index);
	sk_sim_process process{};

	process.pid = pid;
	process.kind = kind;
	process.instance = instance;
	process.memory_bytes = memory_bytes;
	process.share = share;
	std::strncpy(process.name, name.c_str(), sizeof(process.name) - 1);
	int joined;
	{
		Inside inside(of);

		joined = sk_sim_card_join(&card, &process);
	}
	check(joined, "process on a simulated card");
}

void end_process(Node &of, uint32_t index, int32_t pid)
{
	sk_sim_card &card = of.card(index);
	Inside inside(of);

	sk_sim_card_part(&card, pid);
}

nb::dict calls(Node &of)
{
	Inside inside(of);
	nb::dict dict;

	for (const auto &each : inside.node->call)
		if (each.name[0])
			dict[each.name] = nb::make_tuple(each.calls, each.not_supported);
	return dict;
}

nb::list events(Node &of)
{
	Inside inside(of);
	uint64_t last = inside.node->events;
	uint64_t first = last > SK_SIM_EVENTS ? last - SK_SIM_EVENTS : 0;
	nb::list list;

	for (uint64_t number = first + 1; number <= last; number++)
		list.append(
			to_dict(&inside.node->event[number % SK_SIM_EVENTS], sk_sim_event_fields));
	return list;
}

void set_latency(Node &of, uint64_t ns)
{
	Inside(of).node->latency_ns = ns;
}

void set_open(Node &of, bool open)
{
	Inside(of).node->open = open;
}

nb::dict describe(Node &of)
{
	Inside inside(of);
	const sk_sim_node *node = inside.node;
	nb::dict dict;

	dict["profile"] = nb::str(node->profile);
	dict["cards"] = sk_sim_node_cards(node);
	dict["virtual"] = node->clock == SK_SIM_VIRTUAL;
	dict["seed"] = node->seed;
	dict["calls"] = node->calls;
	dict["not_supported"] = node->not_supported;
	dict["events"] = node->events;
	dict["reloads"] = node->reloads;
	dict["latency_ns"] = node->latency_ns;
	dict["open"] = node->open != 0;
	return dict;
}

sk_sim_model checked(nb::dict dict)
{
	sk_sim_model model = to_model(dict).model;

	check(sk_sim_model_check(&model), "simulated card");
	return model;
}

double power_at(nb::dict dict, double compute, double memory, double bound, double clock_mhz,
		double die_c)
{
	sk_sim_model model = checked(dict);
	sk_sim_load load{compute, memory, bound};

	return sk_sim_power_at(&model, &load, clock_mhz, die_c);
}

double work_at(nb::dict dict, double compute, double memory, double bound, double clock_mhz)
{
	sk_sim_model model = checked(dict);
	sk_sim_load load{compute, memory, bound};

	return sk_sim_work_at(&model, &load, clock_mhz);
}

nb::list fault_kinds()
{
	nb::list list;

	for (uint32_t kind = 1; kind < SK_SIM_FAULT_KINDS; kind++)
		list.append(sk_sim_fault_name(kind));
	return list;
}

void define_node(nb::module_ &module)
{
	nb::class_<Node>(module, "Node")
		.def_static("create", &Node::create, nb::arg("path").none(), nb::arg("models"),
			    nb::arg("virtual"), nb::arg("seed"), nb::arg("profile") = "")
		.def_static("open", &Node::open, nb::arg("path").none() = nb::none())
		.def("advance", &advance, nb::arg("ns"), nb::call_guard<nb::gil_scoped_release>())
		.def_prop_ro("now_ns", &now_ns)
		.def("set_load", &set_load, nb::arg("card"), nb::arg("compute"), nb::arg("memory"),
		     nb::arg("bound"))
		.def("set_limit", &set_limit, nb::arg("card"), nb::arg("mw"))
		.def("lock_clocks", &lock_clocks, nb::arg("card"), nb::arg("lo"), nb::arg("hi"))
		.def("reset", &reset, nb::arg("card"))
		.def("inject", &inject, nb::arg("kind"), nb::arg("card") = -1,
		     nb::arg("from_ns").none() = nb::none(), nb::arg("until_ns") = 0,
		     nb::arg("value") = 0, nb::arg("count") = 0, nb::arg("call") = "")
		.def("heal", &heal)
		.def("truth", &truth, nb::arg("card"))
		.def("sensor", &sensor, nb::arg("card"))
		.def("add_process", &add_process, nb::arg("card"), nb::arg("pid"),
		     nb::arg("memory_bytes"), nb::arg("share"), nb::arg("name") = "",
		     nb::arg("kind") = 1, nb::arg("instance") = 0)
		.def("end_process", &end_process, nb::arg("card"), nb::arg("pid"))
		.def("calls", &calls)
		.def("events", &events)
		.def("set_latency", &set_latency, nb::arg("ns"))
		.def("set_open", &set_open, nb::arg("open"))
		.def("describe", &describe);
}

} /* namespace */

NB_MODULE(_sim, module)
{
	define_node(module);
	module.attr("VARIABLE") = SK_SIM_VARIABLE;
	module.attr("HISTORY") = int(SK_SIM_HISTORY);
	module.def("fault_kinds", &fault_kinds);
	module.def("power_at", &power_at, nb::arg("model"), nb::arg("compute"), nb::arg("memory"),
		   nb::arg("bound"), nb::arg("clock_mhz"), nb::arg("die_c"));
	module.def("work_at", &work_at, nb::arg("model"), nb::arg("compute"), nb::arg("memory"),
		   nb::arg("bound"), nb::arg("clock_mhz"));
}
