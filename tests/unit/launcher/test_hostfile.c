/* Hosts: files, lists, recipes. */
#include <unistd.h>

#include "base/str.h"
#include "launcher/hostfile.h"
#include "test.h"

static char path[] = "/tmp/test_hostfile_XXXXXX";

static int read_text(const char *text, struct hosts *out, struct err *err)
{
    FILE *fp = fopen(path, "w");

    assert_non_null(fp);
    fputs(text, fp);
    fclose(fp);
    return hostfile_read(path, out, err);
}

/* "name/slots name/slots ..." */
static char *show(struct hosts *h)
{
    struct str s = STR_INIT;

    for (int i = 0; i < h->n; i++)
        str_addf(&s, "%s%s/%d", i ? " " : "", h->item[i].name, h->item[i].slots);
    hosts_release(h);
    return str_take(&s);
}

static void assert_hosts(struct hosts *h, const char *want)
{
    char *got = show(h);

    assert_string_equal(got, want);
    free(got);
}

static void test_file(void **state)
{
    struct hosts h;
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(read_text("# the rack\n\nn2 slots=8\nn1:4 # old\n\tsvc@n3   max_slots=9 "
                        "slots=2\r\nn[10-11]:3\n10.0.0.7\n[fe80::1]:5\nfe80::2\nlast",
                        &h, &err),
              &err);
    assert_hosts(&h, "n2/8 n1/4 svc@n3/2 n10/3 n11/3 10.0.0.7/0 fe80::1/5 fe80::2/0 "
                     "last/0");
}

/* Case B13: the file's order is the ranks' order. */
static void test_b13_order(void **state)
{
    struct hosts h;
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(hostfile_read("tests/cases/b13_hostfile.txt", &h, &err), &err);
    assert_hosts(&h, "compute-811/0 compute-866/0 compute-571/0 compute-743/0");
}

static void test_list(void **state)
{
    struct strlist items = { 0 };
    struct hosts h;
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(hostfile_list("b,a:4,gn[01-03,07]:8,z", "--hosts", &h, &err), &err);
    assert_hosts(&h, "b/0 a/4 gn01/8 gn02/8 gn03/8 gn07/8 z/0");
    strlist_add(&items, "n1:2");
    strlist_add(&items, "n[2-3]");
    assert_ok(hostfile_recipe(&items, &h, &err), &err);
    assert_hosts(&h, "n1/2 n2/0 n3/0");
    strlist_release(&items);
}

static void test_twice(void **state)
{
    struct hosts h;
    struct err err = ERR_INIT;

    (void)state;
    assert_err(read_text("n1\nn2\nn1 slots=2\n", &h, &err), &err, ERR_USAGE,
               ":3: n1 is named twice (lines 1 and 3)");
    assert_err(hostfile_list("n[1-3],n2", "--hosts", &h, &err), &err, ERR_USAGE,
               "--hosts: n2 is named twice (places 1 and 2)");
}

static void test_problems(void **state)
{
    static const char *const bad[] = {
        "",          "\n# x\n",  "n1 slots=0",   "n1 slots=x", "n1 slots=5000",
        "n1 slot=4", "n1:0",     "n1:x",         "n1:",        "n1,n2",
        "-n1",       "n1 n2",    "n[1-",         "n[3-1]",     "n/1",
        "n1;reboot", "[fe80::1", "n1 slots=8 8", "n$x",
    };
    struct hosts h;
    struct err err = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (read_text(bad[i], &h, &err) == 0)
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(err.code, ERR_USAGE);
        err_release(&err);
    }
    assert_err(read_text("n1 slots=0\nok\nn2:x\n", &h, &err), &err, ERR_USAGE, ":3: ");
    assert_err(hostfile_list("n1,,n2", "--hosts", &h, &err), &err, ERR_USAGE,
               "place 2");
    assert_err(hostfile_list("", "--hosts", &h, &err), &err, ERR_USAGE, "--hosts");
    assert_err(hostfile_read("/nonexistent", &h, &err), &err, ERR_MISSING,
               "/nonexistent");
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_file),     cmocka_unit_test(test_b13_order),
        cmocka_unit_test(test_list),     cmocka_unit_test(test_twice),
        cmocka_unit_test(test_problems),
    };
    int fd = mkstemp(path), rc;

    if (fd < 0)
        return 4;
    close(fd);
    rc = cmocka_run_group_tests(t, NULL, NULL);
    unlink(path);
    return rc;
}
