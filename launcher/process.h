/* process.h - which process did it, in words that outlive it.
 *
 * A process id alone comes back with another program behind it.  The text
 * "HOST:BOOT:PID:START" (START: clock ticks since boot, /proc/PID/stat field 22)
 * names one process for good. */
#ifndef LAUNCHER_PROCESS_H
#define LAUNCHER_PROCESS_H

struct err;

enum process_state {
    PROCESS_GONE,   /* it ended, or the machine was started again since */
    PROCESS_ALIVE,  /* it runs, and it is that very process */
    PROCESS_REMOTE, /* it ran on another host: not known */
};

/* This process; the caller's to free(). */
char *process_self(void);
enum process_state process_find(const char *text);

/* Signal that very process: its identity is checked while a descriptor holds it
 * fast.  ERR_MISSING when it is gone or on another host. */
int process_signal(const char *text, int signal, struct err *err);

#endif
