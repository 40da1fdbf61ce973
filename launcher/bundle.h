/* bundle.h - what runs muster on a host that has none: programs, libraries, plug-ins.
 *
 * Programs: muster and those that stand beside it.  Libraries: every one that the dynamic
 * loader takes for them, and muster's own modules.  Plug-ins: those of Open MPI and PMIx
 * that need no other library.  Not in it: glibc, which must fit the host's kernel and
 * name services, and the NVIDIA driver's libraries, which must fit its module. */
#ifndef LAUNCHER_BUNDLE_H
#define LAUNCHER_BUNDLE_H

#include <stdint.h>

#include "base/str.h"
#include "launcher/ssh_copy.h"

struct err;

/* One folder of it each; the programs last: who finds them finds the rest. */
enum bundle_kind { BUNDLE_LIB, BUNDLE_MPI, BUNDLE_PMIX, BUNDLE_BIN, BUNDLE_KINDS };

struct bundle_part {
    struct strlist from, name;  /* paths here, names there; the same n */
    struct ssh_copy_file *file; /* [from.n], their strings are borrowed from above */
};

struct bundle {
    char id[17];   /* 16 hex digits over all that is in it */
    int64_t bytes; /* of all files */
    struct bundle_part part[BUNDLE_KINDS];
};

/* "lib", "mpi", "pmix", "bin". */
const char *bundle_folder(enum bundle_kind kind);

/* `cuda`: with the CUDA module and its libraries, which are gigabytes.  A library that
 * the module asks for and that is not here is left out: its ranks say so.
 * ERR_MISSING: a program or another library is not here. */
int bundle_make(struct bundle *out, int cuda, struct err *err);
void bundle_release(struct bundle *b);

/* Does a host bring this library itself (glibc, the driver)?  `name`: "libc.so.6". */
int bundle_is_system(const char *name);

#endif
