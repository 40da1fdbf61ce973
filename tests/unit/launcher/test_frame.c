/* frame: messages come out as they went in, however the stream is cut, and no length
 * of the peer's is believed. */
#include "test.h"

#include <fcntl.h>
#include <unistd.h>

#include "launcher/frame.h"

static void write_some(struct frame_out *o)
{
    frame_begin(o, FRAME_OUT);
    frame_add_u32(o, 7);
    frame_add_piece(o, "a\0b\n", 4);
    assert_int_equal(frame_end(o, NULL), 0);
    frame_put_u32(o, FRAME_SIGNAL, 10);
    frame_put(o, FRAME_ALIVE);
    frame_begin(o, FRAME_GO);
    frame_add_u64(o, 0x1122334455667788);
    frame_add_text(o, "naïve");
    frame_add_text(o, NULL);
    assert_int_equal(frame_end(o, NULL), 0);
}

static int read_some(struct frame_in *in, int n)
{
    struct frame f;
    size_t len;
    int rc;

    while ((rc = frame_next(in, &f, NULL)) == 1) {
        switch (n++) {
        case 0:
            assert_int_equal(f.type, FRAME_OUT);
            assert_int_equal(frame_u32(&f), 7);
            assert_memory_equal(frame_piece(&f, &len), "a\0b\n", 4);
            assert_int_equal(len, 4);
            break;
        case 1:
            assert_int_equal(f.type, FRAME_SIGNAL);
            assert_int_equal(frame_u32(&f), 10);
            break;
        case 2:
            assert_int_equal(f.type, FRAME_ALIVE);
            break;
        default:
            assert_int_equal(f.type, FRAME_GO);
            assert_true(frame_u64(&f) == 0x1122334455667788);
            assert_string_equal(frame_text(&f), "naïve");
            assert_string_equal(frame_text(&f), "");
        }
        assert_int_equal(frame_done(&f, NULL), 0);
    }
    assert_int_equal(rc, 0);
    return n;
}

static void test_any_cut(void **state)
{
    struct frame_out o = { .sent = 0 };

    (void)state;
    write_some(&o);
    for (size_t step = 1; step < 40; step++) {
        struct frame_in in = { .greeted = 1 };
        int n = 0;
        for (size_t at = 0; at < o.bytes.len; at += step) {
            size_t left = o.bytes.len - at;
            frame_feed(&in, o.bytes.text + at, left < step ? left : step);
            n = read_some(&in, n);
        }
        assert_int_equal(n, 4);
        frame_in_release(&in);
    }
    frame_out_release(&o);
}

static void test_greeting(void **state)
{
    const char noise[] = "Welcome to node1!\nfortune: muster-agent\n";
    struct frame_in in = { .used = 0 };
    struct err err = ERR_INIT;
    struct frame f;

    (void)state;
    frame_feed(&in, noise, sizeof(noise) - 1);
    assert_int_equal(frame_next(&in, &f, &err), 0);
    frame_feed(&in, FRAME_GREETING, sizeof(FRAME_GREETING) - 1);
    assert_int_equal(frame_next(&in, &f, &err), 0);
    frame_feed(&in, "\0\0\0\0\x1a\0\0\0", 8);
    assert_int_equal(frame_next(&in, &f, &err), 1);
    assert_int_equal(f.type, FRAME_ALIVE);
    frame_in_release(&in);
    for (int i = 0; i <= FRAME_NOISE / (int)(sizeof(noise) - 1); i++)
        frame_feed(&in, noise, sizeof(noise) - 1);
    assert_err(frame_next(&in, &f, &err), &err, ERR_FAILED, "Welcome to node1!");
    frame_in_release(&in);
}

static void feed_head(struct frame_in *in, uint32_t n, uint32_t type)
{
    unsigned char head[8];

    for (int i = 0; i < 4; i++) {
        head[i] = (unsigned char)(n >> 8 * i);
        head[4 + i] = (unsigned char)(type >> 8 * i);
    }
    frame_feed(in, head, sizeof(head));
}

static void test_lengths_are_not_believed(void **state)
{
    static const uint32_t bad[][2] = {
        { 65, FRAME_SIGNAL },
        { UINT32_MAX, FRAME_FENCE },
        { 0, FRAME_NONE },
        { 0, FRAME_TYPES },
        { 0, 0x4d4f5444 },
        { 1 << 17, FRAME_OUT },
        { (1 << 28) + 1, FRAME_JOB },
    };
    struct err err = ERR_INIT;
    struct frame f;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct frame_in in = { .greeted = 1 };
        feed_head(&in, bad[i][0], bad[i][1]);
        assert_err(frame_next(&in, &f, &err), &err, ERR_FAILED, "none of muster's");
        frame_in_release(&in);
    }
}

static void test_parts_are_checked(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
    } bad[] = {
        { "\4\0\0\0abc", 7 },      /* a piece longer than the frame */
        { "\377\377\377\377", 4 }, /* ... much longer */
        { "\3\0\0\0abc", 7 },      /* a text without NUL */
        { "\4\0\0\0a\0b", 8 },     /* ... with two */
        { "\0\0\0\0", 4 },         /* ... of nothing */
        { "\2\0\0\0a\0x", 7 },     /* something behind it */
        { "", 0 },
    };
    struct err err = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct frame f = { .type = FRAME_GO,
                           .at = (const unsigned char *)bad[i].bytes,
                           .left = bad[i].n };
        frame_text(&f);
        assert_err(frame_done(&f, &err), &err, ERR_FAILED, "GO message is malformed");
    }
}

static void test_too_large_is_not_sent(void **state)
{
    static char big[FRAME_NOISE + 1];
    struct frame_out o = { .sent = 0 };
    struct err err = ERR_INIT;

    (void)state;
    frame_put(&o, FRAME_ALIVE);
    frame_begin(&o, FRAME_OUT);
    frame_add_u32(&o, 0);
    frame_add_piece(&o, big, sizeof(big));
    assert_err(frame_end(&o, &err), &err, ERR_SYSTEM, "OUT message of 65545 bytes");
    assert_int_equal(frame_pending(&o), 8);
    frame_out_release(&o);
}

static void test_through_a_pipe(void **state)
{
    static char piece[60000];
    struct frame_out o = { .sent = 0 };
    struct frame_in in = { .greeted = 1 };
    struct frame f;
    size_t len;
    int fd[2], n = 0;

    (void)state;
    assert_int_equal(pipe2(fd, O_NONBLOCK), 0);
    for (int i = 0; i < 50; i++) {
        memset(piece, i, sizeof(piece));
        frame_begin(&o, FRAME_ERR);
        frame_add_u32(&o, (uint32_t)i);
        frame_add_piece(&o, piece, sizeof(piece));
        assert_int_equal(frame_end(&o, NULL), 0);
    }
    while (n < 50) {
        assert_int_equal(frame_flush(&o, fd[1]), 0);
        assert_true(frame_read(&in, fd[0]) >= 0);
        for (; frame_next(&in, &f, NULL) == 1; n++) {
            assert_int_equal(frame_u32(&f), n);
            assert_int_equal(frame_piece(&f, &len)[59999], n);
        }
    }
    assert_int_equal(frame_pending(&o), 0);
    assert_int_equal(frame_read(&in, fd[0]), 0);
    close(fd[1]);
    assert_int_equal(frame_read(&in, fd[0]), -1);
    close(fd[0]);
    frame_out_release(&o);
    frame_in_release(&in);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_greeting),
        cmocka_unit_test(test_lengths_are_not_believed),
        cmocka_unit_test(test_parts_are_checked),
        cmocka_unit_test(test_too_large_is_not_sent),
        cmocka_unit_test(test_through_a_pipe),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
