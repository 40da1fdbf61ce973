/* frame.h - messages between muster and its agents, over one stream of bytes.
 *
 * A frame is a head of 8 bytes, length and type (u32, little endian), and `length`
 * bytes.  Each type has its own upper limit, so a peer can never make the other side
 * hold more than that; whatever a frame says about its parts is checked against the
 * bytes that are there.  The first frame of an agent stands behind FRAME_GREETING:
 * what a login shell prints before it is skipped, up to FRAME_NOISE bytes.
 *
 * Inside a frame: u32, u64 (little endian), and pieces (u32 length, bytes); a text is
 * a piece that ends with its only NUL. */
#ifndef LAUNCHER_FRAME_H
#define LAUNCHER_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct err;

#define FRAME_GREETING "\nmuster-agent\n"
enum { FRAME_PROTOCOL = 1, FRAME_NOISE = 1 << 16 };

enum frame_type {
    FRAME_NONE,
    /* from the agent */
    FRAME_HELLO, /* who it is: agent_wire.h */
    FRAME_READY, /* u32 a free port, u64 inode and u64 ctime of the working folder: the
                      job is taken, nothing runs yet */
    FRAME_STARTED, /* every rank of the node runs */
    FRAME_FAILED,  /* u32 code, u32 rank (or -1), text: the job cannot go on here */
    FRAME_OUT,     /* u32 rank, piece; an empty piece ends the stream */
    FRAME_ERR,
    FRAME_EVENTS,
    FRAME_PMIX,    /* u32 what (enum pmixd_what), u32 rank, u32 status, text */
    FRAME_FENCE,   /* u64 ticket, u32 n, u32 rank[n] (n 0: all), piece */
    FRAME_MODEX,   /* u64 ticket, u32 rank */
    FRAME_FETCHED, /* u64 route, u32 status, piece */
    FRAME_EXIT,    /* u32 rank, u32 wait status */
    FRAME_EMPTY,   /* u32 n: processes of the job left, when the ranks have ended */
    FRAME_CLOSED,  /* the job is closed: ready for another */
    FRAME_TAKEN, /* u32 bytes of STDIN that the rank has; UINT32_MAX: it reads no more */
    /* from the launcher */
    FRAME_JOB,        /* agent_job.h */
    FRAME_GO,         /* u32 master port, text master address: start the ranks */
    FRAME_FENCE_DONE, /* u64 ticket, u32 status, piece */
    FRAME_MODEX_DONE, /* u64 ticket, u32 status, piece */
    FRAME_FETCH,      /* u64 route, u32 rank */
    FRAME_SIGNAL,     /* u32 signal: to the process group of every rank */
    FRAME_END,        /* u32 signal: TERM or KILL to all of the job */
    FRAME_HOLD,       /* u32 1: read no output of ranks until 0 comes */
    FRAME_CLOSE,      /* no node needs this job any more */
    FRAME_STDIN,      /* piece: for the rank that reads stdin; an empty one ends it */
    /* both, twice a second */
    FRAME_ALIVE,
    /* from the agent */
    FRAME_WARN, /* text: what the user should know of this node */
    FRAME_TYPES
};

/* Both sides take the other one for lost after so long without a byte. */
enum { FRAME_ALIVE_MS = 500, FRAME_SILENCE_MS = 6000 };

/* Bytes of STDIN that may be on the way. */
enum { FRAME_STDIN_MOST = 1 << 18 };

const char *frame_name(uint32_t type); /* "FENCE"; "?" */
size_t frame_limit(uint32_t type);     /* bytes; 0: no such type */

/* ---- writing ---- */

struct frame_out {
    struct str bytes;
    size_t sent, begun;
};

void frame_begin(struct frame_out *o, enum frame_type type);
void frame_add_u32(struct frame_out *o, uint32_t v);
void frame_add_u64(struct frame_out *o, uint64_t v);
void frame_add_piece(struct frame_out *o, const void *bytes, size_t n);
void frame_add_text(struct frame_out *o, const char *text); /* NULL is "" */
/* -1 and ERR_SYSTEM when it is over the limit of its type; it is dropped then. */
int frame_end(struct frame_out *o, struct err *err);
/* Frames that hold nothing, or one number. */
void frame_put(struct frame_out *o, enum frame_type type);
void frame_put_u32(struct frame_out *o, enum frame_type type, uint32_t v);

/* Bytes not written yet. */
size_t frame_pending(const struct frame_out *o);
/* Write what a nonblocking descriptor takes: 0, or -1 when nobody reads it. */
int frame_flush(struct frame_out *o, int fd);
void frame_out_release(struct frame_out *o);

/* ---- reading ---- */

struct frame {
    uint32_t type;
    const unsigned char *at; /* what is left to take; borrowed until the next call */
    size_t left;
    int bad; /* something was taken that is not there */
};

struct frame_in {
    struct str bytes;
    size_t used;
    int greeted; /* set it where no greeting is expected */
};

void frame_feed(struct frame_in *in, const void *bytes, size_t n);
/* Read what a nonblocking descriptor has, up to 1 MiB: 1 something, 0 nothing yet, -1
 * the end. */
int frame_read(struct frame_in *in, int fd);
/* The next whole frame: 1; 0 not yet; -1 the peer breaks the rules (ERR_FAILED). */
int frame_next(struct frame_in *in, struct frame *f, struct err *err);
void frame_in_release(struct frame_in *in);

/* Past the end they give 0, NULL, "" and set f->bad. */
uint32_t frame_u32(struct frame *f);
uint64_t frame_u64(struct frame *f);
const char *frame_piece(struct frame *f, size_t *n); /* borrowed */
const char *frame_text(struct frame *f);             /* borrowed */
/* All was there and nothing is left; else -1 and ERR_FAILED. */
int frame_done(const struct frame *f, struct err *err);

#endif
