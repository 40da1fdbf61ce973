#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "trainer/shard_format.h"

/* PREFIX.idx, all little-endian and unaligned:
 *   0  magic[9]   9 u64 version   17 u8 dtype   18 u64 sequences S
 *  26  u64 document marks M   34  i32 lengths[S]   i64 pointers[S]
 *      i64 documents[M], the first 0, the last S   optionally i8 modes[S] */
static const char magic[9] = "MMIDIDX\0";
enum { HEADER_BYTES = 34, VERSION = 1, CHUNK = 4096 };

static const struct token_type *const types[] = {
    NULL,       &token_u8, &token_i8, &token_i16, &token_i32,
    &token_i64, NULL,      NULL,      &token_u16,
};

static uint64_t load64(const void *raw)
{
    uint64_t v;

    memcpy(&v, raw, sizeof(v));
    return le64toh(v);
}

static int begins_with_magic(const char *path)
{
    char head[sizeof(magic)];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), yes;

    if (fd < 0)
        return 0;
    yes = pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
          memcmp(head, magic, sizeof(magic)) == 0;
    close(fd);
    return yes;
}

static int ends_with(const char *text, const char *tail)
{
    size_t n = strlen(text), m = strlen(tail);

    return n > m && strcmp(text + n - m, tail) == 0;
}

/* The path with its last four characters (.bin or .idx) replaced. */
static char *neighbour(const char *path, const char *suffix)
{
    return xasprintf("%.*s%s", (int)strlen(path) - 4, path, suffix);
}

char *shard_megatron_index(const char *path)
{
    char *idx;

    if (ends_with(path, ".idx") || begins_with_magic(path))
        return xstrdup(path);
    if (!ends_with(path, ".bin"))
        return NULL;
    idx = neighbour(path, ".idx");
    if (begins_with_magic(idx))
        return idx;
    free(idx);
    return NULL;
}

static int read_dtype(struct shard *s, int code, struct err *err)
{
    if (code == 6 || code == 7)
        return err_set(err, ERR_USAGE, "%s: dtype %d (float%d) cannot hold token ids",
                       s->index.path, code, code == 6 ? 64 : 32);
    if (code < 0 || code >= (int)ARRAY_LEN(types) || !types[code])
        return err_set(err, ERR_USAGE, "%s: dtype code %d is unknown (1 to 8)",
                       s->index.path, code);
    s->type = types[code];
    return 0;
}

/* The counts against the file's size, in an order that cannot overflow. */
static int read_counts(struct shard *s, uint64_t sequences, uint64_t marks,
                       int64_t bytes, struct err *err)
{
    uint64_t left = (uint64_t)bytes - HEADER_BYTES;
    const char *path = s->index.path;

    if (sequences > left / 12 || marks > (left - 12 * sequences) / 8)
        return err_set(err, ERR_USAGE,
                       "%s: %llu sequences and %llu document marks do not fit its %lld "
                       "bytes: it was cut short",
                       path, (unsigned long long)sequences, (unsigned long long)marks,
                       (long long)bytes);
    left -= 12 * sequences + 8 * marks;
    if (left != 0 && left != sequences)
        return err_set(err, ERR_USAGE,
                       "%s: %llu bytes after the document marks belong to nothing",
                       path, (unsigned long long)left);
    if (sequences == 0)
        return err_set(err, ERR_USAGE, "%s: holds no sequences", path);
    if (marks == 0)
        return err_set(err, ERR_USAGE, "%s: holds no document marks", path);
    s->index.sequences = (int64_t)sequences;
    s->index.pointers_at = HEADER_BYTES + 4 * (int64_t)sequences;
    s->index.documents_at = s->index.pointers_at + 8 * (int64_t)sequences;
    s->info.documents = (int64_t)marks - 1;
    return 0;
}

static int read_head(struct shard *s, int64_t bytes, struct err *err)
{
    unsigned char head[HEADER_BYTES];
    uint64_t version;

    if (bytes < HEADER_BYTES)
        return err_set(err, ERR_USAGE,
                       "%s: %lld bytes, shorter than the %d-byte header of a Megatron "
                       "index",
                       s->index.path, (long long)bytes, HEADER_BYTES);
    if (file_read(s->index.fd, s->index.path, head, HEADER_BYTES, 0, err) != 0)
        return -1;
    if (memcmp(head, magic, sizeof(magic)) != 0)
        return err_set(err, ERR_USAGE,
                       "%s: does not begin with MMIDIDX: not a Megatron index",
                       s->index.path);
    version = load64(head + 9);
    if (version != VERSION)
        return err_set(err, ERR_USAGE, "%s: index version %llu, expected %d",
                       s->index.path, (unsigned long long)version, VERSION);
    if (read_dtype(s, head[17], err) != 0)
        return -1;
    return read_counts(s, load64(head + 18), load64(head + 26), bytes, err);
}

/* Lengths are not negative and each pointer is where the last sequence ended. */
static int check_sequences(struct shard *s, int64_t *data_bytes, struct err *err)
{
    const struct shard_index *x = &s->index;
    int32_t lengths[CHUNK];
    int64_t pointers[CHUNK], at = 0, n;

    for (int64_t i = 0; i < x->sequences; i += n) {
        n = x->sequences - i < CHUNK ? x->sequences - i : CHUNK;
        if (file_read(x->fd, x->path, lengths, (size_t)n * 4, HEADER_BYTES + 4 * i,
                      err) != 0 ||
            file_read(x->fd, x->path, pointers, (size_t)n * 8, x->pointers_at + 8 * i,
                      err) != 0)
            return -1;
        for (int64_t j = 0; j < n; j++) {
            int64_t length = (int32_t)le32toh((uint32_t)lengths[j]);
            int64_t pointer = (int64_t)le64toh((uint64_t)pointers[j]);
            if (length < 0)
                return err_set(err, ERR_USAGE, "%s: sequence %lld has length %lld",
                               x->path, (long long)(i + j), (long long)length);
            if (pointer != at)
                return err_set(err, ERR_USAGE,
                               "%s: sequence %lld points to byte %lld, but the one "
                               "before ends at %lld",
                               x->path, (long long)(i + j), (long long)pointer,
                               (long long)at);
            if (__builtin_add_overflow(at, length * s->type->bytes, &at))
                return err_set(err, ERR_USAGE, "%s: its lengths overflow 64 bits",
                               x->path);
        }
    }
    *data_bytes = at;
    return 0;
}

/* Document marks start at 0, never fall, and end at the last sequence. */
static int check_documents(struct shard *s, struct err *err)
{
    const struct shard_index *x = &s->index;
    int64_t marks[CHUNK], last = 0, n;

    for (int64_t i = 0; i <= s->info.documents; i += n) {
        n = s->info.documents + 1 - i < CHUNK ? s->info.documents + 1 - i : CHUNK;
        if (file_read(x->fd, x->path, marks, (size_t)n * 8, x->documents_at + 8 * i,
                      err) != 0)
            return -1;
        for (int64_t j = 0; j < n; j++) {
            int64_t mark = (int64_t)le64toh((uint64_t)marks[j]);
            if (mark < last || mark > x->sequences || (i + j == 0 && mark != 0))
                return err_set(err, ERR_USAGE,
                               "%s: document mark %lld is %lld, expected %lld to %lld",
                               x->path, (long long)(i + j), (long long)mark,
                               (long long)last,
                               i + j == 0 ? 0 : (long long)x->sequences);
            last = mark;
        }
    }
    if (last != x->sequences)
        return err_set(err, ERR_USAGE,
                       "%s: the last document mark is %lld, expected %lld, the number "
                       "of sequences",
                       x->path, (long long)last, (long long)x->sequences);
    return 0;
}

static int open_data(struct shard *s, int64_t need, int64_t *bytes, struct err *err)
{
    if (file_open(s->path, &s->fd, bytes, err) != 0)
        return err_wrap(err, "%s describes", s->index.path);
    if (*bytes != need)
        return err_set(
            err, ERR_USAGE,
            "%s: %lld bytes, but its index describes %lld (%lld %s): %s", s->path,
            (long long)*bytes, (long long)need, (long long)llabs(*bytes - need),
            *bytes < need ? "missing" : "extra",
            *bytes < need ? "it was cut short" : "the two do not belong together");
    if (need == 0)
        return err_set(err, ERR_USAGE, "%s: holds no tokens", s->path);
    return 0;
}

int shard_open_megatron(struct shard *s, const char *idx_path, struct err *err)
{
    int64_t idx_bytes, need, bytes;

    s->index.path = xstrdup(idx_path);
    s->path = ends_with(idx_path, ".idx") ? neighbour(idx_path, ".bin")
                                          : xasprintf("%s.bin", idx_path);
    if (file_open(idx_path, &s->index.fd, &idx_bytes, err) != 0 ||
        read_head(s, idx_bytes, err) != 0 || check_sequences(s, &need, err) != 0 ||
        check_documents(s, err) != 0 || open_data(s, need, &bytes, err) != 0)
        return -1;
    s->info.format = "megatron";
    s->info.token_type = s->type->name;
    s->info.token_bytes = s->type->bytes;
    s->info.tokens = need / s->type->bytes;
    s->info.bytes = idx_bytes + bytes;
    return 0;
}

/* First token of document i; i = documents gives the end of the data. */
static int document_start(const struct shard *s, int64_t i, int64_t *token,
                          struct err *err)
{
    const struct shard_index *x = &s->index;
    unsigned char raw[8];
    int64_t mark, byte;

    if (file_read(x->fd, x->path, raw, 8, x->documents_at + 8 * i, err) != 0)
        return -1;
    mark = (int64_t)load64(raw);
    *token = s->info.tokens;
    if (mark == x->sequences)
        return 0;
    if (mark < 0 || mark > x->sequences)
        return err_set(err, ERR_USAGE, "%s: changed while in use", x->path);
    if (file_read(x->fd, x->path, raw, 8, x->pointers_at + 8 * mark, err) != 0)
        return -1;
    byte = (int64_t)load64(raw);
    *token = byte / s->type->bytes;
    return 0;
}

int shard_document(const struct shard *s, int64_t at, int64_t *begin, int64_t *end,
                   struct err *err)
{
    int64_t low = 0, high = s->info.documents, first = 0, last = s->info.tokens, t;

    if (high < 0) {
        *begin = 0;
        *end = s->info.tokens;
        return 0;
    }
    /* start(low) <= at < start(high); documents may be empty */
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (document_start(s, mid, &t, err) != 0)
            return -1;
        if (t <= at) {
            low = mid;
            first = t;
        } else {
            high = mid;
            last = t;
        }
    }
    if (first > at || last <= at)
        return err_set(err, ERR_USAGE, "%s: changed while in use", s->index.path);
    *begin = first;
    *end = last;
    return 0;
}
