/* shard.h - one file of tokens.
 *
 * llm.c .bin: 256 little-endian int32, of which [0] magic 20240520 (GPT-2) or
 * 20240801 (Llama 3), [1] version 1 (uint16) or 7 (uint32), [2] token count; the
 * tokens follow and end the file.  (karpathy/llm.c dev/data/data_common.py.)
 * Megatron: PREFIX.idx names lengths, places and documents of the sequences in
 * PREFIX.bin.  (NVIDIA/Megatron-LM indexed_dataset.py.)  Either name opens both.
 *
 * Every malformed file gets its own error (case F01); no read goes past the
 * end; sizes are 64 bit.  The whole .idx is checked when it is opened, then only
 * its document boundaries are looked up, in the file: an open shard takes a few
 * hundred bytes.  Data is read with pread(), so that a file which is cut while
 * in use gives an error instead of SIGBUS.  An open shard may be read from
 * several threads. */
#ifndef TRAINER_SHARD_H
#define TRAINER_SHARD_H

#include <stdint.h>

struct err;
struct shard;

struct shard_info {
    const char *format;     /* "llm.c", "megatron" */
    const char *token_type; /* "uint16", ... */
    int token_bytes;        /* 1, 2, 4, 8 */
    int64_t tokens;         /* at least 1 */
    int64_t documents;      /* Megatron; else -1 */
    int64_t bytes;          /* of all its files */
};

int shard_open(const char *path, struct shard **out, struct err *err);
void shard_close(struct shard *s); /* NULL is fine */
const struct shard_info *shard_info(const struct shard *s);
const char *shard_path(const struct shard *s);

/* Tokens [from, from + n) as int32; the caller guarantees the range.  An id
 * that int32 cannot hold reads as -1. */
int shard_read(const struct shard *s, int64_t from, int64_t n, int32_t *out,
               struct err *err);

/* Tokens [from, from + n), already read into tok, lie in [0, vocab): else
 * ERR_USAGE names the first that does not, with its true value and index. */
int shard_check(const struct shard *s, int64_t from, int64_t n, const int32_t *tok,
                int64_t vocab, struct err *err);

/* Read every token; check it against vocab (0: only that ids are 0..2^31-1).
 * *highest: the highest id. */
int shard_verify(const struct shard *s, int64_t vocab, int32_t *highest,
                 struct err *err);

/* The document that holds token `at`: tokens [*begin, *end).  Without document
 * marks (llm.c) the whole file is one. */
int shard_document(const struct shard *s, int64_t at, int64_t *begin, int64_t *end,
                   struct err *err);

#endif
