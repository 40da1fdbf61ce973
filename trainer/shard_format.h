/* shard_format.h - what the readers of shard formats share; private to shard*.c. */
#ifndef TRAINER_SHARD_FORMAT_H
#define TRAINER_SHARD_FORMAT_H

#include <stdint.h>

#include "trainer/shard.h"

/* An integer type that a file stores tokens in. */
struct token_type {
    const char *name;
    int bytes;
    /* out[n] = raw[n] widened; ids outside int32 give -1. */
    void (*widen)(int32_t *out, const void *raw, int64_t n);
    int64_t (*value)(const void *raw); /* one, exact */
};

extern const struct token_type token_u8, token_i8, token_u16, token_i16, token_u32,
    token_i32, token_i64;

/* Where the marks of a Megatron index lie in its file. */
struct shard_index {
    char *path;
    int fd;
    int64_t sequences;
    int64_t pointers_at, documents_at; /* byte offsets in the .idx */
};

struct shard {
    char *path; /* of the file with the tokens */
    int fd;
    int64_t data_at; /* byte offset of token 0 */
    const struct token_type *type;
    struct shard_info info;
    struct shard_index index; /* fd -1: none */
};

/* Fill a shard whose fds are -1; on failure the caller closes what is set. */
int shard_open_llmc(struct shard *s, const char *path, struct err *err);
int shard_open_megatron(struct shard *s, const char *idx_path, struct err *err);

/* The .idx that describes this file: itself, or the neighbour of a .bin that
 * begins with Megatron's magic; NULL when there is none.  The caller's to free(). */
char *shard_megatron_index(const char *path);

#endif
