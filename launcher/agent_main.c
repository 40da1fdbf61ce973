/* muster-agent - `muster agent exec` in a program of its own: the task that srun starts.
 *
 * One of these stands beside every rank of a step, so that starting it must cost next
 * to nothing: it is linked with jansson and nothing else of what muster needs, and where
 * a static C library is installed it loads no library at all (the Makefile's STATIC). */
#include <nss.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "launcher/task_agent.h"

/* Without a loader (no base of one): it must not load what nsswitch.conf names beyond the
 * two that are in the C library, perhaps from another version's. */
static void resolve_without_libraries(void)
{
    if (!getauxval(AT_BASE))
        __nss_configure_lookup("hosts", "files dns");
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    int status = -1;

    resolve_without_libraries();
    if (argc == 2 && str_eq(argv[1], "exec"))
        status = task_exec(&err);
    else
        err_set(&err, ERR_USAGE,
                "muster starts this by itself, beside each rank of a Slurm step");
    if (status < 0) {
        dprintf(STDERR_FILENO, "muster: %s\n", err_text(&err));
        status = (int)err.code;
    }
    err_release(&err);
    return status;
}
