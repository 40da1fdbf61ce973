/* slurm_fault.h - who is to blame when the agents of a Slurm step go away.
 *
 * No process, descriptor or clock of its own: backend_slurm.c feeds what it sees, in
 * any order; times in ms of clock_ms().  A lost agent is a symptom: a killed step, a
 * dead node, a dead slurmstepd or srun show as many of them within a moment, so the
 * judgement waits for SLURM_FAULT_MS after the first.  The first rule that fits wins:
 *   srun ended        by a signal that is not ours: it is named
 *   Slurm's own end   srun said CANCELLED (scancel, time limit, preemption), or
 *                     "Node failure on NODE"; but when a rank failed by itself before
 *                     (MPI_Abort), that one is left to be named
 *   node lost         all agents of one node or some nodes, and srun saw none of
 *                     them die
 *   slurmstepd died   agents saw their parent go, and live: the node is named
 *   agent died        the rest
 */
#ifndef LAUNCHER_SLURM_FAULT_H
#define LAUNCHER_SLURM_FAULT_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct slurm_fault;

enum { SLURM_FAULT_MS = 700 };

struct slurm_verdict {
    int status;        /* exit status of design.md */
    const char *cause; /* "node", "stopped", "system" */
    int culprit;       /* rank, -1: several or none */
    struct str reason; /* one line; the caller's to str_release() */
};

/* host[world]: the node of each rank; borrowed for its life. */
struct slurm_fault *slurm_fault_new(int world, const char *const *host);
void slurm_fault_free(struct slurm_fault *f); /* NULL is fine */

/* One line that srun printed. */
void slurm_fault_line(struct slurm_fault *f, const char *line, int64_t now);
void slurm_fault_lost(struct slurm_fault *f, int rank, int64_t now);
/* The parent of this rank's agent has died. */
void slurm_fault_orphan(struct slurm_fault *f, int rank, int64_t now);
/* A rank ended, and its agent could still say so. */
void slurm_fault_exit(struct slurm_fault *f, int rank, int wait_status);
/* What a rank printed: Slurm ends a step as scancel does when one calls MPI_Abort, and
 * what the MPI libraries then print is the only word of it. */
void slurm_fault_printed(struct slurm_fault *f, const char *bytes, size_t n);
/* srun ended by a signal that muster did not send. */
void slurm_fault_srun(struct slurm_fault *f, int pid, int signo, int64_t now);

/* When slurm_fault_judge() will know; 0: nothing is wrong. */
int64_t slurm_fault_due(const struct slurm_fault *f);
/* 1 and *out, once, when it is due; else 0. */
int slurm_fault_judge(struct slurm_fault *f, int64_t now, struct slurm_verdict *out);
/* Did srun say that the task of this rank has ended? */
int slurm_fault_is_over(const struct slurm_fault *f, int rank);
/* Why a node could not execute the task's program, "" when it did. */
const char *slurm_fault_exec(const struct slurm_fault *f);
/* Is the failure told of this rank's node (after the judgement)? */
int slurm_fault_blames(const struct slurm_fault *f, int rank);

#endif
