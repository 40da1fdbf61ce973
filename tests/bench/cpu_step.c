/* cpu_step - time of one training step (forward, backward, AdamW) on the CPU.
 *
 *   cpu_step [-p PRESET] [-b BATCH] [-s SEQ] [-t THREADS] [-n STEPS] [-c CHUNK]
 *            [-a none|selective|full]
 * One line a step, the first of them a warm-up, then the least and the median.  No FSDP, no clipping: what
 * cpu_torch.py does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "recipes/model.h"
#include "trainer/model_run.h"

struct options {
    const char *preset;
    int B, S, threads, steps, chunk;
    enum ac_mode ac;
};

static enum ac_mode mode(const char *name)
{
    return strcmp(name, "full") == 0        ? AC_FULL
           : strcmp(name, "selective") == 0 ? AC_SELECTIVE
                                            : AC_NONE;
}

static int parse(int argc, char **argv, struct options *o)
{
    int c;

    *o = (struct options){ "small-50m", 4, 512, 2, 5, 512, AC_NONE };
    while ((c = getopt(argc, argv, "p:b:s:t:n:c:a:")) != -1) {
        int n = optarg ? (int)strtol(optarg, NULL, 10) : 0;

        switch (c) {
        case 'p':
            o->preset = optarg;
            break;
        case 'b':
            o->B = n;
            break;
        case 's':
            o->S = n;
            break;
        case 't':
            o->threads = n;
            break;
        case 'n':
            o->steps = n;
            break;
        case 'c':
            o->chunk = n;
            break;
        case 'a':
            o->ac = mode(optarg);
            break;
        default:
            return -1;
        }
    }
    return o->B > 0 && o->S > 0 && o->steps > 0 ? 0 : -1;
}

static void update(struct model_run *r, float **m, float **v, int step)
{
    const struct adamw a = { 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, step };

    for (int u = 0; u < r->units; u++)
        r->c.ops->adamw(r->c.dev, r->param[u], m[u], v[u], NULL, r->grad[u], 1.0f, &a,
                        r->layout[u].padded);
}

/* Processor seconds of all threads: what a busy machine does not disturb much. */
static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void run(const struct options *o, const struct model *model)
{
    struct model_run r;
    float *m[RUN_MAX_UNITS], *v[RUN_MAX_UNITS];
    double *ms = calloc((size_t)o->steps + 1, sizeof(*ms));

    model_run_open(&r, model, o->ac, o->B, o->S, o->chunk, o->threads);
    model_run_fill(&r, 1, 0.02f);
    for (int u = 0; u < r.units; u++) {
        m[u] = run_alloc(&r, (size_t)r.layout[u].padded * sizeof(float));
        v[u] = run_alloc(&r, (size_t)r.layout[u].padded * sizeof(float));
    }
    printf("%s, %s, batch %d x %d, checkpointing %s\n", o->preset,
           r.c.ops->describe(r.c.dev), o->B, o->S, ac_mode_name(o->ac));
    for (int i = 0; i <= o->steps; i++) {
        double from = clock_s(), cpu = cpu_s();
        float loss = model_run_step(&r, 1.0f / (float)r.b.T) / (float)r.b.T;

        update(&r, m, v, i + 1);
        ms[i] = 1e3 * (clock_s() - from);
        printf("step %d  %.1f ms  cpu %.1f ms  loss %.5f%s\n", i + 1, ms[i],
               1e3 * (cpu_s() - cpu), (double)loss, i == 0 ? "  (warm-up)" : "");
    }
    qsort(ms + 1, (size_t)o->steps, sizeof(*ms), by_value);
    printf("min %.1f ms  median %.1f ms  %.0f tokens/s\n", ms[1], ms[1 + o->steps / 2],
           r.b.T / ms[1] * 1e3);
    model_run_close(&r);
    free(ms);
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct options o;
    struct model model;

    if (parse(argc, argv, &o) != 0) {
        fprintf(stderr, "usage: cpu_step [-p PRESET] [-b BATCH] [-s SEQ] [-t THREADS] "
                        "[-n STEPS] [-c CHUNK] [-a none|selective|full]\n");
        return 2;
    }
    if (model_preset(o.preset, &model, &err) != 0) {
        fprintf(stderr, "cpu_step: %s\n", err_text(&err));
        return 2;
    }
    run(&o, &model);
    return 0;
}
