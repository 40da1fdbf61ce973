/* slurm_setup.h - cluster.slurm.setup: a command of the site, once on each node.
 *
 * One step with a task a node, `muster agent setup COMMAND...`, which runs the command,
 * says how it ended, and keeps its last line.  No shell reads the command. */
#ifndef LAUNCHER_SLURM_SETUP_H
#define LAUNCHER_SLURM_SETUP_H

struct err;
struct machines;
struct recipe;
struct slurm_place;
struct strlist;
struct topology;

enum { SLURM_SETUP_MS = 120000 };

/* Nothing to do is 0.  ERR_FAILED names the first node where it failed, with its status
 * and last words; ERR_TIMEOUT the nodes that are not done.
 * timeout_ms <= 0: SLURM_SETUP_MS.  With both, *bad gets the names of all these nodes
 * (NULL: it is not asked for). */
int slurm_setup(const struct machines *m, const struct recipe *r, int timeout_ms,
                struct strlist *bad, struct err *err);
/* The command of the step; argv->item ends with NULL. */
void slurm_setup_argv(const struct slurm_place *p, const struct topology *t,
                      const struct recipe *r, const char *self, struct strlist *argv);

/* On a node: run argv (which ends with NULL) and say how it ended; 0, or -1. */
int slurm_setup_node(char *const *argv, struct err *err);

/* What the nodes said, against the nodes there are; for tests. */
int slurm_setup_judge(const struct topology *t, const char *command, const char *said,
                      int is_late, const char *words, struct strlist *bad,
                      struct err *err);

#endif
