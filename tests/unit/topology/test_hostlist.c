/* Host lists: cases B01, B03, B04, what is refused, and Slurm's own answers. */
#include <unistd.h>

#include "slurm_cases.h"

static void expect(const char *text, const char *want)
{
    struct strlist names = case_expand(text);
    struct err err = ERR_INIT;
    char *got = case_join(&names, " ");
    int n;

    if (strcmp(got, want) != 0)
        fail_msg("%s: %s (wanted %s)", text, got, want);
    assert_ok(hostlist_count(text, &n, &err), &err);
    assert_int_equal(n, names.n);
    strlist_release(&names);
    free(got);
}

static void row_b01(char **column, int n)
{
    assert_int_equal(n, 2);
    expect(column[0], column[1]);
}

static void test_b01_expand(void **state)
{
    (void)state;
    assert_int_equal(case_rows("tests/cases/b01_hostlists.tsv", row_b01), 14);
}

static void row_b03(char **column, int n)
{
    struct strlist names = { 0 };
    char *copy = xstrdup(column[0]), *save, *folded;

    assert_int_equal(n, 2);
    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save))
        strlist_add(&names, w);
    folded = hostlist_fold(&names);
    assert_string_equal(folded, column[1]);
    free(copy);
    copy = case_join(&names, " ");
    expect(folded, copy);
    free(copy);
    free(folded);
    strlist_release(&names);
}

static void test_b03_fold(void **state)
{
    (void)state;
    assert_int_equal(case_rows("tests/cases/b03_fold.tsv", row_b03), 6);
}

static void unique_is(const char *text, const char *kept, const char *repeated)
{
    struct strlist names = case_expand(text), again = { 0 };
    char *a, *b;
    int before = names.n, gone = hostlist_unique(&names, &again);

    a = case_join(&names, " ");
    b = case_join(&again, " ");
    assert_string_equal(a, kept);
    assert_string_equal(b, repeated);
    assert_int_equal(names.n + gone, before);
    free(a);
    free(b);
    strlist_release(&names);
    strlist_release(&again);
}

static void test_b04_unique(void **state)
{
    (void)state;
    unique_is("n[1-3,2-4]", "n1 n2 n3 n4", "n2 n3");
    unique_is("n1,n1,n1", "n1", "n1");
    unique_is("b,a,b,c,a", "b a c", "b a");
    unique_is("n1,n01", "n1 n01", "");
}

/* The order of Slurm 22.05.8, which is no odometer from three brackets on. */
static void test_order_of_brackets(void **state)
{
    (void)state;
    expect("x[0-1][0-1]-[0-1]", "x00-0 x00-1 x10-0 x10-1 x01-0 x01-1 x11-0 x11-1");
    expect("n[0-1][0-1][0-1][0-1]", "n0000 n0001 n1000 n1001 n0100 n0101 n1100 n1101 "
                                    "n0010 n0011 n1010 n1011 n0110 n0111 n1110 n1111");
    expect("n[1-2]-[3,5]x[7-8]",
           "n1-3x7 n1-3x8 n2-3x7 n2-3x8 n1-5x7 n1-5x8 n2-5x7 n2-5x8");
    expect("a[2,1]x[1,3]", "a2x1 a2x3 a1x1 a1x3");
}

static void test_as_slurm(void **state)
{
    (void)state;
    expect("n[001-2,3]", "n001 n002 n3");
    expect("n[9-0011]", "n9 n10 n11");
    expect("n[1-010]", "n1 n2 n3 n4 n5 n6 n7 n8 n9 n10");
    expect("n[1,1]", "n1 n1");
    expect("[1-2],0003", "1 2 0003");
    expect(" a,,b\tc\n d\r\n", "a b c d");
    expect("n[18446744073709551612-18446744073709551614]",
           "n18446744073709551612 n18446744073709551613 n18446744073709551614");
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "", "names no host" },
        { ", ,\n", "names no host" },
        { "n[1-2", "not closed" },
        { "n1-2]", "without its '['" },
        { "n[1-2]]", "without its '['" },
        { "n[[1-2]]", "between [ and ]" },
        { "n[2-1]", "backwards" },
        { "n[]", "between [ and ]" },
        { "n[1,]", "between [ and ]" },
        { "n[,1]", "between [ and ]" },
        { "n[1-]", "no end" },
        { "n[-1]", "between [ and ]" },
        { "n[1--2]", "no end" },
        { "n[1-3-5]", "between [ and ]" },
        { "n[a-b]", "between [ and ]" },
        { "n[0x1-0x3]", "between [ and ]" },
        { "n[ 1-2]", "between [ and ]" },
        { "n[1:2]", "between [ and ]" },
        { "a[1-2]b", "after the last bracket" },
        { "a[1-2]b,c", "after the last bracket" },
        { "n[1-65537]", "more than 65536 numbers" },
        { "n[0-18446744073709551614]", "more than 65536 numbers" },
        { "n[18446744073709551614-18446744073709551615]", "below 2^64-1" },
        { "n[99999999999999999999]", "below 2^64-1" },
        { "n[0-65535],m[0-65535],k1", "more than 131072 hosts" },
        { "n[0-65535][0-65535][0-65535][0-65535]", "more than 131072 hosts" },
        { "a[1][1][1][1][1][1][1][1][1]", "more than 8 brackets" },
        { "-oProxyCommand=x", "begin with '-'" },
        { "n{1-2}", "made of letters" },
        { "a;b", "made of letters" },
        { "a\001b", "'a?b'" },
    };
    struct err err = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct strlist names = { 0 };
        int n = -7;
        assert_err(hostlist_expand(bad[i].text, &names, &err), &err, ERR_USAGE,
                   bad[i].part);
        assert_err(hostlist_count(bad[i].text, &n, &err), &err, ERR_USAGE, bad[i].part);
        assert_int_equal(names.n, 0);
        assert_int_equal(n, -7);
    }
}

static void test_long_names(void **state)
{
    char name[300];
    struct strlist names = { 0 };
    struct err err = ERR_INIT;

    (void)state;
    memset(name, 'a', 255);
    name[255] = '\0';
    expect(name, name);
    assert_true(hostlist_name_valid(name));
    memcpy(name + 255, "b", 2);
    assert_false(hostlist_name_valid(name));
    assert_err(hostlist_expand(name, &names, &err), &err, ERR_USAGE, "255 bytes");
    memset(name, '0', 255); /* as wide, out of one bracket */
    memcpy(name, "a[", 2);
    memcpy(name + 254, "1-9]", 5);
    names = case_expand(name);
    assert_int_equal(names.n, 9);
    assert_int_equal(strlen(names.item[8]), 254);
    strlist_release(&names);
    assert_false(hostlist_name_valid(""));
    assert_false(hostlist_name_valid("-n1"));
    assert_false(hostlist_name_valid("a b"));
    assert_true(hostlist_name_valid("root@gn-01.x:22"));
}

/* A range that fold makes is one that expand takes. */
static void test_fold_large(void **state)
{
    struct strlist names = case_expand("n[000000-065535],n[065536-131071]"), again;
    char *folded = hostlist_fold(&names);

    (void)state;
    assert_string_equal(folded, "n[000000-065535,065536-131071]");
    again = case_expand(folded);
    assert_int_equal(again.n, 131072);
    assert_string_equal(again.item[131071], "n131071");
    free(folded);
    strlist_release(&names);
    strlist_release(&again);
    folded = hostlist_fold(&names);
    assert_string_equal(folded, "");
    free(folded);
}

/* --- Slurm itself, where it is installed ---------------------------------------- */

/* Output of scontrol with a configuration that names no cluster; NULL: it failed. */
static char *scontrol(const char *what, const char *arg)
{
    char conf[] = "/tmp/muster-slurm-XXXXXX", *command;
    int fd = mkstemp(conf), rc;
    struct str s = STR_INIT;
    char line[4096];
    FILE *fp;

    if (fd < 0 || dprintf(fd, "ClusterName=t\nSlurmctldHost=localhost\n") < 0)
        fail_msg("%s", conf);
    close(fd);
    command =
        xasprintf("SLURM_CONF=%s scontrol show %s '%s' 2>/dev/null", conf, what, arg);
    fp = popen(command, "r");
    str_adds(&s, "");
    while (fp && fgets(line, sizeof(line), fp)) {
        line[strcspn(line, "\n")] = '\0';
        str_addf(&s, "%s%s", s.len ? " " : "", line);
    }
    rc = fp ? pclose(fp) : -1;
    free(command);
    unlink(conf);
    if (rc != 0)
        str_release(&s);
    return rc == 0 ? str_take(&s) : NULL;
}

/* xorshift: the same lists on every run. */
static unsigned draw(unsigned n)
{
    static uint64_t x = 88172645463325252u;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (unsigned)(x % n);
}

static void draw_bracket(struct str *s)
{
    unsigned n = 1 + draw(3);

    str_adds(s, "[");
    for (unsigned i = 0; i < n; i++) {
        unsigned lo = draw(120), width = 1 + draw(4);
        str_addf(s, "%s%0*u", i ? "," : "", (int)width, lo);
        if (draw(2))
            str_addf(s, "-%0*u", (int)(1 + draw(3)), lo + draw(4));
    }
    str_adds(s, "]");
}

static char *draw_list(void)
{
    struct str s = STR_INIT;
    unsigned words = 1 + draw(3);

    for (unsigned i = 0; i < words; i++) {
        static const char *const stems[] = { "n", "gpu-", "r0_b", "ip-10-", "7x" };
        unsigned brackets = draw(4);
        str_addf(&s, "%s%s", i ? "," : "", stems[draw(5)]);
        if (brackets == 0)
            str_addf(&s, "%0*u", (int)(1 + draw(3)), draw(200));
        for (unsigned b = 0; b < brackets; b++) {
            str_adds(&s, b ? "-" : "");
            draw_bracket(&s);
        }
    }
    return str_take(&s);
}

/* 40 lists: Slurm's names are ours, and Slurm's fold of them is ours. */
static void test_slurm_agrees(void **state)
{
    (void)state;
    if (system("command -v scontrol >/dev/null") != 0)
        skip(); /* no Slurm on this machine (Debian: slurm-client) */
    for (int i = 0; i < 40; i++) {
        char *list = draw_list(), *theirs = scontrol("hostnames", list), *commas, *fold;
        struct strlist names;
        assert_non_null(theirs);
        expect(list, theirs);
        names = case_expand(list);
        commas = case_join(&names, ",");
        free(theirs);
        theirs = scontrol("hostlist", commas);
        fold = hostlist_fold(&names);
        assert_non_null(theirs);
        assert_string_equal(fold, theirs);
        strlist_release(&names);
        free(list);
        free(theirs);
        free(commas);
        free(fold);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b01_expand),   cmocka_unit_test(test_b03_fold),
        cmocka_unit_test(test_b04_unique),   cmocka_unit_test(test_order_of_brackets),
        cmocka_unit_test(test_as_slurm),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long_names),   cmocka_unit_test(test_fold_large),
        cmocka_unit_test(test_slurm_agrees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
