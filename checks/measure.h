/* measure.h - one number that was measured, before anyone judges it.
 *
 * Probes and recordings give measures; judge.h turns them into verdicts, so a
 * recorded run is judged by the very code that judges a live one. */
#ifndef CHECKS_MEASURE_H
#define CHECKS_MEASURE_H

#include <stdint.h>

struct err;
struct js;

struct measure {
    char name[32];   /* of the catalogue */
    char object[96]; /* host, NIC or group that was measured */
    /* The one machine it says something about (of a pair: the first); "" several. */
    char node[64];
    /* What it is one of (a model and the like): judged only against its like; "" all of
     * that name. */
    char kind[64];
    char device[8]; /* of a collective: "cpu", "cuda" */
    char group[12]; /* of a collective: "shard", "replicate" */
    char op[16];    /* of a collective: "all_reduce", "sendrecv"...; "" name says it */
    char tier[8];   /* crossed at most: "node", "rail", "leaf", "spine"; "" not known */
    int first, ranks; /* of a collective: first rank and size of the group */
    int64_t bytes;    /* of a collective: S, the whole buffer */
    /* Of a pair of machines, `node` and `peer`, which exchange while others do: */
    char peer[64];              /* the other one; "" this is no pair */
    char nic[32], peer_nic[32]; /* carries it at either end; "" not known, or many */
    char busid[20], peer_busid[20]; /* the GPUs at both ends; "" none, or all */
    int rail;     /* index of the rank within its node; -1 all together */
    int round;    /* of the tournament (pairs.h), from 0; -1 a retest */
    double value; /* in unit; NaN: could not be measured, text says why */
    double need;  /* what it must reach, where the measuring side knows; NaN */
    char unit[16];
    double seconds;   /* of an event counter: value were counted in this time; NaN */
    double *times_ms; /* owned; of each iteration, slowest rank; the first included */
    int n_times;
    char *text; /* owned; what was found, or why nothing could be measured; NULL */
};

struct measures {
    struct measure *item;
    int n;
};

/* An empty measure of `name` about `object` on `node` (all copied). */
struct measure *measures_add(struct measures *l, const char *name, const char *object,
                             const char *node);
void measures_release(struct measures *l);

/* Replace the text. */
void measure_say(struct measure *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* It could not be measured, and why. */
void measure_none(struct measure *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void measure_set(struct measure *m, double value, double need, const char *unit);

/* Keys of the struct; what is unknown is left out. */
struct js *measure_json(const struct measure *m);
/* Adds one; ERR_USAGE when it names none. */
int measures_add_json(struct measures *l, const struct js *o, struct err *err);

/* Middle value of times[n] without the first, which pays for connections (case
 * D13); NaN when there are none. */
double measure_median_ms(const struct measure *m);
double measure_best_ms(const struct measure *m);

/* --- bandwidth ----------------------------------------------------------------- */

/* The whole buffer S of an operation, from elements per rank as nccl-tests counts
 * them (case D01); -1 for an unknown operation. */
int64_t measure_total_bytes(const char *op, int ranks, int64_t count, int elem_bytes);
/* GB/s (1e9) of S bytes in that time. */
double measure_algbw(int64_t bytes, double seconds);
/* algbw times the factor of the operation; 0 for one rank; NaN for an unknown
 * operation. */
double measure_busbw(const char *op, int ranks, int64_t bytes, double seconds);

/* value of `unit` in GB/s: "GB/s", "GiB/s", "Gb/s", "MB/s"; NaN for another unit
 * (case D05: 400 Gb/s = 50 GB/s = 46.57 GiB/s). */
double measure_gbytes(double value, const char *unit);

#endif
