/* slurm_lib.h - the only door to libslurm, which is loaded at run time.
 *
 * Only for the helper process (slurm_helper.h): libslurm ends its caller with exit(1)
 * where it finds no configuration, and waits a minute for a controller that is away.
 *
 * Structs of libslurm are those of one major version, the one whose header muster was
 * built with; another one, or none, is ERR_MISSING with the reason, as is a build
 * without the header (make SLURM=0).  MUSTER_LIBSLURM names the file to load in the
 * place of the usual one; "off": none. */
#ifndef LAUNCHER_SLURM_LIB_H
#define LAUNCHER_SLURM_LIB_H

#include <stdio.h>

#include "launcher/slurm_ask.h"

struct err;
struct str;

/* Load it and look at its version, first of all.  *text (may be NULL) is the version
 * and the file, the caller's to free(). */
int slurm_lib_open(char **text, struct err *err);

/* What `scontrol show` prints of it, byte for byte. */
int slurm_lib_show(enum slurm_question what, const char *arg, FILE *out,
                   struct err *err);

/* signo 0: end it.  ERR_FAILED with Slurm's words. */
int slurm_lib_cancel(const char *job, int signo, struct err *err);
/* An allocation that its owner is done with. */
int slurm_lib_complete(unsigned job, struct err *err);

/* Ask for nodes and wait for them, without a limit.  `flags`: salloc's, as
 * slurm_alloc_options() makes them, ending with NULL; one that is not understood
 * is ERR_USAGE.  pending(job): called when there is a queue.  over(): called from
 * another thread when the job has ended without us.  *said: NAME=VALUE lines that
 * salloc would set. */
struct slurm_lib_calls {
    void (*pending)(unsigned job);
    void (*over)(void);
};
int slurm_lib_allocate(char *const *flags, const struct slurm_lib_calls *calls,
                       unsigned *job, struct str *said, struct err *err);

#endif
