/* slurm_probe.h - what the nodes of the allocation look like from inside: one task of
 * `muster agent look` on each, as a step of its own. */
#ifndef LAUNCHER_SLURM_PROBE_H
#define LAUNCHER_SLURM_PROBE_H

struct err;
struct slurm_place;
struct str;
struct topology;

enum { SLURM_PROBE_MS = 60000 };

/* The nodes of this allocation as they see themselves, under Slurm's names, with Slurm's
 * leaves.  A node that is down or does not answer stays as Slurm describes it, and is a
 * finding, as are GPUs of which Slurm counts others than there are.  ERR_MISSING outside an
 * allocation; ERR_FAILED or ERR_TIMEOUT when no node answers. */
int topology_from_slurm_job(struct topology **out, struct err *err);

/* On a node: describe it on stdout.  srun cuts lines at 1024 bytes and mixes those of
 * several tasks, so it writes short ones: "muster-look NODE TEXT". */
int slurm_probe_node(struct err *err);

/* --- parts, for tests ------------------------------------------------------------- */

/* The text that `node` wrote, in what all wrote; 0: nothing. */
int slurm_probe_text(const char *said, const char *node, struct str *out);

/* Put what was said in the place of the nodes that Slurm describes; words: srun's last.
 * *t is replaced. */
int slurm_probe_join(struct topology **t, const char *said, const char *words,
                     struct err *err);

#endif
