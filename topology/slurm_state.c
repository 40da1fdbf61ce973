#include "topology/slurm_state.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

/* clang-format off */
static const struct word {
    const char *text; /* any case */
    const char *why;
    enum slurm_use use;
    int busy; /* jobs run there */
} words[] = {
    { "IDLE", "idle", SLURM_USE_YES, 0 },
    { "ALLOCATED", "in use", SLURM_USE_LATER, 1 },
    { "ALLOC", "in use", SLURM_USE_LATER, 1 },
    { "MIXED", "partly in use", SLURM_USE_PARTIAL, 1 },
    { "MIX", "partly in use", SLURM_USE_PARTIAL, 1 },
    { "COMPLETING", "a job is ending", SLURM_USE_LATER, 1 },
    { "COMP", "a job is ending", SLURM_USE_LATER, 1 },
    { "PLANNED", "planned by backfill", SLURM_USE_PARTIAL, 0 },
    { "PLND", "planned by backfill", SLURM_USE_PARTIAL, 0 },
    { "CLOUD", "cloud", SLURM_USE_YES, 0 },
    { "DYNAMIC_NORM", "dynamic", SLURM_USE_YES, 0 },
    { "DYNAMIC_FUTURE", "dynamic", SLURM_USE_YES, 0 },
    { "POWERED_DOWN", "powered off", SLURM_USE_LATER, 0 },
    { "POWER_DOWN", "powered off", SLURM_USE_LATER, 0 },
    { "POW_DN", "powered off", SLURM_USE_LATER, 0 },
    { "POWERING_DOWN", "powering down", SLURM_USE_LATER, 0 },
    { "POWERING_UP", "powering up", SLURM_USE_LATER, 0 },
    { "POWER_UP", "powering up", SLURM_USE_LATER, 0 },
    { "POW_UP", "powering up", SLURM_USE_LATER, 0 },
    { "POWER_DRAIN", "drained for power saving", SLURM_USE_NO, 0 },
    { "RESERVED", "reserved", SLURM_USE_INSIDE, 0 },
    { "RESV", "reserved", SLURM_USE_INSIDE, 0 },
    { "MAINTENANCE", "maintenance reservation", SLURM_USE_INSIDE, 0 },
    { "MAINT", "maintenance reservation", SLURM_USE_INSIDE, 0 },
    { "DRAIN", "drained", SLURM_USE_NO, 0 },
    { "DRAINED", "drained", SLURM_USE_NO, 0 },
    { "DRAINING", "draining", SLURM_USE_NO, 1 },
    { "DRNG", "draining", SLURM_USE_NO, 1 },
    { "DOWN", "down", SLURM_USE_NO, 0 },
    { "ERROR", "error", SLURM_USE_NO, 0 },
    { "ERR", "error", SLURM_USE_NO, 0 },
    { "FAIL", "failed", SLURM_USE_NO, 0 },
    { "FAILING", "failing", SLURM_USE_NO, 1 },
    { "FAILG", "failing", SLURM_USE_NO, 1 },
    { "FUTURE", "not there yet (FUTURE)", SLURM_USE_NO, 0 },
    { "FUTR", "not there yet (FUTURE)", SLURM_USE_NO, 0 },
    { "UNKNOWN", "state unknown to Slurm", SLURM_USE_NO, 0 },
    { "UNK", "state unknown to Slurm", SLURM_USE_NO, 0 },
    { "NOT_RESPONDING", "not responding", SLURM_USE_NO, 0 },
    { "NO_RESPOND", "not responding", SLURM_USE_NO, 0 },
    { "INVALID_REG", "registered with less than slurm.conf says", SLURM_USE_NO, 0 },
    { "INVAL", "registered with less than slurm.conf says", SLURM_USE_NO, 0 },
    { "INVALID", "registered with less than slurm.conf says", SLURM_USE_NO, 0 },
    { "REBOOT_REQUESTED", "to be rebooted", SLURM_USE_NO, 0 },
    { "REBOOT_ISSUED", "rebooting", SLURM_USE_NO, 0 },
    { "REBOOT", "rebooting", SLURM_USE_NO, 0 },
    { "BOOT", "rebooting", SLURM_USE_NO, 0 },
    { "BLOCKED", "blocked by an exclusive topology job", SLURM_USE_NO, 0 },
    { "BLOCK", "blocked by an exclusive topology job", SLURM_USE_NO, 0 },
    { "PERFCTRS", "held for performance counters", SLURM_USE_NO, 0 },
    { "NPC", "held for performance counters", SLURM_USE_NO, 0 },
};

static const struct suffix {
    char c;
    enum slurm_use use;
    const char *why;
} suffixes[] = {
    { '*', SLURM_USE_NO, "not responding" },
    { '~', SLURM_USE_LATER, "powered off" },
    { '#', SLURM_USE_LATER, "powering up" },
    { '!', SLURM_USE_LATER, "to be powered down" },
    { '%', SLURM_USE_LATER, "powering down" },
    { '$', SLURM_USE_INSIDE, "maintenance reservation" },
    { '@', SLURM_USE_NO, "to be rebooted" },
    { '^', SLURM_USE_NO, "rebooting" },
    { '-', SLURM_USE_PARTIAL, "planned by backfill" },
};
/* clang-format on */

/* A worse use replaces what was said so far; an equal one joins it. */
static void note(struct slurm_state *s, enum slurm_use use, const char *why)
{
    size_t n;

    if (use < s->use)
        return;
    if (use > s->use)
        s->why[0] = '\0';
    s->use = use;
    if (strstr(s->why, why))
        return;
    n = strlen(s->why);
    snprintf(s->why + n, sizeof(s->why) - n, "%s%s", n ? ", " : "", why);
}

static void note_unknown(struct slurm_state *s, const char *word, size_t n)
{
    char why[64];

    snprintf(why, sizeof(why), "unknown state '%.*s'", (int)(n < 32 ? n : 32), word);
    for (char *c = why; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?';
    note(s, SLURM_USE_NO, why);
}

/* The suffixes at the end of word[n]; returns the length without them. */
static size_t note_suffixes(struct slurm_state *s, const char *word, size_t n)
{
    for (; n > 0; n--) {
        const struct suffix *x = NULL;
        for (size_t i = 0; i < ARRAY_LEN(suffixes) && !x; i++)
            if (word[n - 1] == suffixes[i].c)
                x = &suffixes[i];
        if (!x)
            break;
        note(s, x->use, x->why);
    }
    return n;
}

static int note_word(struct slurm_state *s, const char *word, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strlen(words[i].text) == n && strncasecmp(words[i].text, word, n) == 0) {
            note(s, words[i].use, words[i].why);
            return words[i].busy;
        }
    note_unknown(s, word, n);
    return 0;
}

void slurm_state_parse(const char *text, struct slurm_state *out)
{
    struct slurm_state s = { SLURM_USE_YES, "" };
    int busy = 0;

    for (const char *at = text;; at++) {
        size_t n = strcspn(at, "+");
        busy |= note_word(&s, at, note_suffixes(&s, at, n));
        at += n;
        if (!*at)
            break;
    }
    if (s.use == SLURM_USE_NO && busy)
        note(&s, SLURM_USE_NO, "still running jobs");
    *out = s;
}

int slurm_state_usable(const struct slurm_state *s)
{
    return s->use == SLURM_USE_YES || s->use == SLURM_USE_PARTIAL;
}
