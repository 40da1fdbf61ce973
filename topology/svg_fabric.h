/* svg_fabric.h - what is drawn of a fabric, and where.  Private to svg_fabric*.c. */
#ifndef TOPOLOGY_SVG_FABRIC_H
#define TOPOLOGY_SVG_FABRIC_H

#include "topology/svg_topo.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LEVELS_MAX = 8, PODS_DRAWN = 6, CELLS_DRAWN = 64, UPPER_DRAWN = 16 };

/* Nodes whose NICs hang on the same leaves; nodes that share most leaves with a group
 * ten times their number (a cable is miswired) count to it. */
struct pod {
    int first, n; /* in fabric_view.order */
    int drawn;    /* 0: only counted */
    double x, w, cell;
    int columns;
};

/* A switch: what its cables carry, and its place in the picture. */
struct spot {
    int pod;         /* of a leaf; -1 none */
    int nics;        /* compute NICs below */
    double down, up; /* Gb/s of them, of the trunks; -1 unknown */
    double x, y;     /* middle, top; only where drawn */
    int drawn, rail; /* rail: of most of its NICs, -1 unknown; votes: how clearly */
    int votes;
};

struct fabric_view {
    const struct topology *t;
    int *order;  /* [t->n_nodes] nodes, group by group */
    int *pod_of; /* [t->n_nodes] */
    struct pod *pod;
    int n_pods;
    struct spot *spot; /* [t->n_switches] */
    int leaves_drawn;
};

/* Groups, loads of switches, what is drawn; fabric_view_release() frees. */
void fabric_view_init(struct fabric_view *v, const struct topology *t);
void fabric_view_release(struct fabric_view *v);

enum {
    FABRIC_MARGIN_W = 176,
    GAP = 8,
    UPPER_W = 112,
    UPPER_H = 40,
    LEAF_H = 54,
    WIRE_H = 34,
    CELL_H = 24,
    PAD = 10
};

struct fabric_row {
    int level, n, drawn;
    double y, w;
};

struct fabric_page {
    struct svg *s;
    struct fabric_view v;
    struct fabric_row row[LEVELS_MAX]; /* by level */
    int top;                           /* highest level */
    double x, y, w, leaf_w;            /* of the drawing, beside the margin */
    double trunk_h;                    /* between two rows of switches */
    double pods_y;
};

static inline int ceil_over(int a, int b)
{
    return (a + b - 1) / b;
}

static inline int cells_of(const struct pod *p)
{
    return p->n < CELLS_DRAWN ? p->n : CELLS_DRAWN;
}

/* Levels beyond those drawn count to the highest. */
int fabric_level(const struct topology *t, int i);
/* What comes from below over what goes up; -1 unknown. */
double fabric_oversubscription(const struct spot *s);
/* Of the links above a level: the cables that most have, and the fastest (-1 unknown). */
int fabric_usual_cables(const struct topology *t, int level);
double fabric_usual_speed(const struct topology *t, int level);

/* From the places to the drawing. */
void fabric_draw_trunks(struct fabric_page *c);
void fabric_draw_switches(struct fabric_page *c);
void fabric_draw_pods(struct fabric_page *c);

#ifdef __cplusplus
}
#endif
#endif
