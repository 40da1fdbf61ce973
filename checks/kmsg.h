/* kmsg.h - the kernel's log: killed processes, and what drivers complain of. */
#ifndef CHECKS_KMSG_H
#define CHECKS_KMSG_H

struct err;

typedef void kmsg_see(void *arg, double age_s, const char *text);

/* Calls see() for each message of the last `hours`, oldest first.  root "": /dev/kmsg of
 * this machine, else the same records in ROOT/dev/kmsg, whose age counts from
 * ROOT/proc/uptime.  -1, ERR_MISSING: it may not be read (kernel.dmesg_restrict), or
 * there is none; "nothing was seen" is another answer. */
int kmsg_read(const char *root, double hours, kmsg_see *see, void *arg,
              struct err *err);

/* One record as /dev/kmsg gives it (changed on the way), at now_s seconds since boot: see()
 * unless it is older, or no record.  For fuzzing. */
void kmsg_record(char *line, double now_s, double hours, kmsg_see *see, void *arg);

#endif
