/* gpu.h - what a driver says about a GPU, as measures.  Pure: live readings
 * (topology/nvml_state.h) and recorded texts (replay_smi.c) go the same way. */
#ifndef CHECKS_GPU_H
#define CHECKS_GPU_H

#include <stdint.h>

#include "topology/nvml_state.h"

struct measures;

/* A set of facts, one bit each. */
#define GPU_ASKED(fact) (UINT64_C(1) << (fact))
#define GPU_ASKED_ALL   (~UINT64_C(0))

/* "HOST gpu INDEX"; in a recording that names no host, "gpu BUSID" or "gpu INDEX". */
void gpu_object(const struct gpu_state *s, const char *host, char object[96]);

/* What holds with or without a load: memory errors, row remapping, partitions, fabric,
 * links, power cap, what is left on the GPU.  asked: only checks of these facts. */
void gpu_measure_rest(const struct gpu_state *s, uint64_t asked, const char *host,
                      struct measures *out);
/* What only a load shows: throttle reasons, PCIe, clock, temperature. */
void gpu_measure_load(const struct gpu_state *s, uint64_t asked, const char *host,
                      struct measures *out);
/* Counters as rates over the test. */
void gpu_measure_over(const struct gpu_state *before, const struct gpu_state *after,
                      double seconds, const char *host, struct measures *out);
/* GPUs that answer against ranks that need one each. */
void gpu_measure_count(const struct gpu_state *all, int n, int ranks, const char *host,
                       struct measures *out);

/* FLOP a second of dense BF16 products that this very card can do by its own account:
 * cores x highest clock x FLOP a core and clock of its capability (NVIDIA's white papers:
 * 32 for 8.0 and 9.0, 64 for 10.x, 8 for 8.6, 8.9 and 12.x); NaN unknown. */
double gpu_peak_flops(const struct gpu_state *s);
/* Bytes a second of its memory: highest memory clock x bus width x 2 / 8; NaN unknown. */
double gpu_peak_bytes(const struct gpu_state *s);
/* One way over PCIe at this generation and width, after line coding; NaN unknown. */
double gpu_pcie_bytes(const struct gpu_state *s);

#endif
