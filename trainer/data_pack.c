#include "trainer/data_pack.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"

enum { HEADER_BYTES = 1024, BUFFER = 65536, WORD_MAX = 32 };

struct packer {
    struct file_beside file;
    int width; /* bytes of a token */
    int64_t limit;
    int64_t tokens, eod;
    size_t used;
    char buffer[BUFFER];
};

struct input {
    const char *name;
    int fd;
    int64_t line;
    size_t used, at;
    char buffer[BUFFER];
};

/* --- output ------------------------------------------------------------------- */

static int flush(struct packer *p, struct err *err)
{
    int64_t end = HEADER_BYTES + p->tokens * p->width;

    if (file_write(p->file.fd, p->file.tmp, p->buffer, p->used, end - (int64_t)p->used,
                   err) != 0)
        return -1;
    p->used = 0;
    return 0;
}

static int put(struct packer *p, uint32_t id, struct err *err)
{
    uint32_t wide = htole32(id);
    uint16_t narrow = htole16((uint16_t)id);

    if (p->tokens == INT32_MAX)
        return err_set(err, ERR_USAGE,
                       "%s: over %d tokens, the most that one shard can count: pack "
                       "into several",
                       p->file.path, INT32_MAX);
    memcpy(p->buffer + p->used, p->width == 2 ? (void *)&narrow : (void *)&wide,
           (size_t)p->width);
    p->used += (size_t)p->width;
    p->tokens++;
    return p->used < BUFFER ? 0 : flush(p, err);
}

static int finish(struct packer *p, struct err *err)
{
    uint32_t header[HEADER_BYTES / 4] = { htole32(p->width == 2 ? 20240520 : 20240801),
                                          htole32(p->width == 2 ? 1 : 7),
                                          htole32((uint32_t)p->tokens) };

    if (p->tokens == 0)
        return err_set(err, ERR_USAGE, "%s: the inputs hold no token", p->file.path);
    if (flush(p, err) != 0)
        return -1;
    return file_write(p->file.fd, p->file.tmp, header, HEADER_BYTES, 0, err);
}

/* --- input --------------------------------------------------------------------- */

static int input_open(struct input *in, const char *name, struct err *err)
{
    struct stat st;

    in->name = strcmp(name, "-") == 0 ? "standard input" : name;
    in->line = 1;
    in->used = in->at = 0;
    in->fd = strcmp(name, "-") == 0 ? dup(STDIN_FILENO)
                                    : open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in->fd < 0)
        return err_set(err, errno == ENOENT ? ERR_MISSING : ERR_SYSTEM, "%s: %m",
                       in->name);
    if (fstat(in->fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(in->fd);
        return err_set(err, ERR_USAGE, "%s: is a folder: name the files in it", name);
    }
    return 0;
}

/* More bytes: 1, at the end 0, or -1. */
static int fill(struct input *in, struct err *err)
{
    ssize_t got;

    do
        got = read(in->fd, in->buffer, BUFFER);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_set(err, ERR_SYSTEM, "%s: reading: %m", in->name);
    in->used = (size_t)got;
    in->at = 0;
    return got > 0;
}

/* The next byte, -1 at the end, -2 on an error. */
static int next_byte(struct input *in, struct err *err)
{
    if (in->at == in->used) {
        int rc = fill(in, err);
        if (rc <= 0)
            return rc - 1;
    }
    return (unsigned char)in->buffer[in->at++];
}

static int pack_bytes(struct packer *p, struct input *in, struct err *err)
{
    int c;

    while ((c = next_byte(in, err)) >= 0)
        if (put(p, (uint32_t)c, err) != 0)
            return -1;
    return c == -1 ? 0 : -1;
}

static int is_blank(int c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* The next word, cut at WORD_MAX and printable: 1; 0 at the end; -1. */
static int next_word(struct input *in, char word[WORD_MAX + 1], struct err *err)
{
    int c, n = 0;

    while (is_blank(c = next_byte(in, err)))
        in->line += c == '\n';
    for (; c >= 0 && !is_blank(c); c = next_byte(in, err))
        if (n < WORD_MAX)
            word[n++] = (char)(c > ' ' && c < 127 ? c : '?');
    if (c >= 0)
        in->at--; /* the blank: a line end must count for the next word */
    word[n] = '\0';
    return c == -2 ? -1 : n > 0;
}

static int put_id(struct packer *p, const struct input *in, const char *word,
                  struct err *err)
{
    char *end;
    long long id;

    errno = 0;
    id = strtoll(word, &end, 10);
    if (*end || word[0] < '0' || word[0] > '9')
        return err_set(err, ERR_USAGE, "%s:%lld: '%s' is not a token id", in->name,
                       (long long)in->line, word);
    if (errno == ERANGE || id >= p->limit)
        return err_set(err, ERR_USAGE,
                       "%s:%lld: token id %s is over %lld, the highest that %s holds%s",
                       in->name, (long long)in->line, word, (long long)p->limit - 1,
                       p->limit == 65536 ? "a 2-byte shard" : "the vocabulary",
                       p->limit == 65536 ? ": use --token-bytes 4" : "");
    return put(p, (uint32_t)id, err);
}

static int pack_ids(struct packer *p, struct input *in, struct err *err)
{
    char word[WORD_MAX + 1];
    int rc;

    while ((rc = next_word(in, word, err)) > 0)
        if (put_id(p, in, word, err) != 0)
            return -1;
    return rc;
}

static int pack_input(struct packer *p, struct input *in, int ids, const char *name,
                      struct err *err)
{
    int rc;

    if (input_open(in, name, err) != 0)
        return -1;
    rc = ids ? pack_ids(p, in, err) : pack_bytes(p, in, err);
    close(in->fd);
    if (rc == 0 && p->eod >= 0)
        rc = put(p, (uint32_t)p->eod, err);
    return rc;
}

/* --- the whole ------------------------------------------------------------------ */

static int configure(struct packer *p, const struct pack *q, const char *out,
                     struct err *err)
{
    int64_t vocab = q->ids ? q->vocab : PACK_BYTE_VOCAB, most;

    p->width = q->token_bytes ? q->token_bytes : vocab > 65536 ? 4 : 2;
    p->eod = q->ids ? q->eod : PACK_BYTE_EOD;
    if (p->width != 2 && p->width != 4)
        return err_set(err, ERR_USAGE, "%s: tokens of %d bytes: only 2 or 4", out,
                       p->width);
    most = p->width == 2 ? 65536 : (int64_t)INT32_MAX + 1;
    if (vocab < 0 || vocab > most)
        return err_set(err, ERR_USAGE,
                       "%s: a vocabulary of %lld does not fit %d-byte tokens (at most "
                       "%lld): %s",
                       out, (long long)vocab, p->width, (long long)most,
                       p->width == 2 ? "use --token-bytes 4"
                                     : "ids are int32 in the trainer");
    p->limit = vocab > 0 ? vocab : most;
    if (p->eod >= p->limit)
        return err_set(err, ERR_USAGE,
                       "%s: end-of-document id %lld is over the highest id %lld", out,
                       (long long)p->eod, (long long)p->limit - 1);
    return 0;
}

int data_pack(const struct pack *q, const char *const *inputs, int n, const char *out,
              int64_t *tokens, struct err *err)
{
    struct packer *p = xcalloc(1, sizeof(*p));
    struct input *in = xcalloc(1, sizeof(*in));
    int rc = -1;

    p->file.fd = -1;
    if (configure(p, q, out, err) != 0 || file_beside_open(&p->file, out, err) != 0)
        goto out;
    for (int i = 0; i < n; i++)
        if (pack_input(p, in, q->ids, inputs[i], err) != 0)
            goto out;
    if (finish(p, err) != 0 || file_beside_commit(&p->file, err) != 0)
        goto out;
    *tokens = p->tokens;
    rc = 0;
out:
    if (p->file.tmp)
        file_beside_abandon(&p->file);
    free(in);
    free(p);
    return rc;
}
