/* output.h - what one rank prints: kept whole in a file, shown line by line.
 *
 * The file (ranks/HOST.RANK.log, made with the first byte) holds the bytes of stdout and stderr unchanged,
 * a line of one never inside a line of the other.  On the launcher's stdout and
 * stderr each line stands whole behind "host:rank: " (case C18).
 *
 * The file has a bound: `limit` bytes, and OUTPUT_SPARE_BYTES that must stay free on
 * its file system.  What a rank prints beyond is shown but not kept; that is said
 * once, when it begins. */
#ifndef LAUNCHER_OUTPUT_H
#define LAUNCHER_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

struct echo;
struct err;
struct output;

#define OUTPUT_LIMIT       (INT64_C(1) << 30)
#define OUTPUT_SPARE_BYTES (INT64_C(256) << 20)

enum output_stream { OUTPUT_OUT, OUTPUT_ERR };

struct output_spec {
    const char *host;
    int rank;
    const char *path;  /* the file, made with mode 0600 */
    int64_t limit;     /* bytes; 0: OUTPUT_LIMIT */
    struct echo *echo; /* NULL: keep it in the file only */
    int fd[2];         /* where stdout and stderr are shown: 1 or 2 */
    int terminal[2];   /* fd[] is a terminal: show progress bars move */
};

struct output *output_new(const struct output_spec *s);
void output_bytes(struct output *o, enum output_stream which, const char *bytes,
                  size_t n);
void output_end(struct output *o,
                enum output_stream which); /* the rest of a last line */

/* The last line that was not blank, of stderr if it has one, else of stdout;
 * "" when there was none.  Without newline, at most 400 bytes.  Borrowed. */
const char *output_last_words(const struct output *o);

/* Returns 0, or -1 when some write to the file failed (say, the disk is full). */
int output_close(struct output *o, struct err *err); /* NULL is fine */

#endif
