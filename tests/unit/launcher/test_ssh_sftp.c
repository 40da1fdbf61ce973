/* SFTP packets as bytes. */
#include "base/str.h"
#include "launcher/ssh_sftp.h"
#include "test.h"

static struct str bytes(const char *text, size_t n)
{
    struct str s = STR_INIT;

    str_add(&s, text, n);
    return s;
}

#define LITERAL(text) bytes(text, sizeof(text) - 1)

static void test_request(void **state)
{
    static const char want[] = "\0\0\0\x12\x0e\0\0\0\x07\0\0\0\x01x\0\0\0\4\0\0\1\300";
    struct str out = STR_INIT;
    size_t b = sftp_begin(&out, SFTP_MKDIR, 7);

    (void)state;
    sftp_add_text(&out, "x");
    sftp_add_u32(&out, SFTP_ATTR_MODE);
    sftp_add_u32(&out, 0700);
    sftp_end(&out, b);
    assert_int_equal(out.len, sizeof(want) - 1);
    assert_memory_equal(out.text, want, out.len);
    str_release(&out);
}

/* statvfs@openssh.com: eleven numbers, of which the unit and the free blocks count. */
static void test_room(void **state)
{
    struct str in = STR_INIT;
    struct err err = ERR_INIT;
    struct sftp_reply r;
    size_t b = sftp_begin(&in, SFTP_EXTENDED_REPLY, 3);

    (void)state;
    for (uint64_t i = 0; i < 11; i++)
        sftp_add_u64(&in, i == 0 ? 1 : i == 1 ? 4096 : i == 4 ? 1000 : 77);
    sftp_end(&in, b);
    assert_int_equal(sftp_parse(&in, &r, &err), 1);
    assert_int_equal(r.type, SFTP_EXTENDED_REPLY);
    assert_int_equal(r.room, 4096000);
    str_clear(&in);
    b = sftp_begin(&in, SFTP_EXTENDED_REPLY, 3);
    for (int i = 0; i < 11; i++)
        sftp_add_u64(&in, UINT64_MAX);
    sftp_end(&in, b);
    assert_int_equal(sftp_parse(&in, &r, &err), 1);
    assert_true(r.room == UINT64_MAX);
    str_clear(&in);
    b = sftp_begin(&in, SFTP_EXTENDED_REPLY, 3);
    sftp_add_u64(&in, 1);
    sftp_end(&in, b);
    assert_err(sftp_parse(&in, &r, &err), &err, ERR_SYSTEM, "cut short");
    str_release(&in);
}

static void test_replies(void **state)
{
    struct str in = LITERAL("\0\0\0\x11\x65\0\0\0\x09\0\0\0\3\0\0\0\4no\ng");
    struct err err = ERR_INIT;
    struct sftp_reply r;

    (void)state;
    assert_int_equal(sftp_parse(&in, &r, &err), 1);
    assert_int_equal(r.type, SFTP_STATUS);
    assert_int_equal(r.id, 9);
    assert_int_equal(r.status, 3);
    assert_string_equal(r.message, "no?g");
    str_release(&in);

    in = LITERAL("\0\0\0\x0b\x66\0\0\0\x0a\0\0\0\2hh");
    assert_int_equal(sftp_parse(&in, &r, &err), 1);
    assert_int_equal(r.handle_bytes, 2);
    sftp_drop(&in, &r);
    assert_int_equal(in.len, 0);
    assert_int_equal(sftp_parse(&in, &r, &err), 0);
    str_release(&in);

    in = LITERAL("\0\0\0\x15\x69\0\0\0\1\0\0\0\5\0\0\0\1\0\0\0\2\0\0\x81\xc0");
    assert_int_equal(sftp_parse(&in, &r, &err), 1);
    assert_true(r.has_size && r.has_mode);
    assert_int_equal(r.size, (1LL << 32) + 2);
    assert_int_equal(r.mode, 0100700);
    str_release(&in);
}

static void test_version(void **state)
{
    struct str in = STR_INIT;
    struct err err = ERR_INIT;
    struct sftp_reply r;
    size_t b = sftp_begin(&in, SFTP_VERSION, 3);

    (void)state;
    sftp_add_text(&in, "other@x");
    sftp_add_text(&in, "1");
    sftp_add_text(&in, "posix-rename@openssh.com");
    sftp_add_text(&in, "1");
    sftp_end(&in, b);
    assert_int_equal(sftp_parse(&in, &r, &err), 1);
    assert_int_equal(r.version, 3);
    assert_int_equal(r.posix_rename, 1);
    for (size_t n = 0; n < in.len; n++) {
        struct str part = bytes(in.text, n);
        assert_int_equal(sftp_parse(&part, &r, &err), 0);
        str_release(&part);
    }
    str_release(&in);
}

static void test_malformed(void **state)
{
    struct str short_length = LITERAL("\0\0\0\4\x65\0\0\0"),
               text = LITERAL("Welcome to gn01\n"),
               cut = LITERAL("\0\0\0\x0b\x66\0\0\0\x0a\0\0\0\3hh");
    struct err err = ERR_INIT;
    struct sftp_reply r;

    (void)state;
    assert_err(sftp_parse(&short_length, &r, &err), &err, ERR_SYSTEM, "no SFTP server");
    assert_err(sftp_parse(&text, &r, &err), &err, ERR_SYSTEM, "no SFTP server");
    assert_err(sftp_parse(&cut, &r, &err), &err, ERR_SYSTEM, "cut short");
    str_release(&short_length);
    str_release(&text);
    str_release(&cut);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_request),   cmocka_unit_test(test_replies),
        cmocka_unit_test(test_room),      cmocka_unit_test(test_version),
        cmocka_unit_test(test_malformed),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
