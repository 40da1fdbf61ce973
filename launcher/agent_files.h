/* agent_files.h - what a job needs of the file systems of its node, before it starts. */
#ifndef LAUNCHER_AGENT_FILES_H
#define LAUNCHER_AGENT_FILES_H

struct agent_job;
struct err;

/* Go to the folder where ranks start, and see that all that they read or write is there.
 * ERR_MISSING lists what is not, and what to do about it. */
int agent_files_check(const struct agent_job *j, struct err *err);

/* The file that came with the job, into `folder`: argv names it from now on. */
int agent_files_write(struct agent_job *j, const char *folder, struct err *err);

#endif
