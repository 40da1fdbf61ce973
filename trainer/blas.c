#include "trainer/blas.h"

#include <stdlib.h>

#include "base/err.h"
#include "trainer/blas_openblas.h"
#include "trainer/module.h"

static const struct blas *blas;

int blas_open(struct err *err)
{
    char *path = module_path("muster-blas.so", NULL);

    setenv("OPENBLAS_NUM_THREADS", "1", 1); /* its threads would idle, spinning */
    if (!blas)
        blas = module_find(path, "blas_openblas", 0, err);
    free(path);
    if (!blas)
        return err_wrap(err,
                        "device 'cpu' needs OpenBLAS (apt-get install libopenblas0)");
    blas->open();
    return 0;
}

const char *blas_describe(void)
{
    return blas->describe();
}

void blas_gemm(const struct gemm *g)
{
    blas->gemm(g);
}
