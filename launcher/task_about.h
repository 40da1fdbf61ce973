/* task_about.h - where a task is; task_state.h has how its rank runs. */
#ifndef LAUNCHER_TASK_ABOUT_H
#define LAUNCHER_TASK_ABOUT_H

struct js;

/* The HELLO of task_wire.h. */
struct js *task_about(void);
/* The environment variable as a number; -1 when there is none. */
int task_number(const char *name);

#endif
