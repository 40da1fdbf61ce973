/* launch_check.h - the checks that come before a recipe is launched. */
#ifndef LAUNCHER_LAUNCH_CHECK_H
#define LAUNCHER_LAUNCH_CHECK_H

struct err;
struct preflight;
struct strlist;

/* Run the checks and say in one line how they went.  0: go on.  -1: the launch is
 * refused; the message lists each reason, the code is that of `muster check` (1 a
 * check failed or is undecided, 3 a required one could not be measured), and the nodes
 * that failed are added to *bad. */
int launch_check(const struct preflight *q, struct strlist *bad, struct err *err);

#endif
