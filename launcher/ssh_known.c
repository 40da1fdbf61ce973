#include "launcher/ssh_known.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/ssh_hash.h"
#include "launcher/ssh_words.h"

enum { KEY_LIMIT = 16384 };

enum marker { MARK_NONE, MARK_REVOKED, MARK_AUTHORITY };

struct entry {
    enum marker marker;
    const char *names, *type; /* into the line */
    uint8_t key[KEY_LIMIT];
    size_t key_bytes;
    const char *file;
    int line;
};

struct query {
    const char *name; /* as ssh_known_name() writes it */
    const char *type;
    uint8_t key[KEY_LIMIT];
    size_t key_bytes;
    struct ssh_known *out; /* a check, or NULL */
    struct strlist *types; /* a list of types, or NULL */
};

/* --- one line ----------------------------------------------------------------------- */

static char *next_word(char **s)
{
    char *word = *s + strspn(*s, " \t\r\n"), *end = word + strcspn(word, " \t\r\n");

    *s = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

/* The key's own first string is its type: 4 bytes of length, big end first. */
static int key_is_of(const struct entry *e)
{
    size_t n = strlen(e->type);

    return e->key_bytes > n + 4 && !e->key[0] && !e->key[1] &&
           ((size_t)e->key[2] << 8 | e->key[3]) == n && !memcmp(e->key + 4, e->type, n);
}

/* 1 an entry, 0 nothing, -1 a line that is no entry. */
static int parse_line(char *line, struct entry *e)
{
    char *word = next_word(&line);
    long n;

    if (!word || *word == '#')
        return 0;
    e->marker = MARK_NONE;
    if (*word == '@') {
        if (strcmp(word, "@revoked") == 0)
            e->marker = MARK_REVOKED;
        else if (strcmp(word, "@cert-authority") == 0)
            e->marker = MARK_AUTHORITY;
        else
            return -1;
        word = next_word(&line);
    }
    e->names = word;
    e->type = next_word(&line);
    word = next_word(&line);
    if (!word)
        return -1;
    n = ssh_base64(word, strlen(word), e->key, sizeof(e->key));
    e->key_bytes = n > 0 ? (size_t)n : 0;
    return key_is_of(e) ? 1 : -1;
}

/* 1 yes, 0 no, -1 not to be read. */
static int hashed_name_is(const char *text, const char *name)
{
    const char *bar = strchr(text + 3, '|');
    uint8_t salt[SSH_HASH_BYTES], want[SSH_HASH_BYTES], is[SSH_HASH_BYTES];

    if (!bar ||
        ssh_base64(text + 3, (size_t)(bar - text - 3), salt, sizeof(salt)) !=
            SSH_HASH_BYTES ||
        ssh_base64(bar + 1, strlen(bar + 1), want, sizeof(want)) != SSH_HASH_BYTES ||
        ssh_hash_name(salt, name, is) < 0)
        return -1;
    return memcmp(want, is, sizeof(is)) == 0;
}

static int names_match(const struct entry *e, const char *name)
{
    if (e->names[0] != '|')
        return ssh_patterns_match(name, e->names, 1) == 1;
    return strncmp(e->names, "|1|", 3) == 0 ? hashed_name_is(e->names, name) : -1;
}

/* --- what it says ------------------------------------------------------------------- */

static int is_key(const struct query *q, const struct entry *e)
{
    return e->key_bytes == q->key_bytes && memcmp(e->key, q->key, q->key_bytes) == 0;
}

static enum ssh_known_verdict judge(const struct query *q, const struct entry *e)
{
    if (e->marker == MARK_REVOKED)
        return is_key(q, e) ? SSH_KNOWN_REVOKED : SSH_KNOWN_UNKNOWN;
    if (is_key(q, e))
        return SSH_KNOWN_OK;
    return strcmp(e->type, q->type) == 0 ? SSH_KNOWN_CHANGED : SSH_KNOWN_OTHER;
}

static void take_type(struct strlist *types, const char *type)
{
    for (int i = 0; i < types->n; i++)
        if (strcmp(types->item[i], type) == 0)
            return;
    strlist_add(types, type);
}

static void take_entry(const struct query *q, const struct entry *e)
{
    struct ssh_known *k = q->out;
    enum ssh_known_verdict v;

    if (q->types && e->marker == MARK_NONE)
        take_type(q->types, e->type);
    if (!k)
        return;
    k->authorities += e->marker == MARK_AUTHORITY;
    if (e->marker == MARK_AUTHORITY)
        return;
    v = judge(q, e);
    if (v <= k->verdict)
        return;
    k->verdict = v;
    free(k->file);
    free(k->type);
    k->file = xstrdup(e->file);
    k->line = e->line;
    k->type = xstrdup(e->type);
}

static void scan_line(const struct query *q, char *line, struct entry *e)
{
    int found = parse_line(line, e);

    if (found == 1)
        found = names_match(e, q->name);
    if (found < 0 && q->out)
        q->out->unreadable++;
    if (found == 1)
        take_entry(q, e);
}

static int scan_file(const struct query *q, const char *file, struct err *err)
{
    /* a FIFO would hold us */
    int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *fp = fd >= 0 ? fdopen(fd, "r") : NULL;
    struct entry *e;
    char *line = NULL;
    size_t room = 0;
    int rc = 0;

    if (!fp && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (!fp)
        return err_set(err, ERR_SYSTEM, "%s: cannot be read: %s", file,
                       strerror(errno));
    e = xcalloc(1, sizeof(*e));
    e->file = file;
    errno = 0;
    while (getline(&line, &room, fp) >= 0) {
        e->line++;
        scan_line(q, line, e);
        errno = 0;
    }
    if (ferror(fp))
        rc = err_set(err, ERR_SYSTEM, "%s: cannot be read: %s", file, strerror(errno));
    free(line);
    free(e);
    fclose(fp);
    return rc;
}

static int scan_all(struct query *q, const struct strlist *files, const char *host,
                    int port, struct err *err)
{
    char *name = ssh_known_name(host, port);
    int rc = 0;

    q->name = name;
    for (int i = 0; i < files->n && rc == 0; i++)
        if (strcasecmp(files->item[i], "none") != 0)
            rc = scan_file(q, files->item[i], err);
    free(name);
    return rc;
}

/* --- the questions ------------------------------------------------------------------ */

char *ssh_known_name(const char *host, int port)
{
    char *name = port && port != 22 ? xasprintf("[%s]:%d", host, port) : xstrdup(host);

    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return name;
}

int ssh_known_check(const struct strlist *files, const char *host, int port,
                    const char *type, const char *key, struct ssh_known *out,
                    struct err *err)
{
    struct query *q = xcalloc(1, sizeof(*q));
    struct ssh_known k = { 0 }, plain = { 0 };
    long n = ssh_base64(key, strlen(key), q->key, sizeof(q->key));
    int rc = 0;

    if (n <= 0)
        rc = err_set(err, ERR_FAILED, "%s: its host key is not one", host);
    q->type = type;
    q->key_bytes = n > 0 ? (size_t)n : 0;
    q->out = &k;
    if (rc == 0)
        rc = scan_all(q, files, host, port, err);
    if (rc == 0 && k.verdict == SSH_KNOWN_UNKNOWN && port && port != 22) {
        q->out = &plain;
        rc = scan_all(q, files, host, 0, err);
        if (plain.verdict >= SSH_KNOWN_OK) {
            ssh_known_release(&k);
            k = plain;
            memset(&plain, 0, sizeof(plain));
        }
    }
    ssh_known_release(&plain);
    free(q);
    if (rc == 0)
        *out = k;
    else
        ssh_known_release(&k);
    return rc;
}

int ssh_known_types(const struct strlist *files, const char *host, int port,
                    struct strlist *out, struct err *err)
{
    struct query *q = xcalloc(1, sizeof(*q));
    int rc;

    q->types = out;
    rc = scan_all(q, files, host, port, err);
    if (rc == 0 && out->n == 0 && port && port != 22)
        rc = scan_all(q, files, host, 0, err);
    free(q);
    return rc;
}

void ssh_known_release(struct ssh_known *k)
{
    free(k->file);
    free(k->type);
    memset(k, 0, sizeof(*k));
}
