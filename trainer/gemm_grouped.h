/* gemm_grouped.h - the six grouped products of the experts, on the device.
 *
 * Rows are sorted by expert; offset[E+1] says where each expert's rows start and is
 * read on the device only, so nothing waits for the host.  R = offset[E] rows, BF16
 * in, FP32 accumulation.  w13[E,2F,D], w2[E,D,F].
 *
 *   UP      h[R,2F] = a w13^T, act[R,F] = silu(h1) h3           a[R,D]
 *   DOWN    out[R,D] = a w2^T                                   a[R,F]
 *   DACT    da = a w2 (never stored); with s = weight of the row:
 *           dot[R,dot_tiles] = partial sums of <da, silu(h1) h3>,
 *           out[R,2F] = gradient of h of s da, act[R,F] = s silu(h1) h3
 *                                                               a[R,D], h[R,2F]
 *   DX      out[R,D] = a w13                                    a[R,2F]
 *   DW2     dw[E,D,F] = a^T b over each expert's rows           a[R,D], b[R,F]
 *   DW13    dw[E,2F,D] = a^T b                                  a[R,2F], b[R,D]
 *
 * dw is overwritten, with zeros for an expert without rows. */
#ifndef TRAINER_GEMM_GROUPED_H
#define TRAINER_GEMM_GROUPED_H

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum grouped_kind {
    GROUPED_UP,
    GROUPED_DOWN,
    GROUPED_DACT,
    GROUPED_DX,
    GROUPED_DW2,
    GROUPED_DW13,
    N_GROUPED
};

struct grouped {
    cudaStream_t stream;
    int sms;
    int32_t *counter; /* one zero on the device; free again when the work is done */
    const int32_t *offset;
    int E, R, D, F;
    const void *a, *b; /* b: the weights, or the second factor of DW2 and DW13 */
    void *out, *act;
    void *h;             /* UP: out; DACT: in */
    const float *weight; /* DACT: [R] */
    float *dot;          /* DACT: [R, dot_tiles(F)] */
    float *dw;
};

struct grouped_table {
    const char *name; /* for the log */
    int (*fits)(int D, int E, int F);
    int (*dot_tiles)(int F);
    cudaError_t (*run)(enum grouped_kind kind, const struct grouped *g);
};

/* sm90: wgmma and TMA, Hopper.  mma: mma.sync, sm_80 and newer. */
extern const struct grouped_table grouped_sm90;
extern const struct grouped_table grouped_mma;

/* The best table for a card (90: sm_90); MUSTER_GROUPED=mma asks for the portable
 * one.  A shape that does not `fit` goes to grouped_mma. */
const struct grouped_table *grouped_select(int capability);

#ifdef __cplusplus
}
#endif
#endif
