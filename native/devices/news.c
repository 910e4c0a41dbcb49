/* SPDX-License-Identifier: Apache-2.0 */
#include "devices/news.h"

#include "devices/card.h"

/* Fields whose every change is news. */
static const uint8_t telling[] = {
	SK_DEVICE_ECC_CORRECTED,    SK_DEVICE_ECC_UNCORRECTED,	     SK_DEVICE_RETIRED_PAGES,
	SK_DEVICE_RETIRED_PENDING,  SK_DEVICE_REMAPPED_ROWS,	     SK_DEVICE_REMAP_PENDING,
	SK_DEVICE_REMAP_FAILED,	    SK_DEVICE_RECOVERY_ACTION,	     SK_DEVICE_PCIE_REPLAYS,
	SK_DEVICE_THROTTLE_THERMAL, SK_DEVICE_THROTTLE_HARD_THERMAL,
};

bool sk_device_codes_changed(const struct sk_device_record *now,
			     const struct sk_device_record *last)
{
	for (uint32_t i = 0; i < SK_DEVICE_FIELDS; i++)
		if (now->field[i].code != last->field[i].code)
			return true;
	return false;
}

static bool is_link_changed(const struct sk_device_link *now, const struct sk_device_link *last)
{
	return now->up != last->up ||
	       (now->errors != last->errors && !(isnan(now->errors) && isnan(last->errors)));
}

static bool links_changed(const struct sk_device_record *now, const struct sk_device_record *last)
{
	const struct sk_device_field *links = &now->field[SK_DEVICE_LINKS];
	uint32_t count = links->code ? 0 : (uint32_t)links->value;

	for (uint32_t i = 0; i < count; i++)
		if (is_link_changed(&now->link[i], &last->link[i]))
			return true;
	return false;
}

static bool faults_changed(const struct sk_device_field *now, const struct sk_device_field *last)
{
	return !now->code && !last->code &&
	       (((uint32_t)now->value ^ (uint32_t)last->value) & SK_DEVICE_FAULTS);
}

/* An energy counter that falls shows a reset; nothing else may tell of it. */
static bool energy_fell(const struct sk_device_field *now, const struct sk_device_field *last)
{
	return !now->code && !last->code && now->value < last->value;
}

bool sk_device_is_news(const struct sk_device_record *now, const struct sk_device_record *last,
		       const double level[SK_DEVICE_FIELDS])
{
	for (uint32_t i = 0; i < SK_DEVICE_FIELDS; i++)
		if (sk_device_number(&now->field[i]) >= level[i])
			return true;
	for (uint32_t i = 0; i < sizeof(telling); i++)
		if (!now->field[telling[i]].code &&
		    now->field[telling[i]].value != last->field[telling[i]].value)
			return true;
	return energy_fell(&now->field[SK_DEVICE_ENERGY], &last->field[SK_DEVICE_ENERGY]) ||
	       faults_changed(&now->field[SK_DEVICE_THROTTLE], &last->field[SK_DEVICE_THROTTLE]) ||
	       links_changed(now, last);
}
