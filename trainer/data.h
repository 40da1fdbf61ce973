/* data.h - token shards, and which sample comes when.
 *
 * Formats: llm.c .bin (256 LE int32 header: magic 20240520 version 1 uint16, or
 * 20240801 version 7 uint32; [2] token count; 20240522 marks an evaluation
 * file) and Megatron .idx/.bin.  Every malformed file gets its own error; no
 * read goes past the end; sizes are 64 bit (cases F01, F04, F05).
 *
 * Order: sample g of step s is a pure function of (seed, s, g) and of the
 * files, whatever the world size; g runs over the global batch.  Samples are
 * seq_len + 1 tokens; each epoch visits every sample of a source once in a
 * permuted order.  Rank r of R takes g = a R B + r B + b for micro-batch a and
 * row b of its local batch B, so a run continues at another world size. */
#ifndef TRAINER_DATA_H
#define TRAINER_DATA_H

#include <stdint.h>

struct err;
struct recipe;
struct js;

/* --- one shard -------------------------------------------------------------- */
struct shard; /* memory-mapped, read-only */

struct shard_info {
    const char *format; /* "llm.c", "megatron" */
    int token_bytes;    /* 1, 2, 4 */
    int64_t tokens;
    int64_t documents; /* Megatron; else -1 */
    int evaluation;    /* llm.c evaluation file: cannot be trained on */
};

int shard_open(const char *path, struct shard **out, struct err *err);
const struct shard_info *shard_info(const struct shard *s);
/* tokens [from, from + n) as int32; the caller guarantees the range. */
void shard_read(const struct shard *s, int64_t from, int64_t n, int32_t *out);
/* Every token below vocab: ERR_USAGE names the first that is not, and its index. */
int shard_verify(const struct shard *s, int64_t vocab, struct err *err);
/* A whole document of `eod` inside [from, from+n) ... see dataset. */
void shard_close(struct shard *s);

/* Text files (or token ids, `ids`: whitespace-separated numbers) -> one shard.
 * The built-in vocabulary is byte level: 256 bytes and 256 = end of document,
 * which is written after each file.  token_bytes 2 refuses ids over 65535. */
int data_pack(const char *const *inputs, int n, int ids, int token_bytes,
              const char *out, int64_t *tokens, struct err *err);

/* --- training set ------------------------------------------------------------- */
struct dataset;

/* Opens the recipe's sources; needs at least one sample a source, and says
 * "need world*B*T+1 = ... tokens, have ..." when the batch cannot be filled. */
int dataset_open(const struct recipe *r, int world, int validation,
                 struct dataset **out, struct err *err);
int64_t dataset_tokens(const struct dataset *d);
/* Sample g of step s: seq_len + 1 tokens.  doc_start (or NULL): for each of
 * seq_len positions, the first position of its document.  pos likewise:
 * position inside the document when masked, else in the sequence. */
int dataset_sample(const struct dataset *d, int64_t step, int64_t g, int32_t *tokens,
                   int32_t *doc_start, int32_t *pos, struct err *err);
void dataset_close(struct dataset *d);

#endif
