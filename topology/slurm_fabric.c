#include "topology/slurm_fabric.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/mem.h"

struct slurm_entry *slurm_fabric_add(struct slurm_fabric *f, enum slurm_kind kind,
                                     int line)
{
    struct slurm_entry *e;

    if (f->n == SLURM_ENTRIES_MAX)
        return NULL;
    if (f->n == f->room) {
        f->room = f->room ? 2 * f->room : 16;
        f->entry = xrealloc(f->entry, (size_t)f->room, sizeof(*f->entry));
    }
    e = &f->entry[f->n++];
    *e = (struct slurm_entry){ .kind = kind, .line = line };
    return e;
}

int slurm_fabric_sizes(struct slurm_fabric *f, const char *text)
{
    int n = 0;

    for (const char *at = text;; at++) {
        char *end;
        long v = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : 0;
        if (v < 1 || v > SLURM_NODES_MAX || n == SLURM_SIZES_MAX ||
            (n && (v <= f->size[n - 1] || v % f->size[0] ||
                   ((v / f->size[0]) & (v / f->size[0] - 1)))))
            return -1;
        f->size[n++] = (int)v;
        at = end;
        if (*at == '\0')
            break;
        if (*at != ',')
            return -1;
    }
    f->n_sizes = n;
    return 0;
}

void slurm_fabric_release(struct slurm_fabric *f)
{
    for (int i = 0; i < f->n; i++) {
        free(f->entry[i].name);
        free(f->entry[i].nodes);
        free(f->entry[i].below);
        free(f->entry[i].comment);
    }
    free(f->entry);
    *f = (struct slurm_fabric){ 0 };
}
