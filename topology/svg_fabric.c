/* The picture of a fabric: a row of switches for each level, leaves above the nodes
 * that hang on them, nodes as cells; the left margin says what a row is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/svg_fabric.h"

/* --- places ---------------------------------------------------------------------------- */

static int count_leaves(const struct fabric_page *c, int pod)
{
    int count = 0;

    for (int i = 0; i < c->v.t->n_switches; i++)
        count += c->v.spot[i].drawn && c->v.spot[i].pod == pod;
    return count;
}

/* As wide as its leaves or, where those are few, a little wider than high. */
static void size_pod(struct fabric_page *c, int pod)
{
    struct pod *p = &c->v.pod[pod];
    double leaves = count_leaves(c, pod) * (c->leaf_w + GAP);
    int cells = cells_of(p);

    p->cell = 62;
    for (int i = 0; i < cells; i++) {
        double w = svg_width("n", c->v.t->nodes[c->v.order[p->first + i]].name) + 14;
        p->cell = w > p->cell ? w : p->cell;
    }
    p->cell = p->cell > 140 ? 140 : p->cell;
    p->columns = (int)(leaves / (p->cell + 4));
    if (p->columns * p->columns < 2 * cells && p->columns < 4)
        p->columns = (int)ceil(sqrt(2.0 * cells / 3));
    p->columns = p->columns > cells ? cells : p->columns < 1 ? 1 : p->columns;
    p->columns = ceil_over(cells, ceil_over(cells, p->columns));
    p->w = p->columns * (p->cell + 4) - 4 + 2 * PAD;
    p->w = leaves > p->w ? leaves : p->w;
}

static void place_leaves(struct fabric_page *c, int pod)
{
    const struct pod *p = &c->v.pod[pod];
    int n = count_leaves(c, pod), k = 0;

    for (int i = 0; i < c->v.t->n_switches; i++)
        if (c->v.spot[i].drawn && c->v.spot[i].pod == pod) {
            c->v.spot[i].x = p->x + p->w * (k++ + 0.5) / n;
            c->v.spot[i].y = c->row[0].y;
        }
}

static void place_row(struct fabric_page *c, int level)
{
    struct fabric_row *r = &c->row[level];
    int places = r->n > UPPER_DRAWN ? UPPER_DRAWN : r->n, k = 0;

    r->drawn = r->n > UPPER_DRAWN ? UPPER_DRAWN - 1 : r->n;
    for (int i = 0; i < c->v.t->n_switches; i++) {
        struct spot *s = &c->v.spot[i];
        if (fabric_level(c->v.t, i) != level || k == r->drawn)
            continue;
        s->drawn = 1;
        s->x = c->x + c->w * (k++ + 0.5) / places;
        s->y = r->y;
    }
}

static void place_pods(struct fabric_page *c)
{
    double x = c->x;

    for (int p = 0; p < c->v.n_pods; p++) {
        struct pod *d = &c->v.pod[p];
        if (!d->drawn)
            continue;
        size_pod(c, p);
        d->x = x;
        x += d->w + 2 * GAP;
    }
    c->w = x - 2 * GAP - c->x;
}

static void place(struct fabric_page *c)
{
    double y = c->y, widest = 0, spread;

    for (int i = 0; i < c->v.t->n_switches; i++) {
        int level = fabric_level(c->v.t, i);
        c->row[level].n++;
        c->top = level > c->top ? level : c->top;
    }
    c->leaf_w = c->v.leaves_drawn > 18 ? 50 : 112;
    place_pods(c);
    c->trunk_h = c->w / 10 < 96 || c->v.t->n_links < 40 ? 96
                 : c->w / 10 > 180                      ? 180
                                                        : c->w / 10;
    for (int level = c->top; level >= 0; level--) {
        struct fabric_row *r = &c->row[level];
        int places = r->n > UPPER_DRAWN ? UPPER_DRAWN : r->n;
        r->y = y;
        y += level ? UPPER_H + c->trunk_h : LEAF_H + WIRE_H;
        if (level && places * (UPPER_W + GAP) > widest)
            widest = places * (UPPER_W + GAP);
    }
    c->pods_y = c->v.t->n_switches ? y : c->y;
    spread = widest > c->w ? (widest - c->w) / 2 : 0; /* nodes in the middle */
    for (int p = 0; p < c->v.n_pods; p++) {
        c->v.pod[p].x += spread;
        if (c->v.pod[p].drawn)
            place_leaves(c, p);
    }
    c->w += 2 * spread;
    for (int level = 1; level <= c->top; level++)
        place_row(c, level);
}

/* --- the margin -------------------------------------------------------------------------------- */

static void say_row(struct fabric_page *c, const struct fabric_row *r, double x)
{
    static const char *const names[] = { "Leaves", "Spines", "Core" };
    double worst = -1;

    if (r->level < 3)
        svg_text(c->s, "b", LEFT, x, r->y + 16, FABRIC_MARGIN_W - 12, "%s: %d",
                 names[r->level], r->n);
    else
        svg_text(c->s, "b", LEFT, x, r->y + 16, FABRIC_MARGIN_W - 12, "Level %d: %d",
                 r->level, r->n);
    for (int i = 0; i < c->v.t->n_switches; i++)
        if (fabric_level(c->v.t, i) == r->level &&
            fabric_oversubscription(&c->v.spot[i]) > worst)
            worst = fabric_oversubscription(&c->v.spot[i]);
    if (worst > 1.05)
        svg_text(c->s, "n warned", LEFT, x, r->y + 32, FABRIC_MARGIN_W - 12,
                 "oversubscribed %.2g:1", worst);
    else if (worst > 0)
        svg_text(c->s, "n soft", LEFT, x, r->y + 32, FABRIC_MARGIN_W - 12,
                 "not oversubscribed");
}

static void say_trunks(struct fabric_page *c, const struct fabric_row *r, double x)
{
    double y = r->y - c->trunk_h / 2, speed = fabric_usual_speed(c->v.t, r->level);
    int cables = fabric_usual_cables(c->v.t, r->level);

    if (cables == 0 || speed <= 0) /* Slurm's links are no cables */
        return;
    svg_text(c->s, "n soft", LEFT, x, y, FABRIC_MARGIN_W - 12, "trunks of %d cable%s",
             cables, cables == 1 ? "" : "s");
    svg_text(c->s, "n soft", LEFT, x, y + 14, FABRIC_MARGIN_W - 12, "of %.0f Gb/s",
             speed);
}

static void say_rows(struct fabric_page *c, double x)
{
    for (int level = c->top; level >= 0 && c->v.t->n_switches; level--) {
        c->row[level].level = level;
        say_row(c, &c->row[level], x);
        if (level < c->top)
            say_trunks(c, &c->row[level], x);
    }
    svg_text(c->s, "b", LEFT, x, c->pods_y + 26, FABRIC_MARGIN_W - 12, "Nodes: %d",
             c->v.t->n_nodes);
    if (c->v.n_pods > 1)
        svg_text(c->s, "n soft", LEFT, x, c->pods_y + 42, FABRIC_MARGIN_W - 12,
                 "%d groups by leaf", c->v.n_pods);
}

void svg_fabric(struct svg *s, const struct topology *t, double x, double y)
{
    struct fabric_page c = { .s = s, .x = x + FABRIC_MARGIN_W, .y = y + 10 };

    if (t->n_nodes < 2 && t->n_switches == 0)
        return;
    fabric_view_init(&c.v, t);
    place(&c);
    fabric_draw_trunks(&c);
    fabric_draw_pods(&c);
    fabric_draw_switches(&c);
    say_rows(&c, x);
    fabric_view_release(&c.v);
}
