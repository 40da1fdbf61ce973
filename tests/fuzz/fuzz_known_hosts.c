/* known_hosts: any bytes give a verdict, and never "known" for a key they do not hold. */
#include "base/err.h"
#include "base/str.h"
#include "fuzz.h"
#include "launcher/ssh_known.h"

/* No input holds it: an ed25519 key of 32 random bytes. */
#define STRANGER "AAAAC3NzaC1lZDI1NTE5AAAAIJ2k1c9S8Q0fX7hYwz4mU3vNq5rLb6tGdEoPiAxCjKyW"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        const char *host;
        int port;
    } asked[] = { { "node1", 22 }, { "10.99.0.1", 2200 }, { "alias", 0 } };
    struct strlist files = { 0 };
    char path[64];
    int fd;

    if (size > 65536 || memmem(data, size, &STRANGER[30], 20))
        return 0;
    fd = fuzz_file(data, size, path);
    strlist_add(&files, path);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        struct strlist types = { 0 };
        struct err err = ERR_INIT;
        struct ssh_known k;
        if (ssh_known_check(&files, asked[i].host, asked[i].port, "ssh-ed25519",
                            STRANGER, &k, &err) < 0)
            abort();
        if (k.verdict == SSH_KNOWN_OK || k.verdict == SSH_KNOWN_REVOKED ||
            (k.verdict != SSH_KNOWN_UNKNOWN && (!k.file || k.line < 1)))
            abort();
        ssh_known_release(&k);
        if (ssh_known_types(&files, asked[i].host, asked[i].port, &types, &err) < 0)
            abort();
        strlist_release(&types);
    }
    strlist_release(&files);
    close(fd);
    return 0;
}
