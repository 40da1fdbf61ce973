/* kvwire.h - the words that a rank and the key-value store at the master speak.
 *
 * TCP.  The store greets with KV_MAGIC and a random challenge; the rank answers
 * with its own challenge and the keyed hash of both; the store proves itself the
 * same way.  So neither a stranger that connects nor a stranger that listens at
 * the port is taken for one of the job.  The key comes from MUSTER_JOB_KEY (a
 * random text that the launcher gives every rank); without it from the port and
 * the job id, which keeps out accidents, not attackers.
 *
 * Then frames: a 16-byte head (type, rank, key bytes, value bytes; 32-bit little
 * endian), key, value. */
#ifndef TRAINER_KVWIRE_H
#define TRAINER_KVWIRE_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct str;

enum kv_type {
    KV_HELLO = 1, /* rank; key host, value "world node_rank" */
    KV_WELCOME,
    KV_FAIL,  /* rank: enum err_code; value: the reason */
    KV_PUT,   /* key, value */
    KV_FENCE, /* key: its name; rank: timeout in ms */
    KV_DATA,  /* rank, key, value: what another rank put */
    KV_MET,   /* the fence is complete */
    KV_BYE
};

enum { KV_CHALLENGE = 16, KV_MAGIC = 8, KV_PROOF = 8 };
enum { KV_GREETING = KV_MAGIC + KV_CHALLENGE, KV_ANSWER = KV_CHALLENGE + KV_PROOF };
enum { KV_MAX_KEY = 1024, KV_MAX_VALUE = 16 << 20 };
extern const char kv_magic[KV_MAGIC + 1];

struct kv_frame {
    uint32_t type, rank, key_len, value_len;
    char *key, *value; /* borrowed from the buffer; each followed by other bytes */
};

void kv_append(struct str *out, enum kv_type type, uint32_t rank, const char *key,
               const void *value, size_t n);
/* The frame at the start of buf[len]: its whole length, 0 when it is not all
 * there yet, -1 when no frame of ours looks like this. */
long kv_parse(char *buf, size_t len, struct kv_frame *f);

struct kv_key {
    uint64_t k0, k1;
};
struct kv_key kv_job_key(int port);
struct kv_key kv_key_of(const char *text); /* of MUSTER_JOB_KEY, as ranks have it */
void kv_random(void *bytes, size_t n);
/* Proof of the side `who` ('C' rank, 'S' store) over both challenges. */
void kv_proof(struct kv_key key, char who, const unsigned char *store,
              const unsigned char *rank, unsigned char proof[KV_PROOF]);

/* SipHash-2-4 (Aumasson and Bernstein, 2012). */
uint64_t kv_siphash(struct kv_key key, const void *bytes, size_t n);

#endif
