/* known_hosts: what is known, changed, revoked; names plain, hashed and patterns. */
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/ssh_hash.h"
#include "launcher/ssh_known.h"
#include "launcher/ssh_words.h"
#include "test.h"

/* made by ssh-keygen -t ed25519 and -t ecdsa */
#define KEY_1 "AAAAC3NzaC1lZDI1NTE5AAAAIG1aJE2EsuwqUJ27kDiATn4RzS6IO8tmBpqiVgwLpoDS"
#define KEY_2 "AAAAC3NzaC1lZDI1NTE5AAAAIAL+YUT//r7Foh140cM+Sde52qraJ4Wo0DYa/ylatNHP"
#define ECDSA                                                                \
    "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBJTOz+t3r1OQML47Eq" \
    "4ft1qMdCn3jiUmI7kkm7BkVWfG7eyZMp0OeCN6sdB8AnlNldmzL5Tji1BoXB3w5iSElFA="

static char path[] = "/tmp/test_ssh_known_XXXXXX";

static void write_known(const char *text)
{
    FILE *fp = fopen(path, "w");

    assert_non_null(fp);
    fputs(text, fp);
    fclose(fp);
}

/* The verdict of this text on one key; *line of the entry. */
static enum ssh_known_verdict verdict(const char *text, const char *host, int port,
                                      const char *type, const char *key, int *line)
{
    struct strlist files = { 0 };
    struct err err = ERR_INIT;
    struct ssh_known k;
    enum ssh_known_verdict v;

    write_known(text);
    strlist_add(&files, "/nonexistent/known_hosts");
    strlist_add(&files, path);
    assert_ok(ssh_known_check(&files, host, port, type, key, &k, &err), &err);
    v = k.verdict;
    if (line)
        *line = k.line;
    ssh_known_release(&k);
    strlist_release(&files);
    return v;
}

#define ED "ssh-ed25519"
#define assert_verdict(text, host, port, key, want) \
    assert_int_equal(verdict(text, host, port, ED, key, NULL), want)

static void test_plain(void **state)
{
    const char *one = "# x\n\nn1,10.0.0.1 " ED " " KEY_1 " comment\n";
    int line = 0;

    (void)state;
    assert_verdict(one, "n1", 22, KEY_1, SSH_KNOWN_OK);
    assert_verdict(one, "N1", 22, KEY_1, SSH_KNOWN_OK);
    assert_verdict(one, "10.0.0.1", 22, KEY_1, SSH_KNOWN_OK);
    assert_verdict(one, "n2", 22, KEY_1, SSH_KNOWN_UNKNOWN);
    assert_verdict(one, "n", 22, KEY_1, SSH_KNOWN_UNKNOWN);
    assert_int_equal(verdict(one, "n1", 22, ED, KEY_2, &line), SSH_KNOWN_CHANGED);
    assert_int_equal(line, 3);
    assert_int_equal(verdict(one, "n1", 22, "ecdsa-sha2-nistp256", ECDSA, &line),
                     SSH_KNOWN_OTHER);
    assert_int_equal(line, 3);
    /* a second entry with the right key makes it right */
    assert_verdict("n1 " ED " " KEY_2 "\nn1 " ED " " KEY_1 "\n", "n1", 22, KEY_1,
                   SSH_KNOWN_OK);
}

static void test_ports(void **state)
{
    (void)state;
    assert_verdict("[n1]:2200 " ED " " KEY_1 "\n", "n1", 2200, KEY_1, SSH_KNOWN_OK);
    assert_verdict("[n1]:2200 " ED " " KEY_1 "\n", "n1", 22, KEY_1, SSH_KNOWN_UNKNOWN);
    assert_verdict("[n1]:2200 " ED " " KEY_1 "\n", "n1", 2201, KEY_1,
                   SSH_KNOWN_UNKNOWN);
    /* the plain name will do for the very key, and only then */
    assert_verdict("n1 " ED " " KEY_1 "\n", "n1", 2200, KEY_1, SSH_KNOWN_OK);
    assert_verdict("n1 " ED " " KEY_1 "\n", "n1", 2200, KEY_2, SSH_KNOWN_UNKNOWN);
    assert_verdict("[n1]:2200 " ED " " KEY_2 "\nn1 " ED " " KEY_1 "\n", "n1", 2200,
                   KEY_1, SSH_KNOWN_CHANGED);
}

static void test_patterns(void **state)
{
    const char *some = "n*,!n1,!*x " ED " " KEY_1 "\n";

    (void)state;
    assert_verdict(some, "n2", 22, KEY_1, SSH_KNOWN_OK);
    assert_verdict(some, "n1", 22, KEY_1, SSH_KNOWN_UNKNOWN);
    assert_verdict(some, "nx", 22, KEY_1, SSH_KNOWN_UNKNOWN);
    assert_verdict("!n1,n* " ED " " KEY_1 "\n", "n1", 22, KEY_1, SSH_KNOWN_UNKNOWN);
    assert_verdict("n?? " ED " " KEY_1 "\n", "n1", 22, KEY_1, SSH_KNOWN_UNKNOWN);
    assert_verdict("n?? " ED " " KEY_1 "\n", "n12", 22, KEY_1, SSH_KNOWN_OK);
    assert_verdict("[*]:22?? " ED " " KEY_1 "\n", "n1", 2201, KEY_1, SSH_KNOWN_OK);
}

static void test_markers(void **state)
{
    const char *revoked = "n1 " ED " " KEY_1 "\n@revoked * " ED " " KEY_1 "\n";
    int line = 0;

    (void)state;
    assert_int_equal(verdict(revoked, "n1", 22, ED, KEY_1, &line), SSH_KNOWN_REVOKED);
    assert_int_equal(line, 2);
    assert_verdict(revoked, "n1", 2200, KEY_1, SSH_KNOWN_REVOKED);
    /* another key of the host is none of its business */
    assert_verdict("@revoked n1 " ED " " KEY_2 "\nn1 " ED " " KEY_1 "\n", "n1", 22,
                   KEY_1, SSH_KNOWN_OK);
    assert_verdict("@revoked n2 " ED " " KEY_1 "\nn1 " ED " " KEY_1 "\n", "n1", 22,
                   KEY_1, SSH_KNOWN_OK);
    assert_verdict("@revoked n1 " ED " " KEY_1 "\n", "n1", 22, KEY_2,
                   SSH_KNOWN_UNKNOWN);
    assert_verdict("@cert-authority * " ED " " KEY_1 "\n", "n1", 22, KEY_1,
                   SSH_KNOWN_UNKNOWN);
    assert_verdict("@unheard-of n1 " ED " " KEY_1 "\n", "n1", 22, KEY_1,
                   SSH_KNOWN_UNKNOWN);
}

static void test_malformed(void **state)
{
    (void)state;
    assert_verdict("n1\nn1 " ED "\nn1 " ED " !!!!\nn1 1024 35 12345\n", "n1", 22, KEY_1,
                   SSH_KNOWN_UNKNOWN);
    /* the type beside the key is not the key's */
    assert_verdict("n1 ssh-rsa " KEY_1 "\n", "n1", 22, KEY_1, SSH_KNOWN_UNKNOWN);
    assert_verdict("|1|AAAA|BBBB " ED " " KEY_1 "\n|2|x " ED " " KEY_1 "\n", "n1", 22,
                   KEY_1, SSH_KNOWN_UNKNOWN);
    assert_verdict("n1 " ED " " KEY_1, "n1", 22, KEY_1, SSH_KNOWN_OK); /* no newline */
    assert_verdict("n1\t" ED "\t" KEY_1 "\r\n", "n1", 22, KEY_1, SSH_KNOWN_OK);
}

/* ssh-keygen -H of "gn01" and "[gn01]:2200", and the tag of RFC 2202's kind by hand:
 * python3 -c 'hmac.new(salt, b"gn01", "sha1")' gives the same. */
static void test_hashed(void **state)
{
    uint8_t salt[SSH_HASH_BYTES], out[SSH_HASH_BYTES], want[SSH_HASH_BYTES];

    (void)state;
    for (int i = 0; i < SSH_HASH_BYTES; i++)
        salt[i] = (uint8_t)i;
    if (ssh_hash_name(salt, "gn01", out) < 0)
        skip();
    assert_int_equal(ssh_base64("6Bha1xUG6EJa+U29BvHn0C/T+y8=", 28, want, 20), 20);
    assert_memory_equal(out, want, 20);
    assert_verdict("|1|AAECAwQFBgcICQoLDA0ODxAREhM=|6Bha1xUG6EJa+U29BvHn0C/T+y8= " ED
                   " " KEY_1 "\n",
                   "gn01", 22, KEY_1, SSH_KNOWN_OK);
    assert_verdict("|1|AAECAwQFBgcICQoLDA0ODxAREhM=|6Bha1xUG6EJa+U29BvHn0C/T+y8= " ED
                   " " KEY_1 "\n",
                   "gn02", 22, KEY_1, SSH_KNOWN_UNKNOWN);
}

static void test_types(void **state)
{
    struct strlist files = { 0 }, types = { 0 };
    struct err err = ERR_INIT;

    (void)state;
    write_known("@revoked n1 ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAAQ==\n"
                "n1 ecdsa-sha2-nistp256 " ECDSA "\nn1 " ED " " KEY_1 "\nn1 " ED
                " " KEY_2 "\n");
    strlist_add(&files, path);
    assert_ok(ssh_known_types(&files, "n1", 2200, &types, &err), &err);
    assert_int_equal(types.n, 2);
    assert_string_equal(types.item[0], "ecdsa-sha2-nistp256");
    assert_string_equal(types.item[1], ED);
    strlist_release(&types);
    strlist_release(&files);
}

static void test_unreadable(void **state)
{
    struct strlist files = { 0 };
    struct err err = ERR_INIT;
    struct ssh_known k;

    (void)state;
    strlist_add(&files, "/");
    assert_err(ssh_known_check(&files, "n1", 22, ED, KEY_1, &k, &err), &err, ERR_SYSTEM,
               "/: cannot be read");
    strlist_release(&files);
}

static void test_base64(void **state)
{
    uint8_t b[4];

    (void)state;
    assert_int_equal(ssh_base64("AAAA", 4, b, 4), 3);
    assert_int_equal(ssh_base64("/w==", 4, b, 4), 1);
    assert_int_equal(b[0], 0xff);
    assert_int_equal(ssh_base64("//8=", 4, b, 4), 2);
    assert_int_equal(ssh_base64("AAA", 3, b, 4), -1);
    assert_int_equal(ssh_base64("AA=A", 4, b, 4), -1);
    assert_int_equal(ssh_base64("AAAAAAAA", 8, b, 4), -1);
    assert_int_equal(ssh_base64("", 0, b, 4), 0);
}

static void test_matching_is_bounded(void **state)
{
    char text[2001], pattern[601];

    (void)state;
    memset(text, 'a', sizeof(text));
    text[2000] = '\0';
    for (int i = 0; i < 600; i += 2)
        memcpy(pattern + i, "*a", 2);
    pattern[599] = 'b';
    pattern[600] = '\0';
    assert_int_equal(ssh_pattern_matches(text, pattern), 0);
    pattern[599] = 'a';
    assert_int_equal(ssh_pattern_matches(text, pattern), 1);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_plain),     cmocka_unit_test(test_ports),
        cmocka_unit_test(test_patterns),  cmocka_unit_test(test_markers),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_hashed),
        cmocka_unit_test(test_types),     cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_base64),    cmocka_unit_test(test_matching_is_bounded),
    };
    int fd = mkstemp(path), rc;

    if (fd < 0)
        return 4;
    close(fd);
    rc = cmocka_run_group_tests(t, NULL, NULL);
    unlink(path);
    return rc;
}
