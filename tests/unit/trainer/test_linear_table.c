/* Plans of dense products in a file. */
#include <unistd.h>

#include "base/mem.h"
#include "test.h"
#include "trainer/linear_table.h"

static char path[64];

static int make_path(void **state)
{
    int fd;

    (void)state;
    strcpy(path, "/tmp/muster-plans-XXXXXX");
    fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int drop_path(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void write_text(const char *text)
{
    FILE *fp = fopen(path, "w");

    assert_non_null(fp);
    fputs(text, fp);
    assert_int_equal(fclose(fp), 0);
}

static const struct linear_plan two[] = {
    { { 0, 16384, 5120, 2048, 0, 0, 0, 1, 256 },
      33554432,
      { 0x1234567890abcdefu, 0, UINT64_MAX, 1, 2, 3, 4, 5 } },
    { { 2, 1, 8, 8, 16, 1, 1, 1, 16 }, 0, { 9 } },
};

static void test_round_trip(void **state)
{
    struct linear_table t = { 0 }, got;
    struct err err = ERR_INIT;
    int32_t other[LINEAR_KEY] = { 1 };

    (void)state;
    for (int i = 0; i < 2; i++)
        linear_table_add(&t, &two[i]);
    assert_ok(linear_table_save(path, "cuBLASLt 13.1, NVIDIA H200", &t, &err), &err);
    assert_ok(linear_table_load(path, "cuBLASLt 13.1, NVIDIA H200", &got, &err), &err);
    assert_int_equal(got.n, 2);
    assert_memory_equal(got.plan[0].key, two[0].key, sizeof(two[0].key));
    assert_memory_equal(got.plan[0].algo, two[0].algo, sizeof(two[0].algo));
    assert_int_equal(got.plan[0].workspace, 33554432);
    assert_ptr_equal(linear_table_find(&got, two[1].key), &got.plan[1]);
    assert_null(linear_table_find(&got, other));
    linear_table_release(&got);
    assert_err(linear_table_load(path, "cuBLASLt 13.2, NVIDIA H200", &got, &err), &err,
               ERR_USAGE,
               "made with cuBLASLt 13.1, NVIDIA H200, this is cuBLASLt 13.2");
    linear_table_release(&t);
}

static void test_bad_files(void **state)
{
    static const struct {
        const char *text, *said;
    } bad[] = {
        { "", "no table of plans" },
        { "something else\n", "no table of plans" },
        { "muster plans of dense products 1\n", ":2: no machine" },
        { "muster plans of dense products 1\nm\n1 2 3\n", ":3: no plan" },
        { "muster plans of dense products 1\nm\n0 1 1 1 0 0 0 1 16 0 1 2 3 4 5 6 7\n",
          ":3: no plan" },
        { "muster plans of dense products 1\nm\n0 1 1 1 0 0 0 1 16 0 1 2 3 4 5 6 7 8 "
          "9\n",
          ":3: no plan" },
        { "muster plans of dense products 1\nm\n0 1 1 -1 0 0 0 1 16 0 1 2 3 4 5 6 7 "
          "8\n",
          ":3: no plan" },
        { "muster plans of dense products 1\nm\n"
          "0 1 1 99999999999 0 0 0 1 16 0 1 2 3 4 5 6 7 8\n",
          ":3: no plan" },
    };
    struct linear_table t;
    struct err err = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_text(bad[i].text);
        assert_err(linear_table_load(path, "m", &t, &err), &err, ERR_USAGE,
                   bad[i].said);
    }
    unlink(path);
    assert_ok(linear_table_load(path, "m", &t, &err), &err);
    assert_int_equal(t.n, 0);
    assert_err(linear_table_save("/no/such/folder/plans", "m", &t, &err), &err,
               ERR_SYSTEM, "/no/such/folder/plans");
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_bad_files),
    };

    return cmocka_run_group_tests(t, make_path, drop_path);
}
