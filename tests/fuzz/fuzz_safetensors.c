/* Any bytes as a safetensors file: refused with a message, or every tensor reads. */
#include "fuzz.h"

#include "base/err.h"
#include "trainer/safetensors.h"

static void read_all(struct st_file *f)
{
    struct err err = ERR_INIT;

    for (int i = 0; i < st_count(f); i++) {
        const struct st_tensor *t = st_at(f, i);
        int64_t n = t->end - t->begin;
        char *bytes = malloc((size_t)n + 1);

        if (!bytes || !st_find(f, t->name) ||
            st_read(f, t, 0, bytes, n, &err) != 0) /* the header promised it */
            abort();
        free(bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct st_file *f;
    char path[64];
    int fd = fuzz_file(data, size, path);

    if (st_open(path, &f, &err) == 0) {
        read_all(f);
        st_meta(f, "format");
        st_close(f);
    } else if (err.code == ERR_NONE || !*err_text(&err)) {
        abort();
    }
    err_release(&err);
    close(fd);
    return 0;
}
