/* print.h - what the text tree is made of.  Private to topology_print(). */
#ifndef TOPOLOGY_PRINT_H
#define TOPOLOGY_PRINT_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct node;
struct topology;

enum { PRINT_WIDTH = 100 };
/* What of a node is shown: GUIDs and addresses; leaves and NVLink domain. */
enum { PRINT_IDENTITY = 1, PRINT_PLACE = 2 };

/* A line, broken at blanks (else commas) so that it fits; the rest is indented. */
void print_line(FILE *fp, int indent, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The lines below "node NAME"; the caller's to free(). */
char *print_node(const struct topology *t, const struct node *n, unsigned show);

/* Switches by level, leaves with what hangs on them, NVLink domains. */
void print_fabric(const struct topology *t, FILE *fp);

/* Worst first; those that differ in nothing but the node are one, under a host list. */
void print_findings(const struct topology *t, FILE *fp);

#ifdef __cplusplus
}
#endif
#endif
