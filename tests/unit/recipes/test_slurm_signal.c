/* slurm_signal: case C14, and the edges of sbatch's grammar. */
#include "test.h"

#include <signal.h>

#include "base/mem.h"
#include "base/str.h"
#include "recipes/slurm_signal.h"

static void same(const char *text, const char *want)
{
    struct err err = ERR_INIT;
    struct slurm_signal s;
    struct str again = STR_INIT;

    assert_ok(slurm_signal_parse(text, &s, &err), &err);
    slurm_signal_add(&again, &s);
    assert_string_equal(again.text, want);
    str_release(&again);
}

static void test_c14_signals(void **state)
{
    static const char *const bad[] = { "FOO@10", "@60", "USR1@-1" };
    struct err err = ERR_INIT;
    struct slurm_signal s;

    (void)state;
    same("USR1", "USR1@60");
    same("USR1@120", "USR1@120");
    same("B:USR1@120", "B:USR1@120");
    same("R:TERM@60", "R:TERM@60");
    same("RB:10@30", "RB:USR1@30");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(slurm_signal_parse(bad[i], &s, &err), &err, ERR_USAGE, bad[i]);
}

static void test_edges(void **state)
{
    static const char *const bad[] = {
        "",      ":USR1",  "X:USR1",   "USR1@", "USR1@65536", "USR1@1x",      "0@10",
        "65@10", "SIG@10", "USR1 @10", "B:@10", "-1@10",      "99999999999@1"
    };
    struct err err = ERR_INIT;
    struct slurm_signal s;

    (void)state;
    same("SIGUSR2@0", "USR2@0");
    same("usr1@65535", "USR1@65535");
    same("br:sigterm", "RB:TERM@60");
    same("13@5", "PIPE@5");
    same("40@5", "40@5");
    assert_ok(slurm_signal_parse("12", &s, &err), &err);
    assert_int_equal(s.number, SIGUSR2);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(slurm_signal_parse(bad[i], &s, &err), &err, ERR_USAGE, bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_c14_signals),
        cmocka_unit_test(test_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
