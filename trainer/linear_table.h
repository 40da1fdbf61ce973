/* linear_table.h - plans of dense products, kept in a file from run to run.
 *
 * A plan is what cuBLASLt's heuristic chose for one form, shape, alignment and precision.
 * The same library on the same GPU chooses alike; a table also holds the choice where it is
 * read again, and says which library and GPU it was made with.  Text: a title, the machine,
 * then a plan a line: 9 numbers of the key, the workspace, 8 hexadecimal words. */
#ifndef TRAINER_LINEAR_TABLE_H
#define TRAINER_LINEAR_TABLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;

enum { LINEAR_KEY = 9, LINEAR_ALGO = 8 };

struct linear_plan {
    int32_t key[LINEAR_KEY];
    uint64_t workspace;         /* bytes */
    uint64_t algo[LINEAR_ALGO]; /* as the library has it */
};

struct linear_table {
    int n;
    struct linear_plan *plan; /* owned */
};

/* An absent file gives an empty table; one of another machine, or none of ours, is
 * ERR_USAGE. */
int linear_table_load(const char *path, const char *machine, struct linear_table *out,
                      struct err *err);
/* Whole or not at all. */
int linear_table_save(const char *path, const char *machine,
                      const struct linear_table *t, struct err *err);
const struct linear_plan *
linear_table_find(const struct linear_table *t,
                  const int32_t key[LINEAR_KEY]); /* or NULL */
void linear_table_add(struct linear_table *t, const struct linear_plan *p);
void linear_table_release(struct linear_table *t);

#ifdef __cplusplus
}
#endif
#endif
