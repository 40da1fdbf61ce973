/* judge_like.h - verdicts on what must be like the others of its kind, and on events that
 * were counted.  Private to judge.c.  All expect that m->value is a number. */
#ifndef CHECKS_JUDGE_LIKE_H
#define CHECKS_JUDGE_LIKE_H

struct check;
struct likes; /* what was found out about kinds so far */
struct measure;
struct measures;
struct verdict;

struct likes *likes_new(const struct measures *all);
void likes_free(struct likes *l);

/* m->text is equal on all measures of its name and kind.  Where more than half have the
 * same, the others fail; where none has a majority, all are undecided and nobody is
 * excluded.  What is not required only warns. */
void judge_same(const struct check *c, struct likes *l, const struct measure *m,
                struct verdict *v);

/* m->value is not below what more than half of the measures of its name and kind have. */
void judge_usual(const struct check *c, struct likes *l, const struct measure *m,
                 struct verdict *v);

/* m->value events in m->seconds, where m->need an hour are allowed (0: none).  It fails
 * where so many would be seen by chance once in a thousand tests at most (Poisson), and
 * warns where there are more than allowed but too few to tell. */
void judge_rate(const struct check *c, const struct measure *m, struct verdict *v);

/* The chance of n events or more where `mean` are expected. */
double judge_chance(double n, double mean);

#endif
