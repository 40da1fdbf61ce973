/* slurm_ask.h - questions to Slurm, answered in one of two ways.
 *
 *   library    libslurm, in a helper process that is killed at its deadline
 *   commands   scontrol and scancel, where libslurm is not there, or of another major
 *              version, or was not known when muster was built
 *
 * The answers are the same bytes: what `scontrol show` prints, for slurm_record.h and
 * the reader of topologies.  Which way it is, is found out by the first question. */
#ifndef LAUNCHER_SLURM_ASK_H
#define LAUNCHER_SLURM_ASK_H

struct err;
struct str;

enum slurm_question {
    SLURM_ASK_JOB,        /* show job -d ARG */
    SLURM_ASK_NODES,      /* show node -d [ARG: a host list] */
    SLURM_ASK_TOPOLOGY,   /* show topology */
    SLURM_ASK_PARTITIONS, /* show partition [ARG] */
    SLURM_QUESTIONS
};

enum { SLURM_ASK_MS = 30000 }; /* or what MUSTER_SLURM_TIMEOUT says, a duration */

/* Appends to *text.  arg may be NULL where it stands in brackets.  ERR_MISSING: no way
 * to ask; ERR_TIMEOUT: the controller does not answer; ERR_FAILED: Slurm's refusal. */
int slurm_ask(enum slurm_question what, const char *arg, int timeout_ms,
              struct str *text, struct err *err);
/* The job, its nodes and the topology at once, by one process instead of three: the next
 * slurm_ask() about each answers from here.  -1: ERR_TIMEOUT; when it fails otherwise,
 * each asks for itself and says what is wrong. */
int slurm_ask_ahead(const char *job, const char *nodes, struct err *err);
/* End a job (signo 0) or signal its steps. */
int slurm_cancel(const char *job, int signo, struct err *err);

/* Is the library used?  0: *why_not (may be NULL; the caller's to free()) says why not;
 * 1: it names the version and the file. */
int slurm_uses_library(char **why_not);

#endif
