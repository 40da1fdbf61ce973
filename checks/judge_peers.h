/* judge_peers.h - verdicts on devices that must do as well as the others of their kind,
 * and on what a driver says about a GPU.  Private to judge.c.  All expect that m->value is
 * a number. */
#ifndef CHECKS_JUDGE_PEERS_H
#define CHECKS_JUDGE_PEERS_H

struct check;
struct measure;
struct measures;
struct verdict;

/* Measures of one name and kind; the last answer is kept. */
struct peers {
    const struct measures *all;
    const struct measure *of; /* NULL: nothing kept */
    const char *node;         /* only this one's; NULL: all nodes' */
    int n;
    double median, spread; /* spread: median of the distances from the median */
};
void peers_find(struct peers *p, const struct measure *m, int on_node);

/* A rate.  It fails where it lies under the median of three or more by a tenth (two thirds for
 * CPU ranks, which share cores) and by five standard deviations, estimated as 1.48 times
 * the spread; between the two, and with two alone, it is undecided.  It also fails under a
 * share of m->need, what the device itself reports it can do. */
void judge_rates(const struct check *c, struct peers *p, const struct measure *m,
                 struct verdict *v);

/* m->text is the hash of a result that must be equal on all of a kind, m->value how often
 * the device contradicted itself when it was asked again.  One that contradicts itself
 * fails; an odd one fails where at least 3, and more than half, are alike; else those that
 * differ are undecided. */
void judge_bits(const struct check *c, const struct measures *all,
                const struct measure *m, struct verdict *v);

/* judge_gpu.c: throttle reasons (case D06), PCIe (D07), clock, temperature. */
void judge_gpu(const struct check *c, struct peers *p, const struct measure *m,
               struct verdict *v);

#endif
