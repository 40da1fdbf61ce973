/* pairs.h - who is measured with whom, and when.  Pure.
 *
 * A tournament by the circle method (Kirkman, 1847): of an even number of machines m-1
 * stay put in a circle and one outside, and in round r those whose places add up to 2r
 * (mod m-1) meet; the one left over meets the outsider.  Every two meet once, in n-1
 * rounds of n/2 pairs (odd n: n rounds, one machine rests in each), and the pairs of a
 * round share no machine, so they are measured side by side. */
#ifndef CHECKS_PAIRS_H
#define CHECKS_PAIRS_H

struct err;
struct strlist;

/* 0 for fewer than two. */
int pairs_rounds(int n);
/* Whom machine i (of n) meets in this round; -1: it rests. */
int pairs_partner(int n, int round, int i);

struct pair {
    int a, b; /* machines */
    int round;
};

struct pair_list {
    struct pair *item;
    int n, rounds;
};

/* The whole tournament, round after round. */
void pairs_all(int n, struct pair_list *out);
/* "n1:n2,n3:n4": these only, each in the first round in which both are free.  The names
 * are machines[]; ERR_USAGE for a wrong form, an unknown name, a machine with itself. */
int pairs_parse(const char *text, const struct strlist *machines, struct pair_list *out,
                struct err *err);
/* Whom machine i meets in this round of the list; -1: nobody. */
int pairs_find(const struct pair_list *l, int round, int i);
void pairs_release(struct pair_list *l);

#endif
