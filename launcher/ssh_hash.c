#include "launcher/ssh_hash.h"

#include <string.h>

#if HAVE_LIBSSH
#include <openssl/evp.h>
#include <openssl/hmac.h>

int ssh_hash_name(const uint8_t salt[SSH_HASH_BYTES], const char *name,
                  uint8_t out[SSH_HASH_BYTES])
{
    unsigned n = SSH_HASH_BYTES;

    return HMAC(EVP_sha1(), salt, SSH_HASH_BYTES, (const unsigned char *)name,
                strlen(name), out, &n)
               ? 0
               : -1;
}
#else
int ssh_hash_name(const uint8_t salt[SSH_HASH_BYTES], const char *name,
                  uint8_t out[SSH_HASH_BYTES])
{
    (void)salt;
    (void)name;
    (void)out;
    return -1;
}
#endif

static int digit(char c)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

long ssh_base64(const char *text, size_t n, uint8_t *out, size_t room)
{
    uint32_t bits = 0;
    size_t bytes = 0;

    if (n % 4 != 0)
        return -1;
    for (int i = 0; i < 2 && n && text[n - 1] == '='; i++)
        n--;
    for (size_t i = 0; i < n; i++) {
        int d = digit(text[i]);
        if (d < 0)
            return -1;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4 == 0)
            continue;
        if (bytes >= room)
            return -1;
        out[bytes++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return (long)bytes;
}
