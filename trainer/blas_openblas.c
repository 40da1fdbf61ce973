#include "trainer/blas_openblas.h"

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exported by builds that hold kernels for several processors; others have none
 * and need none. */
__attribute__((weak)) void gotoblas_dynamic_init(void);
__attribute__((weak)) void gotoblas_dynamic_quit(void);

static char description[96];

/* Kernel sets for generations of x86-64, best first, by what they need. */
static const char *best_core(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

/* The sets that OpenBLAS falls back to when it does not know the processor. */
static int core_is_a_guess(const char *core)
{
    static const char *const old[] = { "Prescott", "Core2", "Nehalem", "Unknown",
                                       "generic" };

    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
        if (strcasecmp(core, old[i]) == 0)
            return 1;
    return 0;
}

static void choose_kernels(void)
{
    const char *core = best_core();

    if (!core || getenv("OPENBLAS_CORETYPE") || !gotoblas_dynamic_init ||
        !gotoblas_dynamic_quit || !core_is_a_guess(openblas_get_corename()))
        return;
    setenv("OPENBLAS_CORETYPE", core, 1);
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    unsetenv("OPENBLAS_CORETYPE");
}

static void open_once(void)
{
    char version[32] = "OpenBLAS";

    choose_kernels();
    openblas_set_num_threads(1);
    /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
    sscanf(openblas_get_config(), "OpenBLAS %15s", version + 9);
    if (version[9])
        version[8] = ' ';
    snprintf(description, sizeof(description), "%s %s", version,
             openblas_get_corename());
}

static void openblas_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, open_once);
}

static const char *openblas_describe(void)
{
    return description;
}

static void scale_rows(const struct gemm *g)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++)
            g->c[i * g->ldc + j] = g->beta == 0 ? 0 : g->beta * g->c[i * g->ldc + j];
}

static void openblas_gemm(const struct gemm *g)
{
    if (g->m == 0 || g->n == 0)
        return;
    if (g->k == 0) {
        scale_rows(g);
        return;
    }
    cblas_sgemm(CblasRowMajor, g->at ? CblasTrans : CblasNoTrans,
                g->bt ? CblasTrans : CblasNoTrans, g->m, g->n, g->k, g->alpha, g->a,
                (int)g->lda, g->b, (int)g->ldb, g->beta, g->c, (int)g->ldc);
}

__attribute__((visibility("default"))) const struct blas blas_openblas = {
    .open = openblas_open,
    .gemm = openblas_gemm,
    .describe = openblas_describe,
};
