/* slurm_cmd.h - Slurm's commands: run one, read what it prints.
 *
 * By fork and exec, never through a shell.  A controller that does not answer holds a
 * command for up to a minute, so each has a deadline. */
#ifndef LAUNCHER_SLURM_CMD_H
#define LAUNCHER_SLURM_CMD_H

struct err;
struct str;

enum { SLURM_CMD_MS = 30000 };

/* argv[0] is looked up in PATH.  ERR_MISSING: it is not there; ERR_TIMEOUT; ERR_FAILED
 * with its last words when its status is not 0. */
int slurm_cmd_read(char *const argv[], int timeout_ms, struct str *out,
                   struct err *err);

/* The same for one whose status means something: 0 when it ended by itself, *status is
 * its exit status (128+n of signal n), *words its last words (appended; "" none).
 * At its deadline both hold what came until then.  `name` stands for it in messages. */
int slurm_cmd_run(char *const argv[], const char *name, int timeout_ms, struct str *out,
                  struct str *words, int *status, struct err *err);

#endif
