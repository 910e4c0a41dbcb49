/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Names, types and offsets of all members of a card's structures, so that one loop turns them into
 * a dictionary and back.
 *
 * Invariant: every member of these structures is named here, which a test holds against their
 * sizes.
 */
#ifndef SK_SIM_NODE_FIELDS_H
#define SK_SIM_NODE_FIELDS_H

#include <stddef.h>
#include <stdint.h>

enum sk_sim_type { SK_SIM_U32, SK_SIM_I32, SK_SIM_U64, SK_SIM_I64, SK_SIM_F64, SK_SIM_TEXT };

struct sk_sim_field {
	const char *name;
	enum sk_sim_type type;
	size_t offset;
	size_t count; /* of an array, or bytes of a text */
};

struct sk_sim_fields {
	const struct sk_sim_field *field;
	size_t count;
	size_t bytes; /* of the structure */
};

extern const struct sk_sim_fields sk_sim_model_fields, sk_sim_physics_fields, sk_sim_sensor_fields,
	sk_sim_load_fields, sk_sim_now_fields, sk_sim_process_fields, sk_sim_partition_fields,
	sk_sim_fault_fields, sk_sim_event_fields;

#endif
