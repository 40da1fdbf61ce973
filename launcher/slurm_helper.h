/* slurm_helper.h - `muster agent slurm VERB`: the process that libslurm lives in.
 *
 *   version | job ID | nodes [LIST] | topology | partitions [NAME] | cancel ID SIGNAL
 *       one answer on stdout, and the end.  A status that is not 0: 1 Slurm's refusal
 *       (its words on stderr; libslurm's own exit(1) looks the same), 3 there is no
 *       libslurm to use, 5 the controller does not answer
 *   place ID LIST
 *       the answers to job ID, nodes LIST and topology (empty when there is none), each
 *       behind its length in bytes and a newline
 *   allocate FLAG...
 *       asks for nodes and keeps them: the lines "job ID" (there is a queue), then
 *       NAME=VALUE for the environment of a job, then "granted"
 *   hold
 *       the same lines, of the job that salloc started it in
 *
 * The two that keep nodes give them back when stdin ends, or at INT, TERM or HUP. */
#ifndef LAUNCHER_SLURM_HELPER_H
#define LAUNCHER_SLURM_HELPER_H

struct err;

/* argv[0] is the verb; the exit status, or -1. */
int slurm_helper(int argc, char **argv, struct err *err);

#endif
