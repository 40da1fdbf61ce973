/* deadline.h - a step that may hang in a driver or a device gets a hard end.
 *
 * One at a time.  When it passes, the rank says so ("error", code 5) and ends: what hangs
 * there cannot be called off from inside. */
#ifndef CHECKS_DEADLINE_H
#define CHECKS_DEADLINE_H

/* `what` names the step and the device; copied. */
void deadline_start(int ms, const char *what, ...)
    __attribute__((format(printf, 2, 3)));
void deadline_end(void);

#endif
