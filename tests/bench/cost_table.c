/* cost_table - predicted against measured bus bandwidth, and the speed of the prediction.
 * Prints what stands in RESULTS.md. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/str.h"
#include "topology/cost_measured.h"

static void print_row(const struct measured_row *r, double *sum, int *n)
{
    struct cost c;
    double bus = measured_predict(r, &c), middle = measured_middle(r);
    char range[32];

    if (r->low < r->high)
        snprintf(range, sizeof(range), "%.0f-%.0f", r->low, r->high);
    else
        snprintf(range, sizeof(range), "%.0f", r->low);
    printf("| %s | %s | %d | %s | %.0f | ", measured_machines[r->machine].name,
           collective_name(r->collective), r->mib, range, bus);
    if (r->in_switch) {
        printf("not compared: NVLS");
    } else {
        printf("%+.1f %%", 100 * (bus / middle - 1));
        *sum += fabs(bus / middle - 1);
        (*n)++;
    }
    printf(" | %s%s%s, %s | %s |\n", c.algorithm, c.protocol[0] ? " " : "", c.protocol,
           c.tier, r->source);
}

static double processor_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* 2,048 nodes of 8, shard groups of two nodes: the model, and all groups of both. */
static void time_large(void)
{
    struct measured_machine m = { "2,048 nodes", 2048, 8, 90, 18, 48, 400, 0 };
    struct topology *t = measured_topology(&m);
    struct placement *p = NULL;
    struct err err = ERR_INIT;
    struct cost_model *model;
    struct cost_groups shard, replicate;
    int *a, *b;
    double begin, made, done;

    if (!t || placement_make(NULL, t, 16384, &p, &err) < 0) {
        fprintf(stderr, "cost_table: %s\n", err_text(&err));
        exit(1);
    }
    p->shard_degree = 16;
    p->replicate_degree = 1024;
    begin = processor_s();
    model = cost_model_new(t);
    made = processor_s();
    shard = cost_shard_groups(p, &a);
    replicate = cost_replicate_groups(p, &b);
    cost_concurrent(COLLECTIVE_ALL_GATHER, 1 << 30, &shard, p, t, model);
    cost_concurrent(COLLECTIVE_ALL_REDUCE, 1 << 26, &replicate, p, t, model);
    done = processor_s();
    printf("\n2,048 nodes x 8 GPUs: links of the topology %.1f ms, cost of 1,024 shard "
           "and 16 replicate groups %.1f ms of processor time\n",
           1e3 * (made - begin), 1e3 * (done - made));
    free(a);
    free(b);
    cost_model_free(model);
    placement_free(p);
    topology_free(t);
}

int main(void)
{
    double sum = 0;
    int n = 0;

    printf("| machine | collective | MiB | measured GB/s | predicted | error | "
           "predicted by | measured by |\n|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < ARRAY_LEN(measured_rows); i++)
        print_row(&measured_rows[i], &sum, &n);
    printf("\nmean of the absolute errors of %d rows: %.1f %%\n", n, 100 * sum / n);
    time_large();
    return 0;
}
