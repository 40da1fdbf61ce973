#include <byteswap.h>
#include <endian.h>

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "trainer/shard_format.h"

enum {
    HEADER_WORDS = 256,
    HEADER_BYTES = 1024,
    MAGIC_GPT2 = 20240520,
    MAGIC_LLAMA3 = 20240801,
    MAGIC_EVALUATION = 20240522,
};

static const struct {
    int32_t magic, version;
    const struct token_type *type;
} kinds[] = {
    { MAGIC_GPT2, 1, &token_u16 },
    { MAGIC_LLAMA3, 7, &token_u32 },
};

static int is_magic(uint32_t word)
{
    return word == MAGIC_GPT2 || word == MAGIC_LLAMA3 || word == MAGIC_EVALUATION;
}

static int find_kind(struct shard *s, const uint32_t *header, struct err *err)
{
    uint32_t magic = le32toh(header[0]), version = le32toh(header[1]);

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (magic != (uint32_t)kinds[i].magic)
            continue;
        if (version != (uint32_t)kinds[i].version)
            return err_set(err, ERR_USAGE,
                           "%s: version %d, but magic %d goes with version %d (%s "
                           "tokens)",
                           s->path, (int32_t)version, kinds[i].magic, kinds[i].version,
                           kinds[i].type->name);
        s->type = kinds[i].type;
        return 0;
    }
    if (magic == MAGIC_EVALUATION)
        return err_set(
            err, ERR_USAGE,
            "%s: an evaluation file (magic %d, multiple-choice examples): it "
            "cannot be trained on",
            s->path, MAGIC_EVALUATION);
    if (is_magic(bswap_32(magic)))
        return err_set(err, ERR_USAGE,
                       "%s: the header is big-endian (magic %u with its bytes "
                       "reversed): write the shard on or for a little-endian machine",
                       s->path, bswap_32(magic));
    return err_set(err, ERR_USAGE,
                   "%s: magic %d is not a token shard's (%d GPT-2, %d Llama 3), and no "
                   "Megatron .idx lies beside it",
                   s->path, (int32_t)magic, MAGIC_GPT2, MAGIC_LLAMA3);
}

static const char *size_hint(int64_t bytes, int64_t tokens, int width)
{
    if (width == 4 && bytes == HEADER_BYTES + tokens * 2)
        return ": the tokens are 2 bytes wide, the header says 4";
    if (width == 2 && bytes == HEADER_BYTES + tokens * 4)
        return ": the tokens are 4 bytes wide, the header says 2";
    return bytes < HEADER_BYTES + tokens * width ? ": it was cut short"
                                                 : ": it was written twice or damaged";
}

static int check_size(struct shard *s, int64_t tokens, int64_t bytes, struct err *err)
{
    int width = s->type->bytes;
    int64_t need = HEADER_BYTES + tokens * width, off;

    if (tokens < 0)
        return err_set(err, ERR_USAGE, "%s: token count %lld is negative", s->path,
                       (long long)tokens);
    if (tokens == 0)
        return err_set(err, ERR_USAGE, "%s: holds no tokens (count 0)", s->path);
    off = bytes - need;
    if (off != 0)
        return err_set(err, ERR_USAGE,
                       "%s: %lld bytes, but a header and %lld tokens of %d bytes need "
                       "%lld (%lld %s)%s",
                       s->path, (long long)bytes, (long long)tokens, width,
                       (long long)need, (long long)(off < 0 ? -off : off),
                       off < 0 ? "missing" : "extra", size_hint(bytes, tokens, width));
    return 0;
}

int shard_open_llmc(struct shard *s, const char *path, struct err *err)
{
    uint32_t header[HEADER_WORDS];
    int64_t bytes, tokens;

    s->path = xstrdup(path);
    if (file_open(path, &s->fd, &bytes, err) != 0)
        return -1;
    if (bytes < HEADER_BYTES)
        return err_set(err, ERR_USAGE,
                       "%s: %lld bytes, shorter than the %d-byte header of a token "
                       "shard",
                       path, (long long)bytes, HEADER_BYTES);
    if (file_read(s->fd, path, header, HEADER_BYTES, 0, err) != 0 ||
        find_kind(s, header, err) != 0)
        return -1;
    tokens = (int32_t)le32toh(header[2]);
    if (check_size(s, tokens, bytes, err) != 0)
        return -1;
    s->data_at = HEADER_BYTES;
    s->info = (struct shard_info){ .format = "llm.c",
                                   .token_type = s->type->name,
                                   .token_bytes = s->type->bytes,
                                   .tokens = tokens,
                                   .documents = -1,
                                   .bytes = bytes };
    return 0;
}
