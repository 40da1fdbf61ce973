/* line: whole lines out of halves, bytes unchanged (case C18). */
#include "test.h"

#include "base/mem.h"
#include "launcher/line.h"

struct got {
    struct str all;
    int n;
    size_t longest;
};

static void collect(void *arg, const char *bytes, size_t n)
{
    struct got *g = arg;

    str_add(&g->all, bytes, n);
    str_add(&g->all, "|", 1);
    g->n++;
    g->longest = n > g->longest ? n : g->longest;
}

static char *lines(int redraws, const char *const *pieces, int n)
{
    struct line_buffer b = { .redraws = redraws };
    struct got g = { .n = 0 };

    for (int i = 0; i < n; i++)
        line_feed(&b, pieces[i], strlen(pieces[i]), collect, &g);
    line_finish(&b, collect, &g);
    str_release(&b.held);
    return str_take(&g.all);
}

#define assert_lines(redraws, want, ...)                                \
    do {                                                                \
        const char *p_[] = { __VA_ARGS__ };                             \
        char *t_ = lines(redraws, p_, (int)(sizeof(p_) / sizeof(*p_))); \
        assert_string_equal(t_, want);                                  \
        free(t_);                                                       \
    } while (0)

static void test_halves_and_rests(void **state)
{
    (void)state;
    assert_lines(0, "one\n|two\n|", "on", "e\ntw", "o\n");
    assert_lines(0, "\n|\n|rest|", "\n\nre", "st");
    assert_lines(0, "", "");
    assert_lines(0, "a\rb\r\n|c\r|", "a\rb", "\r\nc\r");
}

static void test_any_bytes(void **state)
{
    const char bytes[] = "\xff\0\xfe\n\0";
    struct line_buffer b = { .redraws = 0 };
    struct got g = { .n = 0 };

    (void)state;
    for (size_t i = 0; i < 5; i++)
        line_feed(&b, bytes + i, 1, collect, &g);
    line_finish(&b, collect, &g);
    assert_int_equal(g.n, 2);
    assert_memory_equal(g.all.text, "\xff\0\xfe\n|\0|", 7);
    str_release(&b.held);
    str_release(&g.all);
}

static void test_redraws_move(void **state)
{
    (void)state;
    /* of several redraws in one read, the last that is complete is shown */
    assert_lines(1, "2%|3|", "1%\r2%\r3", "");
    assert_lines(1, "1%|2%|3%\n|", "1%\r2", "%\r3%", "\n");
    assert_lines(1, "done\n|", "1%\r", "2%\rdone\n");
    /* "\r\n" is a line end, even cut in two */
    assert_lines(1, "a\r\n|b\n|", "a\r", "\nb\n");
    assert_lines(1, "a|b|", "\ra\r", "b");
}

static void test_endless_line_is_bounded(void **state)
{
    struct line_buffer b = { .redraws = 0 };
    struct got g = { .n = 0 };
    char *block = xcalloc(1, 65536);
    size_t total = 0;

    (void)state;
    memset(block, 'x', 65536);
    for (int i = 0; i < 40; i++) {
        line_feed(&b, block, 65536, collect, &g);
        total += 65536;
        assert_true(b.held.len < LINE_LIMIT);
    }
    line_finish(&b, collect, &g);
    assert_int_equal(g.all.len - (size_t)g.n, total);
    assert_true(g.longest <= LINE_LIMIT + 65536);
    free(block);
    str_release(&b.held);
    str_release(&g.all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves_and_rests),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_redraws_move),
        cmocka_unit_test(test_endless_line_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
