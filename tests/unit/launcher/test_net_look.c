/* net_look: the interface of several machines' programs, and who must be told (C04). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/env.h"
#include "launcher/net_look.h"
#include "test.h"

static void look(const char *text, const char *address, const char *own,
                 struct net_look *out)
{
    struct net_ifs l = { 0 };

    net_ifs_parse(text, &l);
    net_look(&l, address, own, out);
    net_ifs_release(&l);
}

static char *slurp(const char *path)
{
    FILE *fp = fopen(path, "r");
    char buf[4096];
    size_t n;

    if (!fp)
        fail_msg("%s", path);
    n = fread(buf, 1, sizeof(buf), fp);
    fclose(fp);
    return xstrndup(buf, n);
}

/* The case's machine: by the address that others use, else as NCCL would. */
static void test_c04(void **state)
{
    char *text = slurp("tests/cases/c04_ip_addr.txt");
    struct net_look n;

    (void)state;
    look(text, "10.30.0.11", "10.30.0.11", &n);
    assert_string_equal(n.interface, "bond0.301");
    assert_string_equal(n.network, "10.30.0.0/16");
    assert_string_equal(n.why[NET_NCCL], ""); /* it takes ib0, which is as well */
    assert_string_equal(n.why[NET_GLOO], "");
    assert_string_equal(n.why[NET_MPI], ""); /* its bridges are down */
    look(text, "198.51.100.7", "192.0.2.11", &n);
    assert_string_equal(n.interface, "bond0");
    assert_string_equal(n.network, "198.51.100.0/27");
    look(text, NULL, "192.0.2.11", &n);
    assert_string_equal(n.interface, "ib0");
    look(text, "127.0.0.1", "192.0.2.11", &n); /* others cannot use that */
    assert_string_equal(n.interface, "ib0");
    free(text);
}

static const char bridged[] = "lo UNKNOWN 127.0.0.1/8 ::1/128\n"
                              "docker0 UP 172.17.0.1/16\n"
                              "virbr0 UP 192.168.122.1/24\n"
                              "eth0@if6 UP 10.99.0.3/24 fe80::3/64\n";

static int has(const struct strlist *l, const char *text)
{
    for (int i = 0; i < l->n; i++)
        if (str_eq(l->item[i], text))
            return 1;
    return 0;
}

/* Bridges of containers: each library is told, and why. */
static void test_bridges(void **state)
{
    struct strlist set = { 0 };
    struct net_look n;

    (void)state;
    look(bridged, "10.99.0.3", "127.0.1.1", &n);
    assert_string_equal(n.interface, "eth0");
    net_settings(&n, &set);
    assert_int_equal(set.n, 3);
    assert_true(has(&set, "NCCL_SOCKET_IFNAME==eth0"));
    assert_true(has(&set, "GLOO_SOCKET_IFNAME=eth0"));
    assert_true(has(&set, "OMPI_MCA_btl_tcp_if_include=10.99.0.0/24"));
    assert_string_equal(n.why[NET_NCCL], "NCCL would also take virbr0");
    assert_string_equal(n.why[NET_GLOO], "the machine's own name leads to 127.0.1.1");
    assert_string_equal(n.why[NET_MPI], "Open MPI would also use docker0, virbr0");
    strlist_release(&set);
}

/* Nothing to choose: nothing is told.  Nothing but lo and docker: nothing fits. */
static void test_plain(void **state)
{
    struct strlist set = { 0 };
    struct net_look n;

    (void)state;
    look("lo UNKNOWN 127.0.0.1/8\neth0 UP 10.99.0.3/24\n", "10.99.0.3", "10.99.0.3",
         &n);
    net_settings(&n, &set);
    assert_int_equal(set.n, 0);
    look("lo UNKNOWN 127.0.0.1/8\ndocker0 UP 172.17.0.1/16\n", "172.17.0.1", NULL, &n);
    assert_string_equal(n.interface, "");
    net_settings(&n, &set);
    assert_int_equal(set.n, 0);
    look("", NULL, NULL, &n);
    assert_string_equal(n.interface, "");
    strlist_release(&set);
}

/* What the user says stays. */
static void test_user_wins(void **state)
{
    char *const base[] = { (char *)"NCCL_SOCKET_IFNAME=virbr0",
                           (char *)"OMPI_MCA_btl_tcp_if_exclude=docker0", NULL };
    struct net_look n;
    struct env env;

    (void)state;
    look(bridged, "10.99.0.3", NULL, &n);
    env_copy(&env, base);
    net_apply(&n, &env);
    assert_string_equal(env_get(&env, "NCCL_SOCKET_IFNAME"), "virbr0");
    assert_string_equal(env_get(&env, "GLOO_SOCKET_IFNAME"), "eth0");
    assert_null(env_get(&env, "OMPI_MCA_btl_tcp_if_include"));
    env_release(&env);
}

static void test_check(void **state)
{
    struct net_ifs l = { 0 };
    struct err err = ERR_INIT;

    (void)state;
    net_ifs_parse(bridged, &l);
    assert_ok(net_check(&l, "=eth0", &err), &err);
    assert_ok(net_check(&l, "", &err), &err);
    assert_ok(net_check(&l, NULL, &err), &err);
    assert_err(net_check(&l, "ib", &err), &err, ERR_USAGE,
               "NCCL_SOCKET_IFNAME: no interface matches ib; there are lo, docker0, "
               "virbr0, eth0");
    net_ifs_release(&l);
}

static void test_live(void **state)
{
    char to[48] = "";

    (void)state;
    assert_int_equal(net_address_towards("127.0.0.1", to), 0);
    assert_string_equal(to, "127.0.0.1");
    assert_true(net_is_loopback("127.0.1.1"));
    assert_true(net_is_loopback("::1"));
    assert_false(net_is_loopback("10.0.0.1"));
    assert_int_equal(net_resolve("no-such-name.invalid", to), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_c04),   cmocka_unit_test(test_bridges),
        cmocka_unit_test(test_plain), cmocka_unit_test(test_user_wins),
        cmocka_unit_test(test_check), cmocka_unit_test(test_live),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
