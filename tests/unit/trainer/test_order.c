/* Sample order: each sample once an epoch, exact mixtures, any size, no state. */
#include "test.h"

#include <math.h>

#include "base/mem.h"
#include "trainer/order.h"

static void test_permute_is_a_permutation(void **state)
{
    static const uint64_t sizes[] = { 1, 2, 3, 4, 5, 16, 17, 1000, 1024, 4097, 65537 };

    (void)state;
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
        for (uint64_t key = 0; key < 3; key++) {
            char *seen = xcalloc(sizes[s], 1);
            for (uint64_t i = 0; i < sizes[s]; i++) {
                uint64_t p = order_permute(key, sizes[s], i);
                assert_true(p < sizes[s]);
                assert_int_equal(seen[p]++, 0);
            }
            free(seen);
        }
}

/* Huge domains: in range, and no two of many inputs collide. */
static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void test_permute_2_to_the_62(void **state)
{
    static const uint64_t sizes[] = { (uint64_t)1 << 40, ((uint64_t)1 << 40) + 1,
                                      ((uint64_t)1 << 62) - 1, (uint64_t)1 << 62 };
    enum { N = 20000 };
    uint64_t *p = xcalloc(N, sizeof(*p));

    (void)state;
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        for (uint64_t i = 0; i < N; i++) {
            p[i] = order_permute(7, sizes[s], i % 2 ? sizes[s] - 1 - i : i);
            assert_true(p[i] < sizes[s]);
        }
        qsort(p, N, sizeof(*p), compare);
        for (int i = 1; i < N; i++)
            assert_true(p[i] != p[i - 1]);
    }
    free(p);
}

/* Does it shuffle?  Neighbours land far apart: the mean distance of a uniform
 * permutation is n/3, and the ranks of 16 equal bins are even (chi-squared with
 * 15 degrees of freedom is below 45 except once in 10^4). */
static void test_permute_looks_random(void **state)
{
    enum { N = 100000, BINS = 16 };
    double distance = 0, chi = 0;
    int bin[BINS] = { 0 };

    (void)state;
    for (uint64_t i = 0; i + 1 < N; i++)
        distance +=
            fabs((double)order_permute(1, N, i) - (double)order_permute(1, N, i + 1));
    assert_true(fabs(distance / (N - 1) / N - 1.0 / 3) < 0.01);
    for (uint64_t i = 0; i < N / 10; i++) /* where the first tenth goes */
        bin[order_permute(2, N, i) * BINS / N]++;
    for (int b = 0; b < BINS; b++)
        chi += pow(bin[b] - N / 10.0 / BINS, 2) / (N / 10.0 / BINS);
    assert_true(chi < 45);
}

static void test_every_sample_once_an_epoch(void **state)
{
    const int64_t n = 1237;
    struct order o;
    int *seen = xcalloc((size_t)n, sizeof(*seen));
    int64_t moved = 0, first, sample;
    int source;

    (void)state;
    order_init(&o, 42, 1, &n, NULL);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        for (int64_t k = 0; k < n; k++) {
            order_at(&o, epoch * n + k, &source, &sample);
            assert_int_equal(source, 0);
            assert_int_equal(seen[sample]++, epoch);
            order_at(&o, k, &source, &first);
            moved += sample != first;
        }
    }
    assert_true(moved > n); /* epochs differ */
    order_release(&o);
    free(seen);
}

static void test_weights_by_size_visit_everything(void **state)
{
    const int64_t n[3] = { 100, 1, 923 }; /* one block: 1024 positions */
    struct order o;
    int seen[3][923] = { { 0 } }, source;
    int64_t sample;

    (void)state;
    order_init(&o, 1, 3, n, NULL);
    for (int64_t k = 0; k < 1024; k++) {
        order_at(&o, k, &source, &sample);
        assert_true(sample >= 0 && sample < n[source]);
        assert_int_equal(seen[source][sample]++, 0);
    }
    order_release(&o);
}

/* After every block each source is within n samples of its exact share. */
static void test_mixture_is_exact(void **state)
{
    const int64_t n[4] = { 10, 1000, 77, 5 };
    const double w[4] = { 0.5, 0.3, 0.2, 0 };
    int64_t count[4] = { 0 }, sample;
    struct order o;
    int source;

    (void)state;
    order_init(&o, 9, 4, n, w);
    for (int64_t k = 0; k < 100 * ORDER_BLOCK; k++) {
        order_at(&o, k, &source, &sample);
        count[source]++;
        if ((k + 1) % ORDER_BLOCK == 0)
            for (int i = 0; i < 4; i++)
                assert_true(fabs((double)count[i] - w[i] * (double)(k + 1)) <= 3);
    }
    assert_int_equal(count[3], 0);
    order_release(&o);
}

/* Far along, still exact: no overflow, no drift. */
static void test_2_to_the_40_samples(void **state)
{
    const int64_t n[2] = { (int64_t)1 << 40, ((int64_t)1 << 40) * 3 };
    const int64_t start = ((int64_t)1 << 50) + ORDER_BLOCK;
    int64_t count = 0, sample;
    struct order o;
    int source;

    (void)state;
    order_init(&o, 3, 2, n, NULL);
    for (int64_t k = start; k < start + 16 * ORDER_BLOCK; k++) {
        order_at(&o, k, &source, &sample);
        assert_true(sample >= 0 && sample < n[source]);
        count += source == 0;
    }
    assert_int_equal(count, 4 * ORDER_BLOCK);
    order_at(&o, INT64_MAX / 2, &source, &sample);
    assert_true(sample >= 0 && sample < n[source]);
    order_release(&o);
}

/* With two equal sources and two ranks, no rank always meets the same source. */
static void test_ranks_meet_all_sources(void **state)
{
    const int64_t n[2] = { 50, 50 };
    int met[2][2] = { { 0 } }, source;
    struct order o;
    int64_t sample;

    (void)state;
    order_init(&o, 5, 2, n, NULL);
    for (int64_t k = 0; k < 4000; k++) {
        order_at(&o, k, &source, &sample);
        met[k % 2][source]++;
    }
    for (int r = 0; r < 2; r++)
        assert_true(met[r][0] > 800 && met[r][0] < 1200);
    order_release(&o);
}

static void test_seed_decides(void **state)
{
    const int64_t n[2] = { 1000, 500 };
    struct order a, b, c;
    int64_t x, y, z, differ = 0;
    int sa, sb, sc;

    (void)state;
    order_init(&a, 1, 2, n, NULL);
    order_init(&b, 1, 2, n, NULL);
    order_init(&c, 2, 2, n, NULL);
    for (int64_t k = 0; k < 1500; k++) {
        order_at(&a, k, &sa, &x);
        order_at(&b, k, &sb, &y);
        order_at(&c, k, &sc, &z);
        assert_true(sa == sb && x == y);
        differ += sa != sc || x != z;
    }
    assert_true(differ > 1400);
    order_release(&a);
    order_release(&b);
    order_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permute_is_a_permutation),
        cmocka_unit_test(test_permute_2_to_the_62),
        cmocka_unit_test(test_permute_looks_random),
        cmocka_unit_test(test_every_sample_once_an_epoch),
        cmocka_unit_test(test_weights_by_size_visit_everything),
        cmocka_unit_test(test_mixture_is_exact),
        cmocka_unit_test(test_2_to_the_40_samples),
        cmocka_unit_test(test_ranks_meet_all_sources),
        cmocka_unit_test(test_seed_decides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
