/* table.h - text in columns, each as wide as its widest cell.
 *
 *   struct table t = { 0 };
 *   table_add(&t, "GPUs"); table_add(&t, "tokens/s/GPU"); table_end_row(&t);
 *   ...
 *   table_print(&t, stdout); table_release(&t);
 * Numbers are right-aligned: a column is one of numbers when every cell below the
 * head starts with a digit, a sign or a point, or is "-". */
#ifndef LAUNCHER_TABLE_H
#define LAUNCHER_TABLE_H

#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 32 };

struct table {
    char **cell; /* row after row, `columns` each; owned */
    int n, columns, at;
};

void table_add(struct table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void table_end_row(struct table *t); /* the first row sets the columns */
void table_print(const struct table *t, FILE *fp);
void table_release(struct table *t);

#endif
