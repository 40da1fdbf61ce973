#include "checks/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "topology/sysfs.h"

enum {
    RECORD = 8192,   /* the kernel cuts a record to this */
    RECORDS = 200000 /* a log that grows while it is read still ends */
};

struct reader {
    double now_s, hours;
    kmsg_see *see;
    void *arg;
};

static double uptime(const char *root)
{
    struct sysfs s = { root };
    struct timespec t;
    char text[64];

    if (*root)
        return sysfs_read(&s, text, sizeof(text), "/proc/uptime") == 0
                   ? strtod(text, NULL)
                   : 0;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* "6,2460,5885908809,-;text": level, number, microseconds since boot, flags.  Lines that
 * begin with a blank belong to the record above and say which device it was. */
void kmsg_record(char *line, double now_s, double hours, kmsg_see *see, void *arg)
{
    char *text = strchr(line, ';'), *at = strchr(line, ',');
    double age;

    at = at ? strchr(at + 1, ',') : NULL;
    if (*line == ' ' || !text || !at || at > text)
        return;
    text++;
    text[strcspn(text, "\n")] = '\0';
    age = now_s - strtod(at + 1, NULL) / 1e6;
    if (age <= hours * 3600)
        see(arg, age < 0 ? 0 : age, text);
}

static void take_record(const struct reader *r, char *line)
{
    kmsg_record(line, r->now_s, r->hours, r->see, r->arg);
}

/* One read is one record.  EPIPE: it was overwritten before it was read. */
static void read_live(int fd, const struct reader *r)
{
    char buf[RECORD + 1];

    for (int i = 0; i < RECORDS; i++) {
        ssize_t n = read(fd, buf, RECORD);

        if (n > 0) {
            buf[n] = '\0';
            take_record(r, buf);
        } else if (n == 0 || (errno != EPIPE && errno != EINTR)) {
            return;
        }
    }
}

static void read_file(int fd, const struct reader *r)
{
    FILE *fp = fdopen(dup(fd), "r");
    char *line = NULL;
    size_t room = 0;

    while (fp && getline(&line, &room, fp) >= 0)
        take_record(r, line);
    if (fp)
        fclose(fp);
    free(line);
}

int kmsg_read(const char *root, double hours, kmsg_see *see, void *arg, struct err *err)
{
    char *path = xasprintf("%s/dev/kmsg", root);
    struct reader r = { uptime(root), hours, see, arg };
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), rc = 0;

    if (fd < 0)
        rc = err_set(err, ERR_MISSING,
                     "%s: %m: the kernel's log may be read by root, or where "
                     "kernel.dmesg_restrict is 0",
                     path);
    else if (*root)
        read_file(fd, &r);
    else
        read_live(fd, &r);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}
