/* slurm_gres.h - Slurm's texts about generic resources, as Slurm means them.
 *
 *   gpu:h100:8(S:0-1)            Gres of a node; sockets
 *   gpu:h100:3(IDX:0,4-5)        what a job got; device indexes
 *   gres/gpu=8,gres/gpu:h100=8   a TRES list: the untyped count holds the typed ones
 *   gpu:h200_3g.71gb:6           MIG slices, not GPUs
 *   vram:no_consume:32G
 *
 * Between name and count stands a type or nothing: `gpu:8` is a count, `gpu:h100` a
 * type with count 1.  K, M, G, T and P are powers of 1024.  "(null)", "N/A" and "" are
 * an empty list.  TRES of other kinds (cpu=4, mem=8G) are left out. */
#ifndef TOPOLOGY_SLURM_GRES_H
#define TOPOLOGY_SLURM_GRES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cpulist;
struct err;

enum { GRES_ITEMS_MAX = 256 };
enum gres_place { GRES_NOWHERE, GRES_SOCKETS, GRES_INDEXES };

struct gres_item {
    char name[32]; /* "gpu" */
    char type[64]; /* "" none */
    int64_t count;
    int mig;        /* the type is a MIG profile */
    int no_consume; /* shared without being counted */
    int tres;       /* of a TRES list */
    enum gres_place place;
    char where[128]; /* "0,4-5": sockets or indexes; "" for N/A */
};

struct gres {
    int n;
    struct gres_item *item; /* owned */
};

/* Code ERR_USAGE; *out is set only on success, gres_release(). */
int gres_parse(const char *text, struct gres *out, struct err *err);
void gres_release(struct gres *g);

/* All of that name, typed or not.  Where a TRES list has an untyped count, that is it
 * (or the sum of the typed ones, when larger). */
int64_t gres_count(const struct gres *g, const char *name);
/* gres_count("gpu") without MIG slices. */
int64_t gres_whole_gpus(const struct gres *g);
/* The sockets or indexes of an item as a set. */
void gres_where(const struct gres_item *item, struct cpulist *out);

#ifdef __cplusplus
}
#endif
#endif
