/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links of simulated AMD cards: PCIe, XGMI, memory nodes. The ports of a card lead to the other
 * cards of its link group in turn, as an MI300X has seven links to seven peers. Weights and hops
 * are those of amdgpu's KFD: 15 for XGMI, 20 and more over PCIe.
 */
#include "sim/amdsmi/driver.h"

enum {
	WEIGHT_XGMI = 15,
	WEIGHT_NODE = 40,   /* PCIe, same memory node */
	WEIGHT_SYSTEM = 72, /* PCIe, across memory nodes */
	HOPS_XGMI = 1,
	HOPS_NODE = 2,
	HOPS_SYSTEM = 3,
	PORTS = 8, /* of a link status record */
	XGMI_LANES = 16,
	PACKET_BYTES = 256,
	FORM_OAM = 1,
	KB = 1024,
};

uint32_t sk_amd_peer(const struct sk_sim_card *card, uint32_t port)
{
	uint32_t own = sk_amd_place(card), peers[SK_SIM_CARDS], count = 0;

	for (uint32_t place = 0; place < sk_amd_count(); place++)
		if (place != own && card->model.link_group &&
		    sk_amd_card(place)->model.link_group == card->model.link_group)
			peers[count++] = place;
	return count && port < card->model.links ? peers[port % count] : UINT32_MAX;
}

/* Count the ports of `card` that lead to `other` and are up. */
static uint32_t ports_between(const struct sk_sim_card *card, const struct sk_sim_card *other)
{
	uint32_t count = 0;

	for (uint32_t port = 0; port < card->model.links && port < SK_SIM_LINKS; port++)
		if (sk_amd_peer(card, port) == sk_amd_place(other) &&
		    !(card->now.link_down & 1U << port))
			count++;
	return count;
}

struct sk_amd_traffic sk_amd_pcie_traffic(const struct sk_sim_card *card)
{
	static struct {
		uint64_t at_ns;
		double sent, received;
		struct sk_amd_traffic rate;
	} before[SK_SIM_CARDS];
	uint32_t place = sk_amd_place(card);
	double seconds = (double)(card->now.at_ns - before[place].at_ns) * 1e-9;

	if (seconds <= 0)
		return before[place].rate;
	before[place].rate = (struct sk_amd_traffic){
		.sent = (card->now.pcie_tx_bytes - before[place].sent) / seconds,
		.received = (card->now.pcie_rx_bytes - before[place].received) / seconds,
	};
	before[place].at_ns = card->now.at_ns;
	before[place].sent = card->now.pcie_tx_bytes;
	before[place].received = card->now.pcie_rx_bytes;
	return before[place].rate;
}

static uint32_t megatransfers(uint32_t gen)
{
	const uint32_t rate[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};

	return gen < sizeof(rate) / sizeof(*rate) ? rate[gen] : 0;
}

SK_AMD_API amdsmi_get_pcie_info(void *handle, struct sk_amd_pcie_info *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);
	struct sk_amd_traffic traffic;

	if (status)
		return status;
	__builtin_memset(ret, 0xff, sizeof(*ret));
	ret->pcie_static.max_pcie_width = (uint16_t)card->model.pcie_width;
	ret->pcie_static.max_pcie_speed = megatransfers(card->model.pcie_gen);
	ret->pcie_static.pcie_interface_version = card->model.pcie_gen;
	ret->pcie_static.max_pcie_interface_version = card->model.pcie_gen;
	ret->pcie_static.slot_type = FORM_OAM;
	traffic = sk_amd_pcie_traffic(card);
	ret->pcie_metric.pcie_width = (uint16_t)card->model.pcie_width;
	ret->pcie_metric.pcie_speed = megatransfers(card->model.pcie_gen);
	ret->pcie_metric.pcie_bandwidth = (uint32_t)((traffic.sent + traffic.received) * 8 / 1e6);
	ret->pcie_metric.pcie_replay_count = card->now.pcie_replays;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_pci_bandwidth(void *handle, struct sk_amd_pcie_bandwidth *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_pcie_bandwidth){.transfer_rate = {.num_supported = 1}};
	ret->transfer_rate.frequency[0] = (uint64_t)megatransfers(card->model.pcie_gen) * 1000000;
	ret->lanes[0] = card->model.pcie_width;
	return sk_amd_end(SK_AMD_SUCCESS);
}

/* Packets a second, as in the kernel's pcie_bw file. */
SK_AMD_API amdsmi_get_gpu_pci_throughput(void *handle, uint64_t *sent, uint64_t *received,
					 uint64_t *packet_bytes)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, sent, &card);
	struct sk_amd_traffic traffic;

	if (status)
		return status;
	traffic = sk_amd_pcie_traffic(card);
	*sent = (uint64_t)(traffic.sent / PACKET_BYTES);
	if (received)
		*received = (uint64_t)(traffic.received / PACKET_BYTES);
	if (packet_bytes)
		*packet_bytes = PACKET_BYTES;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_pci_replay_counter(void *handle, uint64_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = card->now.pcie_replays;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_xgmi_info(void *handle, struct sk_amd_xgmi_info *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_xgmi_info){.index = sk_amd_place(card)};
	if (card->model.link_group) {
		ret->xgmi_lanes = XGMI_LANES;
		ret->xgmi_hive_id = card->model.link_group;
		ret->xgmi_node_id = sk_amd_place(card);
	}
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_xgmi_link_status(void *handle, struct sk_amd_xgmi_link_status *ret)
{
	enum { DOWN = 0, UP = 1, DISABLED = 2 };
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_xgmi_link_status){.total_links = PORTS};
	for (uint32_t port = 0; port < PORTS; port++)
		ret->status[port] = port >= card->model.links	       ? DISABLED
				    : card->now.link_down & 1U << port ? DOWN
								       : UP;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_link_metrics(void *handle, struct sk_amd_link_metrics *ret)
{
	struct sk_sim_card *card;
	uint32_t peer, status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_link_metrics){.num_links = 0};
	for (uint32_t port = 0; port < card->model.links && port < SK_SIM_LINKS; port++) {
		peer = sk_amd_peer(card, port);
		if (peer == UINT32_MAX)
			continue;
		ret->links[ret->num_links].bdf = sk_amd_bdf(sk_amd_card(peer));
		ret->links[ret->num_links].bit_rate = card->model.link_gb_s * 8 / XGMI_LANES;
		ret->links[ret->num_links].max_bandwidth = card->model.link_gb_s * 8;
		ret->links[ret->num_links].link_type = SK_AMD_LINK_XGMI;
		ret->links[ret->num_links].read = (uint64_t)card->now.link_rx_bytes[port] / KB;
		ret->links[ret->num_links].write = (uint64_t)card->now.link_tx_bytes[port] / KB;
		ret->num_links++;
	}
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_gpu_xgmi_error_status(void *handle, uint32_t *ret)
{
	enum { NONE = 0, ONE = 1, MANY = 2 };
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);
	uint64_t errors = 0;

	if (status)
		return status;
	for (uint32_t port = 0; port < SK_SIM_LINKS; port++)
		errors += card->now.link_errors[port];
	*ret = errors == 0 ? NONE : errors == 1 ? ONE : MANY;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_reset_gpu_xgmi_error(void *handle)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin_set(__func__, handle, &card);

	if (status)
		return status;
	for (uint32_t port = 0; port < SK_SIM_LINKS; port++)
		card->now.link_errors[port] = 0;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_topo_numa_affinity(void *handle, int32_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = card->model.numa;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_topo_get_numa_node_number(void *handle, uint32_t *ret)
{
	return amdsmi_get_gpu_topo_numa_affinity(handle, (int32_t *)ret);
}

/* Begin a call about two cards that are not the same one. */
static uint32_t begin_pair(const char *function, void *from, void *to, const void *out,
			   struct sk_sim_card *ret[2])
{
	uint32_t status = sk_amd_begin(function, from, out, &ret[0]);

	if (status)
		return status;
	ret[1] = sk_amd_from(to);
	if (!ret[1])
		return sk_amd_end(SK_AMD_NOT_FOUND);
	return ret[0] == ret[1] ? sk_amd_end(SK_AMD_INVAL) : SK_AMD_SUCCESS;
}

static bool same_node(struct sk_sim_card *const pair[2])
{
	return pair[0]->model.numa == pair[1]->model.numa;
}

SK_AMD_API amdsmi_topo_get_link_weight(void *from, void *to, uint64_t *ret)
{
	struct sk_sim_card *pair[2];
	uint32_t status = begin_pair(__func__, from, to, ret, pair);

	if (status)
		return status;
	*ret = ports_between(pair[0], pair[1]) ? WEIGHT_XGMI
	       : same_node(pair)	       ? WEIGHT_NODE
					       : WEIGHT_SYSTEM;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_topo_get_link_type(void *from, void *to, uint64_t *hops, uint32_t *ret)
{
	struct sk_sim_card *pair[2];
	uint32_t status = begin_pair(__func__, from, to, ret, pair);
	bool direct;

	if (status)
		return status;
	direct = ports_between(pair[0], pair[1]) != 0;
	*ret = direct ? SK_AMD_LINK_XGMI : SK_AMD_LINK_PCIE;
	if (hops)
		*hops = direct ? HOPS_XGMI : same_node(pair) ? HOPS_NODE : HOPS_SYSTEM;
	return sk_amd_end(SK_AMD_SUCCESS);
}

/* Bandwidth in MB/s, which only XGMI has. */
SK_AMD_API amdsmi_get_minmax_bandwidth_between_processors(void *from, void *to, uint64_t *least,
							  uint64_t *most)
{
	struct sk_sim_card *pair[2];
	uint32_t ports, status = begin_pair(__func__, from, to, least && most ? least : NULL, pair);

	if (status)
		return status;
	ports = ports_between(pair[0], pair[1]);
	if (!ports)
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	*least = (uint64_t)pair[0]->model.link_gb_s * 1000;
	*most = *least * ports;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_is_P2P_accessible(void *from, void *to, bool *ret)
{
	struct sk_sim_card *pair[2];
	uint32_t status = begin_pair(__func__, from, to, ret, pair);

	if (status)
		return status;
	*ret = ports_between(pair[0], pair[1]) != 0;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_topo_get_p2p_status(void *from, void *to, uint32_t *type,
				      struct sk_amd_p2p_capability *ret)
{
	struct sk_sim_card *pair[2];
	uint32_t status = begin_pair(__func__, from, to, ret, pair);
	uint8_t direct;

	if (status)
		return status;
	direct = ports_between(pair[0], pair[1]) != 0;
	if (type)
		*type = direct ? SK_AMD_LINK_XGMI : SK_AMD_LINK_PCIE;
	*ret = (struct sk_amd_p2p_capability){direct, 1, 1, 1, direct};
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_link_topology_nearest(void *handle, uint32_t type,
					    struct sk_amd_topology_nearest *ret)
{
	struct sk_sim_card *card, *other;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	if (type != SK_AMD_LINK_XGMI && type != SK_AMD_LINK_PCIE)
		return sk_amd_end(SK_AMD_INVAL);
	*ret = (struct sk_amd_topology_nearest){.count = 0};
	for (uint32_t place = 0; place < sk_amd_count(); place++) {
		other = sk_amd_card(place);
		if (other != card &&
		    (ports_between(card, other) != 0) == (type == SK_AMD_LINK_XGMI))
			ret->processor_list[ret->count++] = sk_amd_handle(place);
	}
	return sk_amd_end(SK_AMD_SUCCESS);
}
