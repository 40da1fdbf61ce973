/* Trunks, switches and nodes of a fabric, drawn where svg_fabric.c put them. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "topology/svg_fabric.h"

static double switch_h(const struct topology *t, int i)
{
    return fabric_level(t, i) ? UPPER_H : LEAF_H;
}

static void draw_trunk(struct fabric_page *c, const struct fabric_link *l, int thin)
{
    const struct spot *a = &c->v.spot[l->from], *b = &c->v.spot[l->to];
    int many = c->v.t->n_links > 1000 ? 2 : c->v.t->n_links > 60;
    double width = (many ? 0.5 : 0.8) * log2(1 + l->count) + (many > 1 ? 0 : 0.5);

    if (!a->drawn || !b->drawn)
        return;
    width = thin && width < 2 ? 2 : width;
    if (a->y > b->y)
        svg_line(c->s, thin ? "thin" : "trunk", a->x, a->y, b->x,
                 b->y + switch_h(c->v.t, l->to), width);
    else
        svg_bow(c->s, thin ? "thin" : "trunk", (double[]){ a->x, a->y, b->x, b->y },
                a->y - 40, width);
}

struct usual {
    int cables[LEVELS_MAX];
    double speed[LEVELS_MAX];
};

static void find_usual(const struct topology *t, struct usual *u)
{
    for (int level = 0; level < LEVELS_MAX; level++) {
        u->cables[level] = fabric_usual_cables(t, level);
        u->speed[level] = fabric_usual_speed(t, level);
    }
}

static int is_thin(const struct topology *t, const struct usual *u,
                   const struct fabric_link *l)
{
    int level = fabric_level(t, l->from);

    return l->count < u->cables[level] ||
           (l->gbits_per_s > 0 && l->gbits_per_s < u->speed[level]);
}

int svg_fabric_thin(const struct topology *t)
{
    struct usual u;
    int thin = 0;

    find_usual(t, &u);
    for (int i = 0; i < t->n_links; i++)
        thin += is_thin(t, &u, &t->links[i]);
    return thin;
}

/* What is thinner than its like comes last and lies above. */
void fabric_draw_trunks(struct fabric_page *c)
{
    const struct topology *t = c->v.t;
    struct usual u;

    find_usual(t, &u);
    for (int thin = 0; thin < 2; thin++)
        for (int i = 0; i < t->n_links; i++)
            if (thin == is_thin(t, &u, &t->links[i]))
                draw_trunk(c, &t->links[i], thin);
}

/* --- switches ------------------------------------------------------------------------------ */

/* Up to three lines of text in a box of height h, in its middle. */
static double first_line(double y, double h, int lines)
{
    return y + (h - 15 * lines) / 2 + 11;
}

static void draw_leaf_words(struct fabric_page *c, const struct spot *s,
                            const char *name)
{
    double w = c->leaf_w, ratio = fabric_oversubscription(s);
    int wide = w > 60;
    double y = first_line(s->y, LEAF_H, 1 + (s->nics > 0) + (ratio > 0));

    if (!wide && s->rail >= 0)
        svg_text(c->s, "n", MIDDLE, s->x, y, w - 6, "rail %d", s->rail);
    else
        svg_text(c->s, wide ? "l" : "n", MIDDLE, s->x, y, w - 8, "%s", name);
    if (s->nics && wide && s->rail >= 0)
        svg_text(c->s, "n soft", MIDDLE, s->x, y + 15, w - 4, "%d NICs, rail %d",
                 s->nics, s->rail);
    else if (s->nics)
        svg_text(c->s, "n soft", MIDDLE, s->x, y + 15, w - 4, wide ? "%d NICs" : "%d",
                 s->nics);
    if (ratio > 0)
        svg_text(c->s, ratio > 1.05 ? "n warned" : "n soft", MIDDLE, s->x, y + 30,
                 w - 4, wide ? "%.2g:1 to above" : "%.2g:1", ratio);
}

static void draw_leaf(struct fabric_page *c, int i)
{
    const struct spot *s = &c->v.spot[i];
    const char *name = c->v.t->switches[i].name;
    double w = c->leaf_w, x = s->x - w / 2;

    svg_line(c->s, svg_rail(s->rail), s->x, s->y + LEAF_H, s->x, c->pods_y,
             1.5 + 0.6 * log2(1 + s->nics));
    svg_box(c->s, "leaf", x, s->y, w, LEAF_H, name);
    draw_leaf_words(c, s, name);
    svg_mark(c->s, svg_finding(c->v.t, name, 0), x, s->y, w, LEAF_H);
}

static void draw_upper(struct fabric_page *c, int i)
{
    const struct spot *s = &c->v.spot[i];
    const char *name = c->v.t->switches[i].name;
    double x = s->x - UPPER_W / 2.0, ratio = fabric_oversubscription(s);
    double y = first_line(s->y, UPPER_H, 1 + (ratio > 0 || s->down > 0));

    svg_box(c->s, "spine", x, s->y, UPPER_W, UPPER_H, name);
    svg_text(c->s, "l", MIDDLE, s->x, y, UPPER_W - 8, "%s", name);
    if (ratio > 0)
        svg_text(c->s, ratio > 1.05 ? "n warned" : "n soft", MIDDLE, s->x, y + 15,
                 UPPER_W - 8, "%.2g:1 to above", ratio);
    else if (s->down > 0)
        svg_text(c->s, "n soft", MIDDLE, s->x, y + 15, UPPER_W - 8, "%.4g Tb/s",
                 s->down / 1000);
    svg_mark(c->s, svg_finding(c->v.t, name, 0), x, s->y, UPPER_W, UPPER_H);
}

void fabric_draw_switches(struct fabric_page *c)
{
    for (int i = 0; i < c->v.t->n_switches; i++)
        if (c->v.spot[i].drawn) {
            if (fabric_level(c->v.t, i))
                draw_upper(c, i);
            else
                draw_leaf(c, i);
        }
    for (int level = 1; level <= c->top; level++) {
        const struct fabric_row *r = &c->row[level];
        double x = c->x + c->w * (UPPER_DRAWN - 0.5) / UPPER_DRAWN - UPPER_W / 2.0;
        if (r->n == r->drawn)
            continue;
        svg_box(c->s, "more", x, r->y, UPPER_W, UPPER_H, NULL);
        svg_text(c->s, "l soft", MIDDLE, x + UPPER_W / 2.0, r->y + 24, UPPER_W - 8,
                 "and %d more", r->n - r->drawn);
    }
}

/* --- nodes ----------------------------------------------------------------------------------- */

/* Cables to leaves of other groups. */
static void draw_strays(struct fabric_page *c, int node, double x, double y)
{
    const struct node *n = &c->v.t->nodes[node];

    for (int k = 0; k < n->n_nics; k++) {
        const struct spot *s =
            n->nics[k].leaf >= 0 ? &c->v.spot[n->nics[k].leaf] : NULL;
        if (s && s->drawn && n->nics[k].kind == NIC_COMPUTE &&
            s->pod != c->v.pod_of[node])
            svg_line(c->s, "wrong", s->x, s->y + LEAF_H, x, y, 2);
    }
}

/* Names of nodes differ in their ends. */
static void draw_name(struct fabric_page *c, const char *name, double x, double y,
                      double room)
{
    const char *end = name;

    while (*end && svg_width("n", end) > room - (end > name ? svg_width("n", "m") : 0))
        end++;
    svg_text(c->s, "n", MIDDLE, x, y, -1, "%s%s", end > name ? "\xe2\x80\xa6" : "",
             end);
}

static void draw_cell(struct fabric_page *c, const struct pod *p, int i, double x,
                      double y)
{
    const struct node *n = &c->v.t->nodes[c->v.order[p->first + i]];
    char *tip = xasprintf("%s: %d GPUs, %d NICs", n->name, n->n_gpus, n->n_nics);

    svg_box(c->s, "cell", x, y, p->cell, CELL_H, tip);
    draw_name(c, n->name, x + p->cell / 2, y + 16, p->cell - 8);
    svg_mark(c->s, svg_finding(c->v.t, n->name, 1), x, y, p->cell, CELL_H);
    draw_strays(c, c->v.order[p->first + i], x + p->cell / 2, y);
    free(tip);
}

static void draw_pod(struct fabric_page *c, const struct pod *p)
{
    int cells = cells_of(p), rows = ceil_over(cells, p->columns);
    double left = p->x + (p->w - p->columns * (p->cell + 4) + 4) / 2;

    svg_box(c->s, "panel", p->x, c->pods_y, p->w, rows * (CELL_H + 4) - 4 + 2 * PAD,
            NULL);
    for (int i = 0; i < cells; i++) {
        int row = i / p->columns;
        double x = left + (i - row * p->columns) * (p->cell + 4);
        double y = c->pods_y + PAD + row * (CELL_H + 4);
        if (i + 1 < cells || cells == p->n) {
            draw_cell(c, p, i, x, y);
            continue;
        }
        svg_box(c->s, "more", x, y, p->cell, CELL_H, NULL);
        svg_text(c->s, "n soft", MIDDLE, x + p->cell / 2, y + 16, p->cell - 6,
                 "%d more", p->n - i);
    }
}

void fabric_draw_pods(struct fabric_page *c)
{
    int groups = 0, nodes = 0;
    double x = c->x + c->w + 2 * GAP;

    for (int p = 0; p < c->v.n_pods; p++) {
        if (c->v.pod[p].drawn)
            draw_pod(c, &c->v.pod[p]);
        else {
            groups++;
            nodes += c->v.pod[p].n;
        }
    }
    if (!groups)
        return;
    svg_box(c->s, "more", x, c->pods_y, 150, 44 + PAD, NULL);
    svg_text(c->s, "l soft", MIDDLE, x + 75, c->pods_y + 24, 140, "and %d more groups",
             groups);
    svg_text(c->s, "l soft", MIDDLE, x + 75, c->pods_y + 40, 140, "of %d nodes", nodes);
}
