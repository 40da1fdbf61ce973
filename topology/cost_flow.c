/* The patterns of collectives: which rank sends how much to which. */
#include "topology/cost_state.h"
#include "topology/place.h"
#include "topology/topology.h"

/* `bytes` from one unit to another, spread over the ranks of both. */
static void cross(struct cost_flows *f, int from, int to, double bytes)
{
    int a = cost_members(f, from), b = cost_members(f, to), n = a > b ? a : b;

    for (int i = 0; i < n; i++)
        cost_leave(f, cost_member(f, from, i), cost_member(f, to, i), bytes / n);
}

static void around(struct cost_flows *f, int unit, double bytes)
{
    int n = cost_members(f, unit);

    for (int i = 0; n > 1 && i < n; i++)
        cost_pass(f, cost_member(f, unit, i), cost_member(f, unit, i + 1), unit,
                  f->units == 1 ? bytes : bytes * (n - 1) / n);
}

void cost_flow_ring(struct cost_flows *f)
{
    double w = cost_ring_bytes(f->l->collective, f->l->bytes, f->n);

    for (int u = 0; u < f->units; u++) {
        around(f, u, w);
        if (f->units > 1)
            cross(f, u, (u + 1) % f->units, w);
    }
}

/* The parent of unit u in NCCL's binary tree of n (trees.cc, ncclGetBtree); -1 none. */
static int tree_parent(int n, int u)
{
    int bit = u & -u, up;

    if (u == 0)
        return -1;
    up = (u ^ bit) | (bit << 1);
    return up >= n ? u ^ bit : up;
}

void cost_flow_tree(struct cost_flows *f)
{
    double half = (double)f->l->bytes / 2;
    int n = f->units;

    for (int u = 0; u < n; u++)
        around(f, u, 4 * half);
    for (int u = 1; u < n; u++) {
        /* the second tree is the first one mirrored, or shifted by one */
        int up = tree_parent(n, u), v = n % 2 ? (u + 1) % n : n - 1 - u;
        int up2 = n % 2 ? (up + 1) % n : n - 1 - up;
        cross(f, u, up, half);
        cross(f, up, u, half);
        cross(f, v, up2, half);
        cross(f, up2, v, half);
    }
}

void cost_flow_next(struct cost_flows *f)
{
    for (int u = 0; u < f->units; u++) {
        int n = cost_members(f, u), last = f->units == 1 ? n : n - 1;
        for (int i = 0; i < last; i++)
            cost_pass(f, cost_member(f, u, i), cost_member(f, u, i + 1), u,
                      (double)f->l->bytes);
        if (f->units > 1)
            cost_leave(f, cost_member(f, u, n - 1),
                       cost_member(f, (u + 1) % f->units, 0), (double)f->l->bytes);
    }
}

/* How many of the group's ranks lie below the part; added with d. */
static void count_parts(struct cost_flows *f, int d)
{
    const struct cost_model *m = f->l->m;

    for (int i = 0; i < f->n; i++) {
        const struct place *p = &f->rank[f->l->member[i]];
        int nic = f->l->on_gpus ? cost_nic_of(m, p, 0) : p->nic;
        int leaf = cost_leaf_of(&m->t->nodes[p->node], nic);
        for (int a = leaf < 0 ? -1 : m->part_of[leaf]; a >= 0; a = m->part[a].above)
            f->l->part_count[a] += d;
    }
}

/* Trunks of one rank's share to all others. */
static void spread_trunks(struct cost_flows *f, const struct place *p, double each)
{
    const struct cost_model *m = f->l->m;
    int nic = f->l->on_gpus ? cost_nic_of(m, p, 0) : p->nic;
    int leaf = cost_leaf_of(&m->t->nodes[p->node], nic), top = -1;

    for (int a = leaf < 0 ? -1 : m->part_of[leaf]; a >= 0; a = m->part[a].above) {
        int outside = f->n - f->l->part_count[a];
        if (m->part[a].uplink >= 0 && outside)
            cost_load_link(f, m->part[a].uplink, each * outside, 1);
        top = a;
    }
    if (leaf >= 0)
        f->l->no_trunk += f->sign * each * (f->n - f->l->part_count[top]);
}

/* Every rank to every other. */
void cost_flow_pairs(struct cost_flows *f)
{
    double each = (double)f->l->bytes / f->n;

    count_parts(f, 1);
    for (int u = 0; u < f->units; u++)
        for (int i = 0, n = cost_members(f, u); i < n; i++) {
            const struct place *p = cost_member(f, u, i);
            if (n > 1)
                cost_pass(f, p, cost_member(f, u, i + 1), u, each * (n - 1));
            if (f->units > 1) {
                cost_leave(f, p, p, each * (f->n - n)); /* its NICs; trunks apart */
                spread_trunks(f, p, each);
            }
        }
    count_parts(f, -1);
}
