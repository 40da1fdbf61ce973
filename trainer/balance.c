#include "trainer/balance.h"

static double mean_rows(const int32_t *counts, int experts)
{
    double sum = 0;

    for (int e = 0; e < experts; e++)
        sum += counts[e];
    return sum / experts;
}

static void update_layer(float *bias, const int32_t *counts, int experts, double rate)
{
    double mean = mean_rows(counts, experts), shift = 0;

    for (int e = 0; e < experts; e++)
        shift += (mean > counts[e]) - (mean < counts[e]);
    shift /= experts;
    for (int e = 0; e < experts; e++) {
        int sign = (mean > counts[e]) - (mean < counts[e]);

        bias[e] = (float)(bias[e] + rate * (sign - shift));
    }
}

void balance_update(float *bias, const int32_t *counts, int layers, int experts,
                    double rate)
{
    for (int i = 0; i < layers; i++)
        update_layer(bias + (int64_t)i * experts, counts + (int64_t)i * experts,
                     experts, rate);
}

double balance_load(const int32_t *counts, int layers, int experts)
{
    double worst = 0;

    for (int i = 0; i < layers; i++) {
        const int32_t *c = counts + (int64_t)i * experts;
        double mean = mean_rows(c, experts);

        for (int e = 0; e < experts; e++)
            if (mean > 0 && c[e] / mean > worst)
                worst = c[e] / mean;
    }
    return worst;
}
