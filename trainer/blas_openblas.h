/* blas_openblas.h - internal: what muster-blas.so holds (blas.h is the contract). */
#ifndef TRAINER_BLAS_OPENBLAS_H
#define TRAINER_BLAS_OPENBLAS_H

#include "trainer/blas.h"

struct blas {
    void (*open)(void);
    void (*gemm)(const struct gemm *g);
    const char *(*describe)(void);
};

extern const struct blas blas_openblas;

#endif
