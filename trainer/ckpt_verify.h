/* ckpt_verify.h - look at a checkpoint (ckpt.h) without a model or a device.
 *
 * Everything is learned from index.json and the shards themselves; one 1 MiB
 * block is held at a time, so a checkpoint of any size can be read anywhere. */
#ifndef TRAINER_CKPT_VERIFY_H
#define TRAINER_CKPT_VERIFY_H

#include <stdint.h>

struct err;
struct js;
struct strlist;

struct ckpt_summary {
    struct js *index;        /* index.json; owned */
    int64_t step, tokens;    /* done */
    int world, shard;        /* ranks that wrote it; parts that it is cut into */
    int64_t layers, scalars; /* of the model; scalars without padding */
    int64_t bytes;           /* of the files that are there */
};

/* The checkpoints that a path means: itself when it is one, complete or not,
 * else the step-N folders in it, ascending, incomplete ones included.  Added to
 * *out.  ERR_MISSING: there is none. */
int ckpt_find(const char *path, struct strlist *out, struct err *err);

/* Reads the marker and index.json.  ERR_USAGE: it is not complete, or the index
 * is damaged.  Release a filled summary with ckpt_summary_release(). */
int ckpt_inspect(const char *dir, struct ckpt_summary *out, struct err *err);
void ckpt_summary_release(struct ckpt_summary *s);

/* Reads every byte of every shard and compares the checksums.  All problems are
 * listed, at most one a shard; the others are read all the same. */
int ckpt_verify(const char *dir, const struct ckpt_summary *s, struct err *err);

#endif
