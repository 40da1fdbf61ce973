/* doctor.h - the things that muster can use, one row each. */
#ifndef LAUNCHER_DOCTOR_H
#define LAUNCHER_DOCTOR_H

struct doctor_item {
    const char *name;
    int required; /* for training on this machine's CPUs */
    /* 1: it is there, *text is its version or place; 0: it is not, *text is why, or
     * NULL.  *text is the caller's to free(). */
    int (*look)(const struct doctor_item *item, char **text);
    const char *of, *symbol; /* what look() is about: a program, a library, its call */
    const char *adds;        /* what is possible with it */
    const char *cure;        /* how to get it */
};

int doctor_items(const struct doctor_item **out);

/* The first line that a program writes within 3 seconds, to either stream; the
 * caller's to free().  NULL: it cannot be started or writes nothing.  *works: it
 * ended in that time, with status 0. */
char *doctor_first_line(char *const argv[], int *works);
/* The whole path of a program on PATH, the caller's to free(); NULL: none. */
char *doctor_program(const char *name);

#endif
