#include "trainer/shard.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "trainer/shard_format.h"

enum { CHUNK_BYTES = 65536, VERIFY_TOKENS = 16384 };

int shard_open(const char *path, struct shard **out, struct err *err)
{
    struct shard *s = xcalloc(1, sizeof(*s));
    char *idx = shard_megatron_index(path);
    int rc;

    s->fd = s->index.fd = -1;
    rc = idx ? shard_open_megatron(s, idx, err) : shard_open_llmc(s, path, err);
    free(idx);
    if (rc != 0) {
        shard_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

void shard_close(struct shard *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    if (s->index.fd >= 0)
        close(s->index.fd);
    free(s->index.path);
    free(s->path);
    free(s);
}

const struct shard_info *shard_info(const struct shard *s)
{
    return &s->info;
}

const char *shard_path(const struct shard *s)
{
    return s->path;
}

int shard_read(const struct shard *s, int64_t from, int64_t n, int32_t *out,
               struct err *err)
{
    char raw[CHUNK_BYTES];
    int64_t width = s->type->bytes, most = CHUNK_BYTES / width;

    while (n > 0) {
        int64_t now = n < most ? n : most;
        if (file_read(s->fd, s->path, raw, (size_t)(now * width),
                      s->data_at + from * width, err) != 0)
            return -1;
        s->type->widen(out, raw, now);
        out += now;
        from += now;
        n -= now;
    }
    return 0;
}

static int bad_token(const struct shard *s, int64_t at, int64_t vocab, struct err *err)
{
    char raw[8];

    if (file_read(s->fd, s->path, raw, (size_t)s->type->bytes,
                  s->data_at + at * s->type->bytes, err) != 0)
        return -1;
    return err_set(
        err, ERR_USAGE,
        "%s: token %lld at index %lld is outside the vocabulary of %lld (0 to "
        "%lld): tokenized for another model, or damaged",
        s->path, (long long)s->type->value(raw), (long long)at, (long long)vocab,
        (long long)vocab - 1);
}

int shard_check(const struct shard *s, int64_t from, int64_t n, const int32_t *tok,
                int64_t vocab, struct err *err)
{
    int bad = 0;

    /* One branch-free pass; only a bad sample is searched. */
    for (int64_t i = 0; i < n; i++)
        bad |= (uint32_t)tok[i] >= (uint64_t)vocab;
    for (int64_t i = 0; bad && i < n; i++)
        if ((uint32_t)tok[i] >= (uint64_t)vocab)
            return bad_token(s, from + i, vocab, err);
    return 0;
}

int shard_verify(const struct shard *s, int64_t vocab, int32_t *highest,
                 struct err *err)
{
    int32_t tok[VERIFY_TOKENS], top = 0;
    int64_t limit = vocab > 0 ? vocab : (int64_t)INT32_MAX + 1;

    for (int64_t at = 0; at < s->info.tokens; at += VERIFY_TOKENS) {
        int64_t n = s->info.tokens - at;
        if (n > VERIFY_TOKENS)
            n = VERIFY_TOKENS;
        if (shard_read(s, at, n, tok, err) != 0 ||
            shard_check(s, at, n, tok, limit, err) != 0)
            return -1;
        for (int64_t i = 0; i < n; i++)
            top = tok[i] > top ? tok[i] : top;
    }
    *highest = top;
    return 0;
}
