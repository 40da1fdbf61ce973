/* ckpt.h - save and resume: complete or absent, at any number of ranks.
 *
 *   FOLDER/step-00000010/
 *     shard-00000-of-00004.safetensors   one a shard rank, written by replica 0:
 *        embed.master, embed.exp_avg, embed.exp_avg_sq, layers.0.master, ..., head...
 *        FP32, this rank's part of the flat unit: part r of n holds elements
 *        [r, r + 1) x padded / n; and "checksums", one number a 1 MiB block
 *     index.json   step, seed, batch, shapes and places of every tensor, router
 *                  bias, the recipe, versions
 *     complete     the marker, written last: the checksum of index.json, in hex
 *
 * It is written as step-00000010.tmp and renamed when every rank has finished and
 * the marker is there, so a folder without `.tmp` and with the marker is whole.
 * The order of samples depends on seed and step alone: the step is the position in
 * the data, and initial weights are the only random numbers, so nothing else is
 * needed to go on bit for bit (case F15).  At another shard degree each rank
 * reads the blocks that hold its elements; the global batch must be the same.
 *
 * Every rank calls; all succeed or all fail, naming the rank that could not. */
#ifndef TRAINER_CKPT_H
#define TRAINER_CKPT_H

#include <stdint.h>

struct dev;
struct err;
struct js;
struct meter;
struct ops;
struct recipe;
struct units;

enum { CKPT_BLOCK = 262144 /* elements under one checksum */, CKPT_KINDS = 3 };

struct ckpt {
    const struct ops *ops;
    struct dev *dev;
    const struct units *units;
    const struct recipe *recipe; /* degrees and global batch resolved */
    struct meter *meter;         /* to agree with the other ranks */
    int rank, world, shard_rank, replica_rank;
    float *state[CKPT_KINDS]; /* device, shard map: master, exp_avg, exp_avg_sq */
    void *weights;            /* device, compute type; NULL when it is master */
    float *bias;              /* host [layers, experts] */
};

/* What goes on from where. */
struct ckpt_at {
    int64_t step; /* steps done */
    int64_t tokens;
};

int ckpt_save(const struct ckpt *c, const char *folder, const struct ckpt_at *at,
              struct err *err);
/* path: one checkpoint, or a folder of them, of which the newest complete one is
 * taken.  *dir: its path, the caller's to free().  ERR_MISSING: none there;
 * ERR_USAGE: damaged or of another model, with its name. */
int ckpt_load(const struct ckpt *c, const char *path, struct ckpt_at *at, char **dir,
              struct err *err);

/* --- folders (ckpt_dir.c) ---------------------------------------------------- */
/* FOLDER/step-N; the caller's to free(). */
char *ckpt_dir_path(const char *folder, int64_t step);
int ckpt_dir_complete(const char *dir);
/* Steps of the complete checkpoints in a folder, ascending; *steps is the
 * caller's; returns how many, 0 when there is no such folder. */
int ckpt_dir_list(const char *folder, int64_t **steps);
/* Make DIR.tmp, empty; publish it as DIR (marker, sync, rename); drop all but
 * the `keep` newest (0: none is dropped) and what was left half-written. */
int ckpt_dir_begin(const char *dir, struct err *err);
int ckpt_dir_publish(const char *dir, int64_t checksum, struct err *err);
/* The number in the marker; ERR_USAGE when there is none. */
int ckpt_dir_checksum(const char *dir, int64_t *checksum, struct err *err);
void ckpt_dir_prune(const char *folder, int keep);

/* --- index.json (ckpt_index.c) ------------------------------------------------ */
struct js *ckpt_index_make(const struct ckpt *c, const struct ckpt_at *at);
/* The whole file of a complete checkpoint, checked against the marker; *index is
 * the caller's to js_free(). */
int ckpt_index_load(const char *dir, struct js **index, struct err *err);
/* Refuses another model, seed, sequence length or global batch, each by name;
 * *shard: degree it was written at.  Fills c->bias. */
int ckpt_index_read(const struct ckpt *c, const struct js *index, const char *path,
                    struct ckpt_at *at, int *shard, struct err *err);

/* --- one shard file (ckpt_shard.c) ---------------------------------------------- */
/* The caller's to free(). */
char *ckpt_shard_path(const char *dir, int rank, int shard);
int ckpt_shard_write(const struct ckpt *c, const char *dir, struct err *err);
/* Fill what this rank owns from part `from` of `shard`; nothing when they share
 * no element. */
int ckpt_shard_read(const struct ckpt *c, const char *dir, int from, int shard,
                    struct err *err);
const char *ckpt_kind_name(int kind);
/* FNV-1a, 64 bits, over little-endian 32-bit words; the last one padded with 0. */
int64_t ckpt_checksum(const void *bytes, int64_t n);
/* Blocks of CKPT_BLOCK elements that a piece of so many has. */
int64_t ckpt_blocks(int64_t elements);

#endif
