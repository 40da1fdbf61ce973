/* host_load.h - processors that programs of others keep busy. */
#ifndef CHECKS_HOST_LOAD_H
#define CHECKS_HOST_LOAD_H

struct measures;

struct host_task {
    long pid;
    char name[24];
    double ticks; /* user and system time since its start */
};

/* Ticks of the processors and of every process that can be seen, at one moment. */
struct host_load {
    struct host_task *item;
    int n;
    double busy, idle; /* of all processors; idle 0: unknown */
};

void host_load_look(const char *root, struct host_load *out);
void host_load_release(struct host_load *l);

/* "load": how many of the processors others than the check kept busy between two looks;
 * those that cannot be seen (of other containers) count, those that can are named. */
void host_measure_load(const struct host_load *before, const struct host_load *after,
                       const char *name, struct measures *out);

#endif
