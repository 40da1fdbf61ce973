#include "launcher/store_db.h"

#include <math.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/run.h"

enum { BUSY_TIMEOUT_MS = 20000, RETRY_MS = 20 };

struct store {
    sqlite3 *db;
    char *path;
    int read_only;
};

/* Entry i brings a file from version i to i + 1.  Never edit one that was
 * released: append. */
static const char *const migrations[] = {
    "CREATE TABLE topologies (fingerprint TEXT PRIMARY KEY, topology TEXT NOT NULL);"
    "CREATE TABLE climbs (id TEXT PRIMARY KEY, name TEXT NOT NULL,"
    "  state TEXT NOT NULL, process TEXT NOT NULL, started REAL NOT NULL, ended REAL,"
    "  recipe TEXT NOT NULL, fingerprint TEXT, options TEXT NOT NULL,"
    "  versions TEXT NOT NULL, result TEXT);"
    "CREATE TABLE trials (climb TEXT NOT NULL REFERENCES climbs(id),"
    "  gpus INTEGER NOT NULL, candidate INTEGER NOT NULL, attempt INTEGER NOT NULL,"
    "  settings TEXT NOT NULL, state TEXT NOT NULL, reason TEXT, run TEXT,"
    "  predicted REAL, tokens_per_s_per_gpu REAL, memory_percent REAL, result TEXT,"
    "  changed REAL NOT NULL, PRIMARY KEY (climb, gpus, candidate, attempt)"
    ") WITHOUT ROWID;"
    "CREATE TABLE runs (id TEXT PRIMARY KEY, climb TEXT, name TEXT NOT NULL,"
    "  dir TEXT NOT NULL, state TEXT NOT NULL, process TEXT NOT NULL,"
    "  world INTEGER NOT NULL, started REAL NOT NULL, ended REAL, recipe TEXT,"
    "  command TEXT, fingerprint TEXT, placement TEXT, versions TEXT NOT NULL,"
    "  status INTEGER, cause TEXT, reason TEXT, result TEXT);"
    "CREATE INDEX runs_by_climb ON runs (climb);"
    "CREATE INDEX runs_by_state ON runs (state);"
    "CREATE TABLE steps (run TEXT NOT NULL REFERENCES runs(id), step INTEGER NOT NULL,"
    "  metrics TEXT NOT NULL, PRIMARY KEY (run, step)) WITHOUT ROWID;",
    /* job: Slurm's number of it; batch: it is a batch job that muster made */
    "ALTER TABLE runs ADD COLUMN job TEXT;"
    "ALTER TABLE runs ADD COLUMN batch INTEGER NOT NULL DEFAULT 0;",
};

static const char *cure(int code)
{
    switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return ": move it away, and a new one is begun; the folders of the runs stay";
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
        return " (MUSTER_HOME says where it is)";
    default:
        return "";
    }
}

static int failed(struct store *s, struct err *err)
{
    return err_set(err, ERR_SYSTEM, "%s: %s%s", s->path, sqlite3_errmsg(s->db),
                   cure(sqlite3_errcode(s->db)));
}

static void bind_one(sqlite3_stmt *st, int i, char type, va_list *ap)
{
    const char *text;
    double d;

    if (type == 't') {
        text = va_arg(*ap, const char *);
        sqlite3_bind_text(st, i, text, -1, SQLITE_TRANSIENT);
    } else if (type == 'i') {
        sqlite3_bind_int64(st, i, va_arg(*ap, int64_t));
    } else {
        d = va_arg(*ap, double);
        if (isnan(d))
            sqlite3_bind_null(st, i);
        else
            sqlite3_bind_double(st, i, d);
    }
}

static sqlite3_stmt *prepare(struct store *s, const char *sql, const char *types,
                             va_list *ap, struct err *err)
{
    sqlite3_stmt *st = NULL;

    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK) {
        failed(s, err);
        return NULL;
    }
    for (int i = 0; types[i]; i++)
        bind_one(st, i + 1, types[i], ap);
    return st;
}

int store_run_sql(struct store *s, struct err *err, const char *sql, const char *types,
                  ...)
{
    sqlite3_stmt *st;
    va_list ap;
    int rc;

    va_start(ap, types);
    st = prepare(s, sql, types, &ap, err);
    va_end(ap);
    if (!st)
        return -1;
    do
        rc = sqlite3_step(st);
    while (rc == SQLITE_ROW);
    if (rc != SQLITE_DONE)
        failed(s, err);
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? sqlite3_changes(s->db) : -1;
}

static struct js *column(sqlite3_stmt *st, int i, int is_json)
{
    const char *text;
    struct js *v = NULL;

    switch (sqlite3_column_type(st, i)) {
    case SQLITE_INTEGER:
        return js_int(sqlite3_column_int64(st, i));
    case SQLITE_FLOAT:
        return js_real(sqlite3_column_double(st, i));
    case SQLITE_TEXT:
        text = (const char *)sqlite3_column_text(st, i);
        if (is_json && js_parse(text, strlen(text), "store", &v, NULL) == 0)
            return v;
        return js_string(text);
    default:
        return js_string(NULL);
    }
}

static struct js *row(sqlite3_stmt *st)
{
    struct js *o = js_object();

    for (int i = 0; i < sqlite3_column_count(st); i++) {
        const char *name = sqlite3_column_name(st, i);
        const char *suffix = strstr(name, "_json");
        char *key = suffix ? xstrndup(name, (size_t)(suffix - name)) : xstrdup(name);
        js_put(o, key, column(st, i, suffix != NULL));
        free(key);
    }
    return o;
}

struct js *store_rows(struct store *s, struct err *err, const char *sql,
                      const char *types, ...)
{
    struct js *rows = js_array();
    sqlite3_stmt *st;
    va_list ap;
    int rc = SQLITE_ERROR;

    va_start(ap, types);
    st = prepare(s, sql, types, &ap, err);
    va_end(ap);
    while (st && (rc = sqlite3_step(st)) == SQLITE_ROW)
        js_push(rows, row(st));
    if (st && rc != SQLITE_DONE)
        failed(s, err);
    sqlite3_finalize(st);
    if (rc == SQLITE_DONE)
        return rows;
    js_free(rows);
    return NULL;
}

static int execute(struct store *s, const char *sql, struct err *err)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(s, err);
}

int store_begin(struct store *s, struct err *err)
{
    /* IMMEDIATE: a lock taken late could not be waited for */
    return execute(s, "BEGIN IMMEDIATE", err);
}

int store_end(struct store *s, int rc, struct err *err)
{
    if (rc == 0)
        rc = execute(s, "COMMIT", err);
    if (rc != 0)
        execute(s, "ROLLBACK", NULL);
    return rc;
}

static int64_t user_version(struct store *s, struct err *err)
{
    struct js *rows = store_rows(s, err, "PRAGMA user_version", "");
    int64_t v = rows ? js_get_int(js_at(rows, 0), "user_version", -1) : -1;

    js_free(rows);
    return v;
}

static int migrate(struct store *s, struct err *err)
{
    int64_t newest = ARRAY_LEN(migrations), v = user_version(s, err);
    int rc = 0;
    char set[64];

    if (v < 0 || v == newest)
        return v < 0 ? -1 : 0;
    if (v > newest)
        return err_set(err, ERR_USAGE,
                       "%s has version %lld, this muster knows %lld: use the newer "
                       "muster, or another MUSTER_HOME",
                       s->path, (long long)v, (long long)newest);
    if (store_begin(s, err) < 0)
        return -1;
    v = user_version(s, err); /* another muster may have been faster */
    for (; rc == 0 && v >= 0 && v < newest; v++)
        rc = execute(s, migrations[v], err);
    snprintf(set, sizeof(set), "PRAGMA user_version = %lld", (long long)newest);
    if (rc == 0)
        rc = v < 0 ? -1 : execute(s, set, err);
    return store_end(s, rc, err);
}

/* WAL needs memory shared by all writers, which a network file system has not. */
static int is_network(const char *path)
{
    static const unsigned long magic[] = {
        0x6969 /* NFS */,
        0x0bd00bd0 /* Lustre */,
        0x47504653 /* GPFS */,
        0xff534d42 /* CIFS */,
        0xfe534d42 /* SMB2 */,
        0x19830326 /* BeeGFS */,
        0x00c36400 /* Ceph */
    };
    struct statfs fs;

    if (statfs(path, &fs) < 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(magic); i++)
        if ((unsigned long)fs.f_type == magic[i])
            return 1;
    return 0;
}

/* The switch to WAL needs the file alone for a moment and does not wait by
 * itself. */
static int set_journal(struct store *s, const char *home, struct err *err)
{
    const char *sql =
        is_network(home) ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL";
    int rc = SQLITE_BUSY;

    for (int ms = 0; rc == SQLITE_BUSY && ms < BUSY_TIMEOUT_MS; ms += RETRY_MS) {
        rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
        if (rc == SQLITE_BUSY)
            usleep(RETRY_MS * 1000);
    }
    if (rc != SQLITE_OK)
        return failed(s, err);
    return execute(s, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON", err);
}

static int open_at(const char *home, struct store **out, struct err *err)
{
    struct store *s = xcalloc(1, sizeof(*s));
    int rc;

    s->path = xasprintf("%s/store.sqlite", home);
    rc = sqlite3_open_v2(
        s->path, &s->db,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK) {
        failed(s, err);
        store_close(s);
        return -1;
    }
    sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
    if (chmod(s->path, 0600) < 0 || set_journal(s, home, err) < 0 ||
        migrate(s, err) < 0) {
        if (err && err->code == ERR_NONE)
            err_set(err, ERR_SYSTEM, "%s: %m", s->path);
        store_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

int store_open(const char *home, struct store **out, struct err *err)
{
    char *own = home ? NULL : run_home(err);
    int rc;

    if (!home && !own)
        return -1;
    rc = open_at(home ? home : own, out, err);
    free(own);
    return rc;
}

/* Without a log beside it the file is whole and can be read as it lies; with one,
 * SQLite needs the log's index, which it may have to leave where it is. */
static char *uri_of(const char *path)
{
    char *wal = xasprintf("%s-wal", path);
    struct str s = STR_INIT;
    struct stat st;
    int logged = stat(wal, &st) == 0 && st.st_size > 0;

    str_adds(&s, "file:");
    for (const char *c = path; *c; c++)
        if (strchr("?#%", *c))
            str_addf(&s, "%%%02x", (unsigned char)*c);
        else
            str_addf(&s, "%c", *c);
    str_adds(&s, logged ? "?mode=ro" : "?mode=ro&immutable=1");
    free(wal);
    return str_take(&s);
}

static int open_read_only(const char *home, struct store **out)
{
    struct store *s = xcalloc(1, sizeof(*s));
    char *uri;
    int rc;

    s->path = xasprintf("%s/store.sqlite", home);
    s->read_only = 1;
    uri = uri_of(s->path);
    rc = sqlite3_open_v2(uri, &s->db,
                         SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
                         NULL);
    free(uri);
    /* one of another version is for a muster that may write */
    if (rc == SQLITE_OK && user_version(s, NULL) == (int64_t)ARRAY_LEN(migrations)) {
        *out = s;
        return 0;
    }
    store_close(s);
    return -1;
}

int store_open_to_read(const char *home, struct store **out, struct err *err)
{
    struct err why = ERR_INIT;
    char *own = home ? NULL : run_home(err);
    int rc;

    if (!home && !own)
        return -1;
    rc = open_at(home ? home : own, out, &why);
    if (rc < 0 && why.code == ERR_SYSTEM)
        rc = open_read_only(home ? home : own, out);
    if (rc < 0)
        err_set(err, why.code, "%s", err_text(&why));
    err_release(&why);
    free(own);
    return rc;
}

int store_cannot_write(const struct store *s)
{
    return s->read_only;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    sqlite3_close(s->db);
    free(s->path);
    free(s);
}
