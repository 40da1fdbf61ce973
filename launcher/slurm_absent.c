/* slurm_absent.c - in the place of slurm_lib.c, in a build without libslurm's header. */
#include "base/err.h"
#include "launcher/slurm_lib.h"

int slurm_lib_open(char **text, struct err *err)
{
    (void)text;
    return err_set(err, ERR_MISSING,
                   "this muster was built without libslurm's header (apt-get install "
                   "libslurm-dev, then make)");
}

int slurm_lib_show(enum slurm_question what, const char *arg, FILE *out,
                   struct err *err)
{
    (void)what, (void)arg, (void)out;
    return slurm_lib_open(NULL, err);
}

int slurm_lib_cancel(const char *job, int signo, struct err *err)
{
    (void)job, (void)signo;
    return slurm_lib_open(NULL, err);
}

int slurm_lib_complete(unsigned job, struct err *err)
{
    (void)job;
    return slurm_lib_open(NULL, err);
}

int slurm_lib_allocate(char *const *flags, const struct slurm_lib_calls *calls,
                       unsigned *job, struct str *said, struct err *err)
{
    (void)flags, (void)calls, (void)job, (void)said;
    return slurm_lib_open(NULL, err);
}
