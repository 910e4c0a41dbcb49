/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One simulated card as plain data: its model (fixed by its profile), its requested load and
 * limits, and its physical state.
 *
 * Invariant: everything is fixed-size and free of pointers, so that a card can lie in a file that
 * several processes have mapped. Units are in the names; mw and mc are thousandths of a watt and of
 * a degree.
 */
#ifndef SK_SIM_CARD_CARD_H
#define SK_SIM_CARD_CARD_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SK_SIM_CARDS = 16,
	SK_SIM_PROCESSES = 32,
	SK_SIM_LINKS = 18, /* NVLink ports of an H100/H200 (nvml.h NVML_NVLINK_MAX_LINKS) */
	SK_SIM_PARTITIONS = 8,
	SK_SIM_SAMPLES = 128, /* of each driver-side sample buffer */
	SK_SIM_HISTORY = 512, /* samples of the power sensor, for readings that average and lag */
	SK_SIM_STEP_NS = 1000000,      /* period of decisions while the clock changes */
	SK_SIM_CONTROL_NS = 100000000, /* period of the fan and the guard against heat */
};

enum sk_sim_vendor { SK_SIM_NVIDIA = 1, SK_SIM_AMD = 2, SK_SIM_INTEL = 3 };

/** Physics of a card; scheduler/sim/plant_ranges.py has the ranges that simulations draw from. */
struct sk_sim_physics {
	double idle_w;		/* power that depends on neither load nor temperature */
	double dynamic_w;	/* power at full load and the highest clock, without leakage */
	double exponent;	/* dynamic power ~ (clock / highest)^exponent, 2 to 3 */
	double leakage_w;	/* leakage with the die at 25 C */
	double leakage_per_c;	/* growth per degree, of leakage_w; about 0.01 */
	double thermal_c_per_w; /* die to ambient, at full fan */
	double capacity_j_per_c;
	double ambient_c;
	double fan_min;	  /* share of full cooling at the lowest fan speed; 1: never changes */
	double limiter_s; /* time constant of the card's own power limiter */
	double memory_w;  /* of the memory at full bandwidth */
};

/** Power sensor, which makes a driver's reading of the true power. */
struct sk_sim_sensor {
	uint64_t period_ns;  /* period of new values */
	uint64_t window_ns;  /* duration of the mean */
	uint64_t sampled_ns; /* sampled part of each period: 25 ms of 100 (arXiv 2312.02741) */
	uint64_t delay_ns;
	double gain; /* 1 is exact */
	double offset_w;
	uint64_t energy_period_ns; /* period of the energy counter, which misses nothing */
	uint64_t temperature_period_ns;
};

/** Model of a card, from its profile; constant while the card exists. */
struct sk_sim_model {
	uint32_t vendor; /* enum sk_sim_vendor */
	uint32_t pci_device, pci_subsystem;
	char name[96];
	char architecture[32];
	char serial[32];
	char uuid[64];	   /* "GPU-..." for NVIDIA, as each vendor prints it */
	char bus_id[24];   /* "00000000:3b:00.0" */
	char driver[32];   /* driver version */
	char firmware[32]; /* VBIOS or firmware */
	int32_t minor;	   /* of its device file */
	int32_t numa;
	uint32_t link_group; /* cards of one group are linked through `links` ports each */
	uint32_t links;
	uint32_t link_gb_s;    /* of one port and direction */
	uint32_t switch_group; /* same PCIe switch */
	uint32_t pcie_gen, pcie_width;
	uint64_t memory_bytes;
	uint64_t bandwidth_gb_s;
	uint32_t units; /* SMs, CUs or Xe cores */
	uint32_t clock_min_mhz, clock_max_mhz, clock_step_mhz, memory_mhz;
	uint32_t limit_min_mw, limit_default_mw, limit_max_mw;
	int32_t slowdown_c, shutdown_c, memory_max_c, target_c;
	uint32_t fan_max_rpm; /* 0: cooled by the chassis */
	uint32_t flags;	      /* enum sk_sim_feature */
	struct sk_sim_physics physics;
	struct sk_sim_sensor sensor;
};

enum sk_sim_feature {
	SK_SIM_HAS_ECC = 1,
	SK_SIM_HAS_PARTITIONS = 2, /* the card can be partitioned (MIG) */
	SK_SIM_HAS_ENERGY = 4,
	SK_SIM_HAS_INSTANT_POWER = 8,
	SK_SIM_HAS_LOCKED_CLOCKS = 16,
	SK_SIM_HAS_MEMORY_TEMPERATURE = 32,
	SK_SIM_HAS_TILE_POWER = 64, /* Intel: power domains of two tiles, and none of the card */
};

/** A process with a context on the card. */
struct sk_sim_process {
	int32_t pid;	   /* 0: free */
	uint32_t kind;	   /* 1 compute, 2 graphics */
	uint32_t instance; /* of the partition it is in; 0: none */
	uint32_t reserved;
	uint64_t memory_bytes;
	double share; /* its share of the card's load */
	uint64_t started_ns;
	char name[64];
};

/** Requested load of a card. Work that spends a time c of each second in kernels at the highest
 * clock spends c * s at a lower clock, where s = bound + (1 - bound) * highest / clock. The time
 * outside kernels does not depend on the clock. */
struct sk_sim_load {
	double compute; /* 0 to 1: share of time in which kernels run, at the highest clock */
	double memory;	/* 0 to 1: share of bandwidth used at the highest clock */
	double bound;	/* 0 to 1: share of the work that does not get faster with the clock */
};

struct sk_sim_partition {
	char profile[24]; /* "3g.71gb" */
	char uuid[64];
	uint32_t units;
	uint64_t memory_bytes;
	uint32_t instance;
	uint32_t used;	  /* 0: free slot */
	uint32_t start;	  /* its first slice of memory */
	uint32_t compute; /* it has a compute instance, so that it is a device */
};

enum sk_sim_why { /* reasons for a clock below the highest, as indices of time counters */
		  SK_SIM_WHY_IDLE,
		  SK_SIM_WHY_POWER, /* its own limiter */
		  SK_SIM_WHY_THERMAL,
		  SK_SIM_WHY_HARD_THERMAL, /* slowdown temperature reached */
		  SK_SIM_WHY_BRAKE,	   /* external power brake */
		  SK_SIM_WHY_LOCKED,
		  SK_SIM_WHYS,
};

enum sk_sim_state {
	SK_SIM_OK,
	SK_SIM_LOST,	    /* off the bus: every call except for the count fails */
	SK_SIM_NEEDS_RESET, /* only identity and recovery action can be read */
	SK_SIM_REFUSED,	    /* the caller lacks permission */
};

/** State of a card. Times in ns on the node's clock. */
struct sk_sim_now {
	uint64_t at_ns; /* time of this state */
	double clock_mhz;
	double limiter_mhz; /* the power limiter's present clock, on its way to: */
	double limit_mhz;   /* the highest clock within the power limit */
	double heat_mhz;    /* the highest clock that its temperature allows */
	double power_w;	    /* true */
	double die_c, memory_c;
	double fan;	       /* 0 to 1: lowest to highest speed */
	double busy;	       /* share of time in which kernels run */
	double memory_busy;    /* share of bandwidth */
	double throughput;     /* work per second, 1 is full load at the highest clock */
	double work;	       /* its integral since the start */
	double energy_j;       /* true, since the start */
	double busy_s;	       /* integral of busy */
	double memory_busy_s;  /* integral of memory_busy */
	double ambient_rise_c; /* by a fault */
	uint32_t brakes;       /* number of faults that assert the external power brake */
	uint32_t why;	       /* bits 1 << enum sk_sim_why */
	uint32_t state;	       /* enum sk_sim_state */
	uint64_t why_ns[SK_SIM_WHYS];
	uint32_t limit_mw, locked_min_mhz, locked_max_mhz; /* as set; locked 0: not */
	uint64_t memory_used;				   /* of the driver and all processes */
	double pcie_tx_bytes, pcie_rx_bytes;		   /* device to host, host to device */
	uint64_t pcie_replays;
	double link_tx_bytes[SK_SIM_LINKS], link_rx_bytes[SK_SIM_LINKS];
	double traffic_work; /* work whose traffic the counters have */
	uint32_t link_down;  /* bits */
	uint32_t link_errors[SK_SIM_LINKS];
	uint64_t ecc_corrected, ecc_uncorrected; /* volatile */
	uint64_t ecc_corrected_total, ecc_uncorrected_total;
	uint32_t retired_pages, retired_pending, remapped_rows, remap_pending, remap_failed;
	uint32_t recovery; /* NVML's recovery action */
	uint32_t resets;
	uint32_t persistence, compute_mode; /* as set */
};

/** One sample of the sensors. */
struct sk_sim_point {
	uint64_t at_ns;
	double power_w;	  /* mean over the sampled part of its period */
	double instant_w; /* power at the end of the period */
	double busy, memory_busy;
	double clock_mhz;
};

/** State of the sensors. */
struct sk_sim_sensed {
	uint64_t mark_ns, point_ns, temperature_ns, energy_ns, control_ns; /* when next */
	double mark_j, busy_s, memory_busy_s; /* integrals when the sample began */
	double die_c, memory_c, energy_j;     /* newest samples */
	uint32_t stuck;			      /* number of faults that freeze the power sensor */
	uint32_t stuck_mw, stuck_instant_mw;
};

/** Cache of the power, without leakage, of one load at some clocks; it may be emptied any time. */
struct sk_sim_memo {
	struct sk_sim_load load;
	double mhz[4], power_w[4];
};

struct sk_sim_card {
	struct sk_sim_model model;
	struct sk_sim_load load;
	struct sk_sim_memo memo;
	struct sk_sim_now now;
	struct sk_sim_sensed sensed;
	struct sk_sim_process process[SK_SIM_PROCESSES];
	struct sk_sim_partition partition[SK_SIM_PARTITIONS];
	uint32_t partitioned;	   /* MIG mode */
	uint32_t partitioned_next; /* MIG mode from the next reset on */
	uint32_t history_next;	   /* ring of sensor samples, */
	uint32_t history_count;	   /* so many of them there */
	struct sk_sim_point history[SK_SIM_HISTORY];
};

#endif
