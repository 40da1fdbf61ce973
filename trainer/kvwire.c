#include "trainer/kvwire.h"

#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

enum { HEAD = 16 };
const char kv_magic[KV_MAGIC + 1] = "MUSTER1\n";

static uint32_t get32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return le32toh(v);
}

static void add32(struct str *out, uint32_t v)
{
    v = htole32(v);
    str_add(out, (const char *)&v, 4);
}

void kv_append(struct str *out, enum kv_type type, uint32_t rank, const char *key,
               const void *value, size_t n)
{
    size_t key_len = strlen(key);

    add32(out, type);
    add32(out, rank);
    add32(out, (uint32_t)key_len);
    add32(out, (uint32_t)n);
    str_add(out, key, key_len);
    if (n)
        str_add(out, value, n);
}

long kv_parse(char *buf, size_t len, struct kv_frame *f)
{
    size_t whole;

    if (len < HEAD)
        return 0;
    f->type = get32(buf);
    f->rank = get32(buf + 4);
    f->key_len = get32(buf + 8);
    f->value_len = get32(buf + 12);
    if (f->type < KV_HELLO || f->type > KV_BYE || f->key_len > KV_MAX_KEY ||
        f->value_len > KV_MAX_VALUE)
        return -1;
    whole = HEAD + (size_t)f->key_len + f->value_len;
    if (len < whole)
        return 0;
    f->key = buf + HEAD;
    f->value = f->key + f->key_len;
    return (long)whole;
}

static uint64_t rotl(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1], v[1] = rotl(v[1], 13) ^ v[0], v[0] = rotl(v[0], 32);
    v[2] += v[3], v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotl(v[1], 17) ^ v[2], v[2] = rotl(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t m)
{
    v[3] ^= m;
    sip_round(v);
    sip_round(v);
    v[0] ^= m;
}

uint64_t kv_siphash(struct kv_key key, const void *bytes, size_t n)
{
    uint64_t v[4] = { key.k0 ^ 0x736f6d6570736575, key.k1 ^ 0x646f72616e646f6d,
                      key.k0 ^ 0x6c7967656e657261, key.k1 ^ 0x7465646279746573 };
    const unsigned char *p = bytes;
    uint64_t last = (uint64_t)n << 56, m;
    size_t i;

    for (i = 0; i + 8 <= n; i += 8) {
        memcpy(&m, p + i, 8);
        sip_word(v, le64toh(m));
    }
    for (size_t j = i; j < n; j++)
        last |= (uint64_t)p[j] << 8 * (j - i);
    sip_word(v, last);
    v[2] ^= 0xff;
    for (i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static const char *env_or_none(const char *name)
{
    const char *v = getenv(name);

    return v ? v : "";
}

struct kv_key kv_key_of(const char *text)
{
    const struct kv_key low = { 1, 2 }, high = { 3, 4 };

    return (struct kv_key){ kv_siphash(low, text, strlen(text)),
                            kv_siphash(high, text, strlen(text)) };
}

struct kv_key kv_job_key(int port)
{
    const char *secret = getenv("MUSTER_JOB_KEY");
    char *text =
        secret ? xstrdup(secret)
               : xasprintf("%d:%s:%s.%s", port, env_or_none("TORCHELASTIC_RUN_ID"),
                           env_or_none("SLURM_JOB_ID"), env_or_none("SLURM_STEP_ID"));
    struct kv_key key = kv_key_of(text);

    free(text);
    return key;
}

void kv_random(void *bytes, size_t n)
{
    struct timespec t;

    if (getrandom(bytes, n, 0) == (ssize_t)n)
        return;
    /* Seccomp may forbid it.  A challenge must differ, not be secret. */
    clock_gettime(CLOCK_REALTIME, &t);
    for (size_t i = 0; i < n; i++) {
        struct kv_key key = { (uint64_t)t.tv_nsec, (uint64_t)getpid() };

        ((unsigned char *)bytes)[i] = (unsigned char)kv_siphash(key, &i, sizeof(i));
    }
}

void kv_proof(struct kv_key key, char who, const unsigned char *store,
              const unsigned char *rank, unsigned char proof[KV_PROOF])
{
    unsigned char text[1 + 2 * KV_CHALLENGE];
    uint64_t h;

    text[0] = (unsigned char)who;
    memcpy(text + 1, store, KV_CHALLENGE);
    memcpy(text + 1 + KV_CHALLENGE, rank, KV_CHALLENGE);
    h = htole64(kv_siphash(key, text, sizeof(text)));
    memcpy(proof, &h, KV_PROOF);
}
