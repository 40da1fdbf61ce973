/* report.h - one run for people, and several beside each other. */
#ifndef LAUNCHER_REPORT_H
#define LAUNCHER_REPORT_H

#include <stdio.h>

struct err;
struct js;
struct store;

/* A run with its steps: what store_run() gives without topology and placement, and
 * "steps".  The caller's; NULL on failure. */
struct js *report_run(struct store *s, const char *id, struct err *err);
void report_run_print(const struct js *run, FILE *fp);

/* Each of runs[] (report_run) against the first (case G03): an array of {run, with,
 * comparison, efficiency, reasons}.  NULL on failure. */
struct js *report_compare(const struct js *runs, struct err *err);
void report_compare_print(const struct js *comparison, FILE *fp);

#endif
