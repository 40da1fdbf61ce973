/* run_dir.h - the folder of a run and the files in it (see run.h). */
#ifndef LAUNCHER_RUN_DIR_H
#define LAUNCHER_RUN_DIR_H

struct err;
struct js;

/* A new folder MUSTER_HOME/runs/ID of mode 0700 with ranks/ in it.  `name` is made
 * fit for a file name.  *id and *dir are the caller's to free(). */
int run_dir_make(const char *name, char **id, char **dir, struct err *err);

/* The same of a folder that is there, for a run that goes on in it: what a result or a
 * half-written line of events left behind is tidied up.  ERR_MISSING: no such folder. */
int run_dir_take(const char *path, char **id, char **dir, struct err *err);

/* Write DIR/NAME (mode 0600) beside and rename, so that a reader finds all or the
 * old one. */
int run_dir_write(const char *dir, const char *name, const char *text, struct err *err);
int run_dir_write_json(const char *dir, const char *name, const struct js *v,
                       struct err *err);

#endif
