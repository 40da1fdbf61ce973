/* slurm_record.h - what scontrol show prints: records of KEY=VALUE.
 *
 * A record begins at a line's start; indented lines go on with it, and with -o it is
 * one line.  A word without KEY= belongs to the value before it.  OS, Reason, Comment
 * and their like hold blanks and '=': they end with their line, or, in a one-line
 * record, before a key that follows them there and was not seen yet.  (A Reason= that
 * imitates one deceives only the one-line form: ask for the other.)
 *
 *   struct slurm_records all;
 *   slurm_records_parse(text, len, "scontrol show node", &all, err);
 *   slurm_record_get(&all.record[0], "State")
 *   slurm_records_release(&all); */
#ifndef TOPOLOGY_SLURM_RECORD_H
#define TOPOLOGY_SLURM_RECORD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct err;

enum { SLURM_TEXT_MAX = 64 << 20, SLURM_PAIRS_MAX = 1024 /* of a record */ };

struct slurm_pair {
    const char *key, *value; /* into the owner's text */
};

struct slurm_record {
    int line; /* from 1 */
    int n;
    struct slurm_pair *pair;
};

struct slurm_records {
    char *text; /* owned, cut up */
    int n;
    struct slurm_record *record;
};

/* No record at all is success with n 0.  `where` names the text in messages.
 * ERR_USAGE; *out is set only on success. */
int slurm_records_parse(const char *text, size_t len, const char *where,
                        struct slurm_records *out, struct err *err);
void slurm_records_release(struct slurm_records *r);

/* The first value of a key (exact case); NULL when absent or "(null)". */
const char *slurm_record_get(const struct slurm_record *r, const char *key);

#ifdef __cplusplus
}
#endif
#endif
