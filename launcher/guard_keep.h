/* guard_keep.h - the third process: ends a run whose guardian and launcher died at once.
 *
 *   guardian --+-- launcher ---- ranks
 *              +-- keeper
 *
 * It waits at a pipe that the two hold open and nobody else.  When both have died without
 * a word it ends everything that carries the run's mark, TERM, grace, KILL, and tidies up.
 * It shares nothing else with them: a session of its own, no descriptors, no signal but
 * KILL, and the words of the command line are not there, so that whatever finds the two by
 * their names (killall, pkill -f) leaves it. */
#ifndef LAUNCHER_GUARD_KEEP_H
#define LAUNCHER_GUARD_KEEP_H

#include <sys/types.h>

struct err;

struct keeper {
    int life[2]; /* read by the keeper, held by the two */
    pid_t pid;
};

/* Before the launcher is forked.  ERR_SYSTEM. */
int keeper_prepare(struct keeper *k, struct err *err);
/* In the launcher, after its fork. */
void keeper_hold(struct keeper *k);
/* In the guardian, after that fork.  tidy() is called in the keeper, after the rest.  A
 * keeper that cannot be had is no failure: the two guard each other still. */
void keeper_start(struct keeper *k, const char *mark, int grace_ms, void (*tidy)(void));
/* In the guardian, when all is ended: the keeper leaves, before this returns. */
void keeper_dismiss(struct keeper *k);

/* In main(), first: where the command line lies. */
void keeper_words(int argc, char **argv);

#endif
