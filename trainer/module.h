/* module.h - muster's own shared objects, loaded by the ranks that need what they bring.
 *
 *   muster-blas.so  OpenBLAS, for CPU ranks             trainer/blas.c
 *   muster-mpi.so   MPI, for two or more CPU ranks      trainer/coll_mpi*.c
 *   muster-cuda.so  CUDA, NCCL, cuDNN, for GPU ranks    trainer/ops_cuda.cu and others
 * A rank that computes on a GPU, or on nothing, starts without OpenBLAS and MPI, and a
 * node of such ranks need not have them. */
#ifndef TRAINER_MODULE_H
#define TRAINER_MODULE_H

struct err;

/* The file: $`set` if that names one (set may be NULL), else lib/NAME in the folder above
 * this program's, or in one or two above that (programs of the tests).  The caller's to
 * free(); where none is there, the first of these. */
char *module_path(const char *name, const char *set);

/* The address of `symbol` in the module, which stays loaded.  global: libraries that come
 * with it are for plug-ins of theirs too (Open MPI's ask for that).  NULL: ERR_MISSING
 * with what the loader said. */
const void *module_find(const char *path, const char *symbol, int global,
                        struct err *err);

#endif
