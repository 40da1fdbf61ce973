/* What is copied to hosts: libraries a file asks for, and those a host has itself. */
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/bundle.h"
#include "launcher/elf_needs.h"
#include "test.h"

static int has(const struct strlist *l, const char *begin)
{
    for (int i = 0; i < l->n; i++)
        if (strncmp(l->item[i], begin, strlen(begin)) == 0)
            return 1;
    return 0;
}

static void test_needs(void **state)
{
    struct strlist l = { 0 };
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(elf_needs("/proc/self/exe", &l, &err), &err);
    assert_true(has(&l, "libc.so."));
    assert_true(has(&l, "libcmocka.so."));
    strlist_release(&l);
    assert_err(elf_needs("/none", &l, &err), &err, ERR_MISSING, "/none");
    assert_err(elf_needs("/etc/passwd", &l, &err), &err, ERR_USAGE, "no 64-bit ELF");
}

/* Any cut and any byte turned round gives an answer or an error, never a wild read. */
static void test_damaged(void **state)
{
    char head[8192], path[] = "/tmp/test_bundle.XXXXXX";
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), out = mkstemp(path);
    struct strlist l = { 0 };
    ssize_t n = read(in, head, sizeof(head));

    (void)state;
    assert_int_equal(n, sizeof(head));
    for (ssize_t at = 0; at < 1024; at += at < 256 ? 1 : 16) {
        head[at] ^= (char)0xff;
        assert_int_equal(pwrite(out, head, (size_t)n, 0), n);
        elf_needs(path, &l, NULL);
        head[at] ^= (char)0xff;
    }
    for (off_t cut = 0; cut < n; cut += 97) {
        assert_int_equal(ftruncate(out, cut), 0);
        elf_needs(path, &l, NULL);
        assert_int_equal(pwrite(out, head, (size_t)n, 0), n);
    }
    strlist_release(&l);
    close(in);
    close(out);
    unlink(path);
}

static void test_system(void **state)
{
    (void)state;
    assert_true(bundle_is_system("libc.so.6"));
    assert_true(bundle_is_system("libpthread.so.0"));
    assert_true(bundle_is_system("libcuda.so.1"));
    assert_true(bundle_is_system("libnvidia-ml.so.1"));
    assert_false(bundle_is_system("libcudart.so.12"));
    assert_false(bundle_is_system("libcrypto.so.3"));
    assert_false(bundle_is_system("libcublas.so.12"));
    assert_false(bundle_is_system("libmpi.so.40"));
    assert_false(bundle_is_system("libgcc_s.so.1"));
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_needs),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_system),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
