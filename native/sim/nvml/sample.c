/* SPDX-License-Identifier: Apache-2.0 */
/* Utilisation: rates, the driver's own buffers of samples, and GPM's two-sample metrics. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/nvml/library.h"

enum {
	SAMPLES_POWER,
	SAMPLES_GPU,
	SAMPLES_MEMORY,
	SAMPLES_ENCODER,
	SAMPLES_DECODER,
	SAMPLES_CLOCK,
	SAMPLES_MEMORY_CLOCK,
	SAMPLES_MODULE_POWER,
};
enum { METRIC_GRAPHICS = 1, METRIC_SM = 2, METRIC_OCCUPANCY = 3, METRIC_TENSOR = 5 };
enum { METRIC_DRAM = 10, METRIC_PCIE_TX = 20, METRIC_PCIE_RX = 21 };
enum { METRIC_LINKS_RX = 60, METRIC_LINKS_TX = 61, METRIC_LINK0_RX = 62 };

/* Share of a busy SM's warps and tensor pipes that a simulated kernel uses; made up. */
#define OCCUPANCY 0.5
#define TENSOR 0.7

static nvmlReturn_t ask(struct sk_nvml_call *call, nvmlDevice_t device, const char *function)
{
	nvmlReturn_t failed = sk_nvml_begin_card(call, device, function);

	if (failed || !call->card->partitioned)
		return failed;
	return sk_nvml_end(call, NVML_ERROR_NOT_SUPPORTED); /* as the real one, with MIG on */
}

SK_NVML nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	ret->gpu = sk_sim_busy_percent(call.card);
	ret->memory = sk_sim_memory_busy_percent(call.card);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* Give the utilisation of an engine that no simulated load uses: 0. */
static nvmlReturn_t unused(const char *function, nvmlDevice_t device, uint32_t *ret,
			   uint32_t *ret_period_us)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, function);

	if (failed)
		return failed;
	if (!ret || !ret_period_us)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = 0;
	*ret_period_us = (uint32_t)(call.card->model.sensor.period_ns / 1000);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

#define UNUSED_ENGINE(name)                                                                        \
	SK_NVML nvmlReturn_t name(nvmlDevice_t device, uint32_t *ret, uint32_t *ret_period_us)     \
	{                                                                                          \
		return unused(__func__, device, ret, ret_period_us);                               \
	}

UNUSED_ENGINE(nvmlDeviceGetEncoderUtilization)
UNUSED_ENGINE(nvmlDeviceGetDecoderUtilization)
UNUSED_ENGINE(nvmlDeviceGetJpgUtilization)
UNUSED_ENGINE(nvmlDeviceGetOfaUtilization)

SK_NVML nvmlReturn_t nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device,
						     nvmlGpuDynamicPstatesInfo_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	memset(ret, 0, sizeof(*ret));
	ret->utilization[0].bIsPresent = 1;
	ret->utilization[0].percentage = sk_sim_busy_percent(call.card);
	ret->utilization[1].bIsPresent = 1;
	ret->utilization[1].percentage = sk_sim_memory_busy_percent(call.card);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static uint32_t sample_value(const struct sk_sim_card *card, const struct sk_sim_point *sample,
			     uint32_t type)
{
	switch (type) {
	case SAMPLES_POWER:
		return sk_sim_sample_mw(card, sample);
	case SAMPLES_GPU:
		return (uint32_t)lround(sample->busy * 100);
	case SAMPLES_MEMORY:
		return (uint32_t)lround(sample->memory_busy * 100);
	case SAMPLES_CLOCK:
		return (uint32_t)lround(sample->clock_mhz);
	case SAMPLES_MEMORY_CLOCK:
		return card->model.memory_mhz;
	default:
		return 0;
	}
}

/* Return the number of samples that the caller does not have. */
static uint32_t unseen(const struct sk_nvml_call *call, uint64_t seen_us)
{
	uint32_t count = 0;

	while (count < SK_SIM_SAMPLES) {
		const struct sk_sim_point *sample = sk_sim_sample(call->card, count);

		if (!sample || sk_nvml_us(call->node, sample->at_ns) <= seen_us)
			break;
		count++;
	}
	return count;
}

/* Give samples, oldest first. Without room the answer is the size of the buffer. */
SK_NVML nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, uint32_t type, uint64_t seen_us,
					  uint32_t *ret_type, uint32_t *count, nvmlSample_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__);
	uint32_t there;

	if (failed)
		return failed;
	if (!ret_type || !count)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (type >= SAMPLES_MODULE_POWER)
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	*ret_type = NVML_VALUE_U32;
	if (!ret) {
		*count = SK_SIM_SAMPLES;
		return sk_nvml_end(&call, NVML_SUCCESS);
	}
	there = unseen(&call, seen_us);
	if (there > *count)
		there = *count;
	*count = there;
	if (!there)
		return sk_nvml_end(&call, NVML_ERROR_NOT_FOUND);
	for (uint32_t i = 0; i < there; i++) {
		const struct sk_sim_point *sample = sk_sim_sample(call.card, there - 1 - i);

		memset(&ret[i], 0, sizeof(ret[i]));
		ret[i].timeStamp = sk_nvml_us(call.node, sample->at_ns);
		ret[i].sampleValue.uiVal = sample_value(call.card, sample, type);
	}
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/** A moment's values, as GPM remembers them. */
struct sk_nvml_gpm {
	uint64_t at_ns;
	double busy_s, memory_busy_s, pcie_tx, pcie_rx;
	double link_tx[SK_SIM_LINKS], link_rx[SK_SIM_LINKS];
};

static bool has_gpm(const struct sk_sim_card *card)
{
	return !strcmp(card->model.architecture, "hopper");
}

SK_NVML nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (ret->version != 1)
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	ret->isSupportedDevice = has_gpm(call.card);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML_VALUE_IF(nvmlGpmQueryIfStreamingEnabled, uint32_t, has_gpm(card), 0)

SK_NVML nvmlReturn_t nvmlGpmSampleAlloc(struct sk_nvml_gpm **ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = calloc(1, sizeof(**ret));
	return sk_nvml_end(&call, *ret ? NVML_SUCCESS : NVML_ERROR_MEMORY);
}

SK_NVML nvmlReturn_t nvmlGpmSampleFree(struct sk_nvml_gpm *sample)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);

	if (failed)
		return failed;
	if (!sample)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	free(sample);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, struct sk_nvml_gpm *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);
	const struct sk_sim_now *now;

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (!has_gpm(call.card))
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	now = &call.card->now;
	*ret = (struct sk_nvml_gpm){
		.at_ns = call.node->now_ns,
		.busy_s = now->busy_s,
		.memory_busy_s = now->memory_busy_s,
		.pcie_tx = now->pcie_tx_bytes,
		.pcie_rx = now->pcie_rx_bytes,
	};
	memcpy(ret->link_tx, now->link_tx_bytes, sizeof(ret->link_tx));
	memcpy(ret->link_rx, now->link_rx_bytes, sizeof(ret->link_rx));
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static double sum(const double *newer, const double *older)
{
	double all = 0;

	for (int i = 0; i < SK_SIM_LINKS; i++)
		all += newer[i] - older[i];
	return all;
}

/* Shares in percent, traffic in MiB/s; false for a metric that is not simulated. */
static bool metric(const struct sk_nvml_gpm *a, const struct sk_nvml_gpm *b, uint32_t id,
		   double *ret)
{
	double seconds = (double)(b->at_ns - a->at_ns) * 1e-9;
	double busy = (b->busy_s - a->busy_s) / seconds, rate = 1 / seconds / (1 << 20);
	uint32_t link = (id - METRIC_LINK0_RX) / 2;

	if (id == METRIC_GRAPHICS || id == METRIC_SM)
		*ret = busy * 100;
	else if (id == METRIC_OCCUPANCY)
		*ret = busy * 100 * OCCUPANCY;
	else if (id == METRIC_TENSOR)
		*ret = busy * 100 * TENSOR;
	else if (id == METRIC_DRAM)
		*ret = (b->memory_busy_s - a->memory_busy_s) / seconds * 100;
	else if (id == METRIC_PCIE_TX)
		*ret = (b->pcie_tx - a->pcie_tx) * rate;
	else if (id == METRIC_PCIE_RX)
		*ret = (b->pcie_rx - a->pcie_rx) * rate;
	else if (id == METRIC_LINKS_RX)
		*ret = sum(b->link_rx, a->link_rx) * rate;
	else if (id == METRIC_LINKS_TX)
		*ret = sum(b->link_tx, a->link_tx) * rate;
	else if (id >= METRIC_LINK0_RX && link < SK_SIM_LINKS)
		*ret = (id % 2 ? b->link_tx[link] - a->link_tx[link]
			       : b->link_rx[link] - a->link_rx[link]) *
		       rate;
	else
		return false;
	return true;
}

SK_NVML nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);

	if (failed)
		return failed;
	if (!get || !get->sample1 || !get->sample2 || get->numMetrics > NVML_GPM_METRIC_MAX)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (get->version != 1)
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (get->sample2->at_ns <= get->sample1->at_ns)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	for (uint32_t i = 0; i < get->numMetrics; i++) {
		nvmlGpmMetric_t *one = &get->metrics[i];
		bool known = metric(get->sample1, get->sample2, one->metricId, &one->value);

		one->nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
		one->metricInfo.shortName = one->metricInfo.longName = one->metricInfo.unit = "";
	}
	return sk_nvml_end(&call, NVML_SUCCESS);
}
