/* What hosts say about themselves, and what cannot be. */
#include "base/mem.h"
#include "base/str.h"
#include "launcher/host_look.h"
#include "test.h"

static struct host_look made(const char *asked, const char *hostname, const char *boot,
                             const char *address, const char *own)
{
    return (struct host_look){ .asked = xstrdup(asked),
                               .hostname = xstrdup(hostname),
                               .boot_id = xstrdup(boot),
                               .address = xstrdup(address),
                               .own_address = xstrdup(own),
                               .system = xstrdup("Linux"),
                               .machine = xstrdup("x86_64"),
                               .glibc = xstrdup("2.36") };
}

static void release(struct host_look *h, int n)
{
    for (int i = 0; i < n; i++)
        host_look_release(&h[i]);
}

static void test_parse(void **state)
{
    struct host_look h;
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(
        host_look_parse(
            "Welcome!\nmuster-look hostname gn01\r\nnoise\n"
            "muster-look system Linux\nmuster-look machine x86_64\n"
            "muster-look boot_id 1-2-3\nmuster-look glibc glibc 2.36\n"
            "muster-look own_address 127.0.1.1 STREAM gn01\n"
            "muster-look noexec 1\nmuster-look nvidia 1\nmuster-look hostname second\n",
            "n1", &h, &err),
        &err);
    assert_string_equal(h.hostname, "gn01");
    assert_string_equal(h.boot_id, "1-2-3");
    assert_string_equal(h.glibc, "2.36");
    assert_string_equal(h.own_address, "127.0.1.1");
    assert_int_equal(h.noexec, 1);
    assert_int_equal(h.nvidia, 1);
    host_look_release(&h);
    assert_err(host_look_parse("muster-look hostname gn01\nmuster-look boot_id \n",
                               "n1", &h, &err),
               &err, ERR_FAILED, "n1: it does not say its system");
    assert_err(host_look_parse("", "n1", &h, &err), &err, ERR_FAILED, "hostname");
}

/* Case C19: the name is not the machine. */
static void test_c19(void **state)
{
    struct host_look h[] = {
        made("a", "localhost", "boot-a", "10.20.0.11", "10.20.0.11"),
        made("b", "localhost", "boot-b", "10.20.0.12", "10.20.0.12"),
        made("c", "gn03", "boot-a", "10.20.0.13", "10.20.0.13"),
    };
    struct err err = ERR_INIT;

    (void)state;
    assert_err(host_look_check(h, 2, NULL, &err), &err, ERR_FAILED,
               "a and b: same host name (localhost), different machine");
    assert_int_equal(host_look_check(h, 3, NULL, &err), -1);
    assert_non_null(strstr(err_text(&err), "a and c are one machine"));
    assert_non_null(strstr(err_text(&err), "same host name"));
    err_release(&err);
    assert_ok(host_look_check(&h[1], 2, NULL, &err), &err);
    release(h, 3);
}

/* Case C03: loopback is no address for others; alone it is one. */
static void test_c03(void **state)
{
    struct host_look h[] = {
        made("gn01", "gn01", "boot-a", "127.0.1.1", "127.0.1.1"),
        made("gn02", "gn02", "boot-b", "10.20.0.12", "127.0.1.1"),
        made("gn03", "gn03", "boot-c", "::1", "10.20.0.13"),
    };
    struct strlist warnings = { 0 };
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(host_look_check(h, 1, &warnings, &err), &err);
    assert_err(host_look_check(h, 2, NULL, &err), &err, ERR_FAILED,
               "gn01: the name leads to 127.0.1.1 here");
    assert_err(host_look_check(&h[1], 2, &warnings, &err), &err, ERR_FAILED,
               "gn03: the name leads to ::1");
    assert_int_equal(warnings.n, 1);
    assert_non_null(
        strstr(warnings.item[0],
               "gn02: its own name gn02 leads to 127.0.1.1 there; 10.20.0.12"));
    strlist_release(&warnings);
    release(h, 3);
}

static void test_fits(void **state)
{
    struct host_look h = made("n", "n", "b", "10.0.0.1", "10.0.0.1");
    struct err err = ERR_INIT;

    (void)state;
#ifdef __x86_64__
    assert_ok(host_look_fits(&h, "2.36", &err), &err);
    assert_ok(host_look_fits(&h, "2.4", &err), &err);
    assert_err(host_look_fits(&h, "2.39", &err), &err, ERR_FAILED,
               "n has glibc 2.36, this muster needs 2.39");
    h.noexec = 1;
    assert_err(host_look_fits(&h, "2.36", &err), &err, ERR_FAILED, "noexec");
#endif
    free(h.machine);
    h.machine = xstrdup("pdp11");
    assert_err(host_look_fits(&h, "2.36", &err), &err, ERR_FAILED, "Linux on pdp11");
    host_look_release(&h);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_c19),
        cmocka_unit_test(test_c03),
        cmocka_unit_test(test_fits),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
