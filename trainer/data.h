/* data.h - the training set: a recipe's sources, and which sample comes when.
 *
 * A source is one entry of data.path: a glob, folder or file whose shards
 * (shard.h), sorted by name, are read as one stream of tokens.  Sample i of a
 * source is its tokens [i T, i T + T], T + 1 of them for T = seq_len inputs and
 * their targets; nothing is dropped but the tail.
 *
 * Order (order.h): sample g of step s is a pure function of (seed, s, g) and of
 * the files, whatever the world size; g runs over the global batch.  Each epoch
 * visits every sample of a source once in a permuted order; several sources mix
 * in exact proportion.  Rank r of R takes g = a R B + r B + b for micro-batch a
 * and row b of its local batch B, so a run continues at another world size.
 *
 * Validation: data.validation_path, else the last validation_fraction of the
 * tokens of every source, which training never reads.
 *
 * A sample is read with pread(): a shard that is cut while in use is an error,
 * not a signal; so is a token that the model's vocabulary does not hold. */
#ifndef TRAINER_DATA_H
#define TRAINER_DATA_H

#include <stdint.h>

struct err;
struct recipe;
struct strlist;

struct dataset;

/* Opens the recipe's sources, or with `validation` the validation set.  Needs
 * at least one sample a source, and says "need world*B*T+1 = ... tokens, have
 * ..." when a training batch cannot be filled (case F05).  ERR_MISSING: no file
 * matches; ERR_USAGE: a bad file (named), or no validation data is configured. */
int dataset_open(const struct recipe *r, int world, int validation,
                 struct dataset **out, struct err *err);
int64_t dataset_tokens(const struct dataset *d);
int64_t dataset_samples(const struct dataset *d); /* one epoch of all sources */
/* Sample g of step s: seq_len + 1 tokens.  doc_start (or NULL): for each of
 * seq_len positions, the position where its document starts; zeros when
 * data.document_mask is off.  pos (or NULL): position inside the document when
 * masked, else in the sequence.  A document starts after data.eod_token, where a
 * Megatron index says so, and at the start of a file.  Safe to call from
 * several threads. */
int dataset_sample(const struct dataset *d, int64_t step, int64_t g, int32_t *tokens,
                   int32_t *doc_start, int32_t *pos, struct err *err);
void dataset_close(struct dataset *d); /* NULL is fine */

/* The shards that one entry of data.path means, sorted: a file as it is, the
 * matches of a glob, the .bin and .idx files of a folder; a Megatron .bin whose
 * .idx is also there is left out.  Added to *out. */
int data_files(const char *entry, struct strlist *out, struct err *err);

#endif
