/* data_pack.h - make a token shard (shard.h, llm.c .bin) from text or token ids.
 *
 * Text becomes bytes: the built-in vocabulary is the 256 byte values and 256 =
 * end of document, written after each input; vocabulary 257.  With `ids` the
 * inputs hold token ids, decimal numbers separated by blanks or line ends.
 *
 * Inputs are streamed, so their size does not matter; "-" is standard input.
 * The shard is written beside its name and renamed: OUT is absent, old or whole.
 * Its header counts tokens in an int32: more than 2^31-1 are refused. */
#ifndef TRAINER_DATA_PACK_H
#define TRAINER_DATA_PACK_H

#include <stdint.h>

struct err;

enum { PACK_BYTE_VOCAB = 257, PACK_BYTE_EOD = 256 };

struct pack {
    int ids;         /* inputs are token ids */
    int token_bytes; /* 2 or 4; 0: 2 unless vocab needs 4 */
    int64_t vocab;   /* ids: must be below it; 0: only what token_bytes holds */
    int64_t eod;     /* ids: written after each input; -1: none */
};

/* ERR_USAGE: a vocabulary or id that token_bytes cannot hold (case F04), a word
 * that is no id (named FILE:LINE), no token at all. */
int data_pack(const struct pack *q, const char *const *inputs, int n, const char *out,
              int64_t *tokens, struct err *err);

#endif
