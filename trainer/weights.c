#include "trainer/weights.h"

#include <math.h>
#include <string.h>

#include "trainer/units.h"

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t key_of(uint64_t seed, int unit, int tensor)
{
    return mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) +
               (uint64_t)unit * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)tensor + 1);
}

/* In (0, 1): never 0, whose logarithm is infinite. */
static double uniform(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

static void normal_pair(uint64_t key, uint64_t pair, double out[2])
{
    double a = uniform(mix(key ^ mix(2 * pair + UINT64_C(0x9e3779b97f4a7c15))));
    double b = uniform(mix(key ^ mix(2 * pair + 1 + UINT64_C(0x9e3779b97f4a7c15))));
    double r = sqrt(-2 * log(a));

    out[0] = r * cos(2 * M_PI * b);
    out[1] = r * sin(2 * M_PI * b);
}

/* Elements [from, to) of one tensor. */
static void fill_tensor(uint64_t key, double std, int64_t from, int64_t to, float *out)
{
    double z[2] = { 0 };

    for (int64_t i = from; i < to; i++) {
        if (std == 0) {
            out[i - from] = 1;
            continue;
        }
        if (i == from || i % 2 == 0)
            normal_pair(key, (uint64_t)i / 2, z);
        out[i - from] = (float)(std * z[i % 2]);
    }
}

void weights_fill(const struct units *u, int unit, uint64_t seed, int64_t from,
                  int64_t n, float *out)
{
    const struct unit_layout *l = units_at(u, unit);

    memset(out, 0, (size_t)n * sizeof(*out));
    for (int i = 0; i < l->n; i++) {
        const struct unit_tensor *t = &l->tensor[i];
        int64_t a = from > t->offset ? from : t->offset;
        int64_t b = from + n < t->offset + t->count ? from + n : t->offset + t->count;

        if (a < b)
            fill_tensor(key_of(seed, unit, i), t->init_std, a - t->offset,
                        b - t->offset, out + (a - from));
    }
}
