/* What NCCL's own model chooses, and the latency and efficiency that it gives.
 * Figures: NCCL 2.30 src/graph/tuning.cc (ncclTunerConstantsDefaults,
 * ncclTopoTuneModel, treeCorrectionFactor, ncclTopoGetAlgoTime); microseconds and GB/s.
 * Left out: NVLS, CollNet and PAT; the limits of a channel, since the number of
 * channels is not known. */
#include <math.h>

#include "base/mem.h"
#include "topology/cost_state.h"

enum { N_PROTOCOLS = 3 };
enum wire { WIRE_NVLINK, WIRE_PCIE, WIRE_NET };

static const double base_us[2][N_PROTOCOLS] = {
    [COST_RING] = { 6.6, 14.0, 8.4 },
    [COST_TREE] = { 6.8, 14.0, 8.4 },
};
static const double step_us[3][2][N_PROTOCOLS] = {
    [WIRE_NVLINK] = { [COST_RING] = { 0.6, 1.9, 3.4 },
                      [COST_TREE] = { 0.6, 1.25, 4.0 } },
    [WIRE_PCIE] = { [COST_RING] = { 1.0, 2.5, 5.7 }, [COST_TREE] = { 1.0, 1.9, 4.0 } },
    [WIRE_NET] = { [COST_RING] = { 2.7, 4.0, 14.0 }, [COST_TREE] = { 5.0, 8.5, 14.0 } },
};
/* By size, from 64 B by powers of two. */
static const double tree_correction[N_PROTOCOLS]
                                   [23] = {
                                       { 1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                                         .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1 },
                                       { 1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
                                         .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1 },
                                       { .9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                         .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9 },
                                   };
/* Of protocol LL: one node by GPU generation; else by CPU, two nodes and more. */
static const double ll_one_node[] = { 39.0, 87.7, 141.0, 282.0 };
static const double ll_nodes[2][2] = { { 39.0, 20.4 }, { 22.5, 19.0 } };

const char *cost_algorithm_name(enum cost_algorithm a)
{
    static const char *const names[] = { "ring", "tree", "pairs" };

    return names[a];
}

const char *cost_protocol_name(enum cost_protocol p)
{
    static const char *const names[] = { "LL", "LL128", "Simple", "" };

    return names[p];
}

static int log2_of(int64_t n)
{
    int log = 0;

    while (n > 1) {
        n >>= 1;
        log++;
    }
    return log;
}

static int is_reduced_twice(enum collective c)
{
    return c == COLLECTIVE_ALL_REDUCE;
}

/* --- time from the node's links alone ---------------------------------------------- */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Seconds of the slower of GPU links and NICs; what is not known costs nothing. */
static double over_links(double inner_bytes, double outer_bytes,
                         const struct cost_shape *s)
{
    double inner = s->inner_rate > 0 ? inner_bytes / s->inner_rate : 0;
    double outer = s->outer_rate > 0 && s->nodes > 1 ? outer_bytes / s->outer_rate : 0;

    return larger(inner, outer);
}

/* Bytes of a GPU inside its node and outside, as cost.h has them. */
static double wire_seconds(enum collective c, int64_t bytes, enum cost_algorithm a,
                           const struct cost_shape *s)
{
    double local = (double)s->ranks / s->nodes, w = cost_ring_bytes(c, bytes, s->ranks);
    double inside = s->nodes == 1 ? 1 : (local - 1) / local;

    if (a == COST_RING)
        return over_links(w * inside, w / local, s);
    w = 2 * (double)bytes;
    return over_links(w * inside, (s->nodes == 2 ? w / 2 : w) / local, s);
}

/* --- latency and efficiency --------------------------------------------------------- */

static enum wire inner_wire(const struct cost_shape *s)
{
    return s->inner == COST_NVLINK ? WIRE_NVLINK : WIRE_PCIE;
}

static double ring_latency(enum collective c, int64_t bytes, enum cost_protocol p,
                           const struct cost_shape *s)
{
    double inner = step_us[inner_wire(s)][COST_RING][p], us;
    double outer = step_us[WIRE_NET][s->ranks == s->nodes ? COST_TREE : COST_RING][p];
    double posting = s->nodes == 1 ? 0 : (s->amd ? 2 : 1) * (p == COST_SIMPLE ? 3 : 1);
    int rounds = is_reduced_twice(c) ? 2 : 1;
    int steps = rounds * (s->ranks - 1), crossing = rounds * (s->nodes - 1);

    if (c == COLLECTIVE_BROADCAST || c == COLLECTIVE_REDUCE)
        return base_us[COST_RING][p] + (s->nodes == 1 ? inner : outer);
    us = base_us[COST_RING][p] + (steps - crossing) * larger(inner, posting) +
         crossing * outer;
    if (is_reduced_twice(c) && p == COST_SIMPLE && s->nodes > 1 &&
        bytes / s->ranks >= 64)
        us *= s->sm >= 0 && s->sm < 80 ? 1.9 : 1.4; /* NCCL: "plateau effect of ring" */
    return us;
}

static double tree_latency(enum cost_protocol p, const struct cost_shape *s)
{
    double outer = step_us[WIRE_NET][COST_TREE][p];
    int local = s->ranks / s->nodes;

    return base_us[COST_TREE][p] +
           2 * ((local - 1) * step_us[inner_wire(s)][COST_TREE][p] +
                log2_of(s->nodes) * outer);
}

static int generation(int sm)
{
    return sm >= 100 ? 3 : sm >= 90 ? 2 : sm >= 80 ? 1 : 0;
}

/* Share of `bus` that LL gets. */
static double ll_share(double share, double bus, const struct cost_shape *s)
{
    double most = s->nodes == 1 ? ll_one_node[generation(s->sm)]
                                : ll_nodes[s->amd != 0][s->nodes > 2];

    return bus > 0 && most * 1e9 / bus < share ? most * 1e9 / bus : share;
}

static double efficiency(enum cost_algorithm a, enum cost_protocol p, int64_t bytes,
                         double bus, const struct cost_shape *s)
{
    int log = log2_of(bytes >> 6);
    double share = 0.92;

    if (a == COST_RING)
        return p == COST_LL ? ll_share(.5, bus, s) : p == COST_LL128 ? .92 : 1;
    if (p == COST_LL)
        share = ll_share(share / 3.8, bus, s);
    else if (p == COST_LL128)
        share *= s->nodes == 1 ? 7.0 / 9 : 120.0 / 128;
    return log < 23 ? share * tree_correction[p][log] : share;
}

/* --- choosing ------------------------------------------------------------------------ */

static int is_allowed(enum cost_algorithm a, enum cost_protocol p, enum collective c,
                      const struct cost_shape *s)
{
    if (a == COST_TREE && c != COLLECTIVE_ALL_REDUCE)
        return 0;
    return p != COST_LL128 || (s->sm >= 70 && inner_wire(s) == WIRE_NVLINK);
}

static struct cost_choice choose_nccl(enum collective c, int64_t bytes,
                                      const struct cost_shape *s)
{
    struct cost_choice best = { .algorithm = COST_RING,
                                .protocol = COST_SIMPLE,
                                .efficiency = 1 };
    double least = INFINITY;

    for (int a = COST_RING; a <= COST_TREE; a++)
        for (int p = COST_SIMPLE; p >= COST_LL; p--) {
            enum cost_algorithm algorithm = (enum cost_algorithm)a;
            enum cost_protocol protocol = (enum cost_protocol)p;
            double wire = wire_seconds(c, bytes, algorithm, s), us, share;
            if (!is_allowed(algorithm, protocol, c, s))
                continue;
            share = efficiency(algorithm, protocol, bytes,
                               cost_ring_bytes(c, bytes, s->ranks) / wire, s);
            us = a == COST_RING ? ring_latency(c, bytes, protocol, s)
                                : tree_latency(protocol, s);
            if (us * 1e-6 + wire / share < least) {
                least = us * 1e-6 + wire / share;
                best = (struct cost_choice){ algorithm, protocol, us * 1e-6, 0, share };
            }
        }
    return best;
}

/* The last step of a ring only receives: with protocol Simple a GPU copies a block, S/n,
 * out of its buffer while it sends nothing. */
static double idle_seconds(enum collective c, int64_t bytes,
                           const struct cost_choice *x, const struct cost_shape *s)
{
    double block = (double)bytes / s->ranks;

    if (x->algorithm != COST_RING || x->protocol != COST_SIMPLE ||
        c == COLLECTIVE_BROADCAST || c == COLLECTIVE_REDUCE || !(s->inner_rate > 0))
        return 0;
    return block / (COST_COPY_FACTOR * s->inner_rate);
}

/* Processes of CPUs: a ring by MPI. */
static struct cost_choice choose_memory(enum collective c, const struct cost_shape *s)
{
    int rounds = is_reduced_twice(c) ? 2 : 1;
    int steps = c == COLLECTIVE_SENDRECV ? 1 : rounds * (s->ranks - 1);
    int outer = c == COLLECTIVE_SENDRECV ? s->nodes > 1 : rounds * (s->nodes - 1);
    double us = outer * step_us[WIRE_NET][COST_RING][COST_SIMPLE] +
                (steps - outer) * COST_MEMORY_ALPHA_US;

    return (struct cost_choice){ COST_RING, COST_NO_PROTOCOL, us * 1e-6, 0, 1 };
}

/* NCCL sends to PEERS others at a time (NCCL_MAX_DEV_WORK_P2P_PER_BATCH). */
enum { PEERS = 8 };

static struct cost_choice choose_pairs(enum collective c, const struct cost_shape *s)
{
    int rounds = c == COLLECTIVE_SENDRECV ? 1 : (s->ranks - 1 + PEERS - 1) / PEERS;
    enum wire w = s->nodes > 1 ? WIRE_NET : inner_wire(s);
    double us =
        base_us[COST_RING][COST_SIMPLE] + rounds * step_us[w][COST_RING][COST_SIMPLE];

    return (struct cost_choice){ COST_PAIRS, COST_SIMPLE, us * 1e-6, 0, 1 };
}

struct cost_choice cost_choose(enum collective c, int64_t bytes,
                               const struct cost_shape *s)
{
    struct cost_choice x;

    if (s->inner == COST_MEMORY) {
        x = choose_memory(c, s);
        if (c == COLLECTIVE_ALL_TO_ALL || c == COLLECTIVE_SENDRECV)
            x.algorithm = COST_PAIRS;
        return x;
    }
    if (c == COLLECTIVE_ALL_TO_ALL || c == COLLECTIVE_SENDRECV)
        return choose_pairs(c, s);
    x = choose_nccl(c, bytes, s);
    x.idle_s = idle_seconds(c, bytes, &x, s);
    return x;
}
