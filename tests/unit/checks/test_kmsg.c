#include "topology/trees.h"

#include "checks/kmsg.h"

struct seen {
    int n;
    double age_s;
    char text[128];
};

static void see(void *arg, double age_s, const char *text)
{
    struct seen *s = arg;

    s->n++;
    s->age_s = age_s;
    snprintf(s->text, sizeof(s->text), "%s", text);
}

/* Only messages of the last hours; lines that belong to the one above are none. */
static void test_recorded(void **state)
{
    char *root = tree_dir();
    struct seen s = { 0 };
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(kmsg_read(root, 24, see, &s, &err), -1);
    assert_int_equal(err.code, ERR_MISSING);
    assert_non_null(strstr(err_text(&err), "dmesg_restrict"));
    err_release(&err);
    tree_run("mkdir -p %s/dev %s/proc", root, root);
    tree_run("echo '100000.50 1.0' >%s/proc/uptime", root);
    tree_run(
        "printf '4,1,1000000,-;old; one\\n SUBSYSTEM=pci\\n6,2,96400500000,-;an; hour "
        "ago\\n' >%s/dev/kmsg",
        root);
    assert_ok(kmsg_read(root, 24, see, &s, &err), &err);
    assert_int_equal(s.n, 1);
    assert_true(s.age_s > 3599.9 && s.age_s < 3600.1);
    assert_string_equal(s.text, "an; hour ago");
    assert_ok(kmsg_read(root, 48, see, &s, &err), &err);
    assert_int_equal(s.n, 3);
    tree_remove(root);
}

/* Read, or said why not; it ends either way. */
static void test_live(void **state)
{
    struct seen s = { 0 };
    struct err err = ERR_INIT;

    (void)state;
    if (kmsg_read("", 24, see, &s, &err) < 0)
        assert_int_equal(err.code, ERR_MISSING);
    err_release(&err);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_live),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
