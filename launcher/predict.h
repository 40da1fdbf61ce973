/* predict.h - how long one training step will take, before anything ran.
 *
 * A prediction from first principles, never a measurement: whoever prints it says so
 * and shows the assumptions.  Pure.
 *
 * Compute.  FLOPs that are executed (causal half of attention, no input embedding;
 * plus what activation checkpointing recomputes: `full` one forward of every layer,
 * `selective` the first products of the experts, see trainer/layers.h), divided by
 * peak x efficiency.  A forward is a third of forward + backward.
 * Optimizer.  30 bytes a parameter of the shard through the device's memory.
 * Communication (topology/cost.h), per micro-batch and layer: all_gather of the
 * weights in the compute type, forward, and again in backward when they are
 * resharded; reduce_scatter of FP32 gradients; in the last micro-batch all_reduce of
 * the FP32 shard over the replicas.  All of it runs beside the compute of one layer:
 *   exposed = max(0, communication - compute), layer by layer;
 * the embedding's has nothing to hide behind.  All groups of an axis communicate at the
 * same time and share what they cross; communication whose time is not known counts
 * as none, and `missing` says why. */
#ifndef LAUNCHER_PREDICT_H
#define LAUNCHER_PREDICT_H

#include <stdint.h>

#include "topology/cost.h"

struct js;
struct placement;
struct recipe;
struct topology;

/* Share of the peak that executed FLOPs reach.  GPU: matrix products alone reach 0.58
 * of the H200's peak at 16,384 tokens, norms, elementwise work and routing take the
 * rest.  CPU: of PREDICT_CPU_CORE_FLOPS. */
#define PREDICT_EFFICIENCY     0.40
#define PREDICT_CPU_CORE_FLOPS 64e9 /* FP32 of one core: 2 GHz x 2 FMA x 8 lanes */

struct predict_assumptions {
    double efficiency;          /* 0: PREDICT_EFFICIENCY */
    double peak_flops;          /* of one rank's device; 0: by name, or of its cores */
    double memory_gbytes_per_s; /* of one rank's device; 0: by name, or its share */
};

struct prediction {
    struct predict_assumptions assumed; /* as used */
    int peak_known;                     /* 0: peak_flops is a guess (CPU) */
    double step_s;
    double tokens_per_s_per_gpu;
    double mfu_reference, mfu_causal; /* percent; NaN where the peak is a guess */
    /* of one step */
    double compute_s, exposed_s, optimizer_s;
    double exposed_shard_s, exposed_replicate_s; /* their sum is exposed_s */
    char missing[192]; /* communication that is not known and not counted; "" none */
    /* of one layer and micro-batch */
    double layer_forward_s, layer_backward_s;
    int64_t gather_bytes, scatter_bytes, replica_bytes;
    struct cost gather, scatter, replica; /* all groups of the axis at once */
};

/* `assumed` may be NULL.  The recipe's degrees are those of the placement. */
void predict_make(const struct recipe *r, const struct topology *t,
                  const struct placement *p, const struct predict_assumptions *assumed,
                  struct prediction *out);
struct js *predict_json(const struct prediction *x); /* the plan's "predicted" */

#endif
