/* blas.h - products on the CPU, by OpenBLAS (its door is blas_openblas.c, in a module).
 *
 * Every product runs on the calling thread: the trainer's own pool (pool.h)
 * spreads work, so a result depends on the shapes alone, never on how many
 * threads there are. */
#ifndef TRAINER_BLAS_H
#define TRAINER_BLAS_H

#include <stdint.h>

struct err;

/* c[m,n] = alpha op(a) op(b) + beta c, row-major; op(a) is [m,k], op(b) [k,n].
 * at/bt: the operand is stored transposed.  ld*: elements between rows as
 * stored.  beta 0 never reads c.  Empty m, n or k are legal. */
struct gemm {
    int m, n, k;
    const float *a;
    int64_t lda;
    int at;
    const float *b;
    int64_t ldb;
    int bt;
    float *c;
    int64_t ldc;
    float alpha, beta;
};

/* One thread a call, and the fastest kernels this processor has: a processor
 * newer than the library is otherwise taken for the oldest one it knows (10x
 * slower).  An OPENBLAS_CORETYPE set by the user is left alone.  Call once
 * before the first product; later calls change nothing.  -1: ERR_MISSING. */
int blas_open(struct err *err);

void blas_gemm(const struct gemm *g);

/* "OpenBLAS 0.3.21 SkylakeX" */
const char *blas_describe(void);

#endif
