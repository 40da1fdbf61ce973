/* attention_cuda.h - who computes attention on this device.
 *
 * cuDNN's fused kernels where the library is new enough and the shape is one it takes;
 * our own mma.sync kernels for the rest: document masks, odd shapes, libraries without
 * a fused kernel, builds without cuDNN. */
#ifndef TRAINER_ATTENTION_CUDA_H
#define TRAINER_ATTENTION_CUDA_H

#include "trainer/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct err;
struct attention;
struct attention_cudnn;

int attention_open(struct attention **out, int deterministic, struct err *err);
void attention_close(struct attention *a);
const char *attention_describe(const struct attention *a); /* borrowed */

/* One call's operands; backward has all, forward q, k, v, out, lse. */
struct attention_call {
    struct attn_shape s;
    const void *q, *k, *v, *dout;
    void *out, *dq, *dk, *dv;
    float *lse;
    const int32_t *doc_start;
};

/* attention_cudnn.c; absent from a build without cuDNN. */
int attention_cudnn_open(struct attention_cudnn **out, struct err *err);
void attention_cudnn_close(struct attention_cudnn *a);
int attention_cudnn_fits(const struct attn_shape *s);
void attention_cudnn_fwd(struct attention_cudnn *a, struct dev *d,
                         const struct attention_call *c);
void attention_cudnn_bwd(struct attention_cudnn *a, struct dev *d,
                         const struct attention_call *c);

/* attention_mma.cu: head dimensions up to 128, a multiple of 8. */
int attention_mma_fits(const struct attn_shape *s);
void attention_mma_fwd(struct dev *d, const struct attention_call *c);
void attention_mma_bwd(struct dev *d, const struct attention_call *c);

#ifdef __cplusplus
}
#endif
#endif
