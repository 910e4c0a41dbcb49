/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of frag.c for several classes at a time, one in each lane of a vector. frag.c
 * alone includes this file, once for every machine it is built for: SK_LANES(name) makes the names
 * differ, SK_LANES_INLINE names the machine. Invariant: whole numbers modulo 2^32 with bounds that
 * keep below it, so that every variant gives the same.
 */
#define sk_lanes SK_LANES(vector)
#define sk_signed_lanes SK_LANES(signed)
#define sk_lane_pairs SK_LANES(pairs)

typedef uint32_t sk_lanes __attribute__((vector_size(SK_LANES_WIDTH * 4)));
typedef int32_t sk_signed_lanes __attribute__((vector_size(SK_LANES_WIDTH * 4)));
typedef uint64_t sk_lane_pairs __attribute__((vector_size(SK_LANES_WIDTH * 4)));

SK_LANES_INLINE sk_lanes SK_LANES(load)(const uint32_t *from)
{
	sk_lanes lanes;

	memcpy(&lanes, from, sizeof lanes);
	return lanes;
}

SK_LANES_INLINE sk_lanes SK_LANES(all)(uint32_t value)
{
	return (sk_lanes){0} + value;
}

/* All bits if a > b; both are below 2^31. */
SK_LANES_INLINE sk_lanes SK_LANES(more)(sk_lanes a, sk_lanes b)
{
	return (sk_lanes)((sk_signed_lanes)a > (sk_signed_lanes)b);
}

SK_LANES_INLINE uint32_t SK_LANES(sum)(sk_lanes lanes)
{
	sk_lane_pairs pairs = (sk_lane_pairs)lanes;
	uint64_t sum = 0;

	pairs = (pairs & UINT32_MAX) + (pairs >> 32);
	for (uint32_t pair = 0; pair < SK_LANES_WIDTH / 2; pair++)
		sum += pairs[pair];
	return (uint32_t)sum;
}

/* `values` of the classes that fit the free processors, memory and model, 0 for the others. */
SK_LANES_INLINE void SK_LANES(suited)(const struct sk_frag_table *table, const uint32_t *values,
				      uint32_t cpu, uint32_t memory, uint64_t models, uint32_t *ret)
{
	sk_lanes low = SK_LANES(all)((uint32_t)models),
		 high = SK_LANES(all)((uint32_t)(models >> 32));

	for (uint32_t lane = 0; lane < table->lanes; lane += SK_LANES_WIDTH) {
		sk_lanes model = SK_LANES(load)(table->models_any + lane) |
				 (SK_LANES(load)(table->models_low + lane) & low) |
				 (SK_LANES(load)(table->models_high + lane) & high);
		sk_lanes more =
			SK_LANES(more)(SK_LANES(load)(table->cpu + lane), SK_LANES(all)(cpu)) |
			SK_LANES(more)(SK_LANES(load)(table->memory + lane), SK_LANES(all)(memory));

		more |= (sk_lanes)(model == SK_LANES(all)(0));
		more = SK_LANES(load)(values + lane) & ~more;
		memcpy(ret + lane, &more, sizeof more);
	}
}

/* Default: how many requests of each class fit one device; for a class of several devices, whether
 * it is usable. */
SK_LANES_INLINE sk_lanes SK_LANES(takes)(const struct sk_frag_table *table, uint32_t lane,
					 uint32_t free)
{
	sk_lanes more = SK_LANES(more)(SK_LANES(load)(table->milli + lane), SK_LANES(all)(free));
	sk_lanes many = (SK_LANES(load)(table->inverse + lane) * SK_LANES(all)(free)) >> 20;

	return many + (SK_LANES(load)(table->several + lane) & ~more);
}

/* FGD: all bits if a class can use one device, otherwise none. */
SK_LANES_INLINE sk_lanes SK_LANES(uses)(const struct sk_frag_table *table, uint32_t lane,
					uint32_t free)
{
	return ~SK_LANES(more)(SK_LANES(load)(table->milli + lane), SK_LANES(all)(free));
}

SK_LANES_INLINE uint32_t SK_LANES(worth)(const struct sk_frag_table *table,
					 const struct sk_frag_node *node, const uint32_t *worth,
					 const struct sk_frag_swap *swaps, uint32_t count)
{
	sk_lanes sum = SK_LANES(all)(0);

	for (uint32_t lane = 0; lane < table->lanes; lane += SK_LANES_WIDTH) {
		sk_lanes takes = SK_LANES(load)(node->takes + lane);

		for (uint32_t at = 0; at < count; at++)
			takes += (SK_LANES(takes)(table, lane, swaps[at].to) -
				  SK_LANES(takes)(table, lane, swaps[at].from)) *
				 SK_LANES(all)(swaps[at].many);
		takes = (takes * SK_LANES(load)(table->divide + lane)) >> 16;
		sum += takes * SK_LANES(load)(worth + lane);
	}
	return SK_LANES(sum)(sum);
}

/* The sum over all classes of the milli that each can use times its share; a class without devices
 * uses none. */
SK_LANES_INLINE uint32_t SK_LANES(used)(const struct sk_frag_table *table,
					const struct sk_frag_node *node, const uint32_t *share,
					const struct sk_frag_swap *swaps, uint32_t count)
{
	sk_lanes sum = SK_LANES(all)(0);

	for (uint32_t lane = 0; lane < table->lanes; lane += SK_LANES_WIDTH) {
		sk_lanes milli = SK_LANES(load)(node->milli + lane);
		sk_lanes devices = SK_LANES(load)(node->takes + lane);

		for (uint32_t at = 0; at < count; at++) {
			const struct sk_frag_swap *swap = &swaps[at];
			sk_lanes to = SK_LANES(uses)(table, lane, swap->to);
			sk_lanes from = SK_LANES(uses)(table, lane, swap->from);

			milli += to & SK_LANES(all)(swap->to * swap->many);
			milli -= from & SK_LANES(all)(swap->from * swap->many);
			devices += (to & SK_LANES(all)(swap->many)) -
				   (from & SK_LANES(all)(swap->many));
		}
		milli &= ~SK_LANES(more)(SK_LANES(load)(table->count + lane), devices);
		sum += milli * SK_LANES(load)(share + lane);
	}
	return SK_LANES(sum)(sum);
}

SK_LANES_INLINE void SK_LANES(node_takes)(const struct sk_frag_table *table,
					  struct sk_frag_node *node)
{
	for (uint32_t lane = 0; lane < table->lanes; lane += SK_LANES_WIDTH) {
		sk_lanes takes = SK_LANES(all)(0);

		for (uint32_t kind = 0; kind < node->kinds; kind++)
			takes += SK_LANES(takes)(table, lane, node->kind_free[kind]) *
				 SK_LANES(all)(node->kind_many[kind]);
		memcpy(node->takes + lane, &takes, sizeof takes);
	}
}

SK_LANES_INLINE void SK_LANES(node_uses)(const struct sk_frag_table *table,
					 struct sk_frag_node *node)
{
	for (uint32_t lane = 0; lane < table->lanes; lane += SK_LANES_WIDTH) {
		sk_lanes milli = SK_LANES(all)(0), devices = SK_LANES(all)(0);

		for (uint32_t kind = 0; kind < node->kinds; kind++) {
			uint32_t free = node->kind_free[kind], many = node->kind_many[kind];
			sk_lanes uses = SK_LANES(uses)(table, lane, free);

			milli += uses & SK_LANES(all)(free * many);
			devices += uses & SK_LANES(all)(many);
		}
		memcpy(node->milli + lane, &milli, sizeof milli);
		memcpy(node->takes + lane, &devices, sizeof devices);
	}
}

SK_LANES_INLINE void SK_LANES(prepare)(const struct sk_frag_table *table, struct sk_frag_node *node)
{
	uint32_t suited[SK_FRAG_CLASSES_MAX], cpu = small(node->cpu_free), memory;

	node_kinds(node);
	node->shortfall = node_shortfall(table, node);
	if (table->policy == SK_FRAG_FGD) {
		SK_LANES(node_uses)(table, node);
		SK_LANES(suited)(table, table->share, cpu, INT32_MAX, node->models, suited);
		node->before = (int64_t)node->idle * SK_FRAG_PART -
			       SK_LANES(used)(table, node, suited, NULL, 0);
		return;
	}
	SK_LANES(node_takes)(table, node);
	memory = small(node->memory_free >> 20);
	SK_LANES(suited)(table, table->worth, cpu, memory, node->models, suited);
	node->before = SK_LANES(worth)(table, node, suited, NULL, 0);
}

SK_LANES_INLINE int64_t SK_LANES(cost)(const struct sk_frag_table *table,
				       const struct sk_frag_node *node, int64_t node_cost,
				       const uint32_t *suited, const struct sk_frag_swap *swaps,
				       uint32_t count)
{
	int64_t added;

	if (table->policy != SK_FRAG_FGD)
		return node_cost - SK_LANES(worth)(table, node, suited, swaps, count);
	added = node_cost - SK_LANES(used)(table, node, suited, swaps, count);
	return 100 - (int64_t)score_of(added);
}

/* For one device, each kind that suffices is tried; the first of equals stays. */
SK_LANES_INLINE bool SK_LANES(place_one)(const struct sk_frag_table *table,
					 const struct sk_frag_node *node, uint32_t milli,
					 int64_t node_cost, const uint32_t *suited,
					 struct sk_frag_place *ret)
{
	bool found = false;

	for (uint32_t kind = 0; kind < node->kinds; kind++) {
		uint32_t free = node->kind_free[kind];
		struct sk_frag_swap swap;
		int64_t cost;

		if (free < milli)
			continue;
		swap = (struct sk_frag_swap){free, free - milli, 1};
		cost = SK_LANES(cost)(table, node, node_cost, suited, &swap, 1);
		if (found && cost >= ret->cost)
			continue;
		ret->cost = cost;
		ret->devices = UINT64_C(1) << node->kind_first[kind];
		found = true;
	}
	return found;
}

/* Take as many devices as requested, or none. */
SK_LANES_INLINE bool SK_LANES(place_several)(const struct sk_frag_table *table,
					     const struct sk_frag_node *node,
					     const struct sk_frag_request *request,
					     int64_t node_cost, const uint32_t *suited,
					     struct sk_frag_place *ret)
{
	struct sk_frag_swap swaps[SK_FRAG_DEVICES_MAX];
	uint32_t count;

	ret->devices = devices_of(node, request->gpu_milli, request->count, swaps, &count);
	if (!ret->devices)
		return false;
	ret->cost = SK_LANES(cost)(table, node, node_cost, suited, swaps, count);
	return true;
}

SK_LANES_INLINE bool SK_LANES(place)(const struct sk_frag_table *table,
				     const struct sk_frag_node *node,
				     const struct sk_frag_request *request,
				     struct sk_frag_place *ret)
{
	uint32_t suited[SK_FRAG_CLASSES_MAX], memory = INT32_MAX;
	uint32_t cpu = small(node->cpu_free - request->cpu_milli);
	const uint32_t *values = table->share;
	int64_t node_cost = node_cost_of(table, node, request);

	if (table->policy == SK_FRAG_DEFAULT) {
		memory = small((node->memory_free - request->memory_bytes) >> 20);
		values = table->worth;
	}
	SK_LANES(suited)(table, values, cpu, memory, node->models, suited);
	if (request->count > 1 && request->gpu_milli)
		return SK_LANES(place_several)(table, node, request, node_cost, suited, ret);
	if (request->count && request->gpu_milli)
		return SK_LANES(place_one)(table, node, request->gpu_milli, node_cost, suited, ret);
	ret->devices = 0;
	ret->cost = SK_LANES(cost)(table, node, node_cost, suited, NULL, 0);
	return true;
}

#undef sk_lanes
#undef sk_signed_lanes
#undef sk_lane_pairs
