/* Any bytes as a token shard.  The first byte picks the format: even, an llm.c
 * .bin; odd, a Megatron pair whose .bin length is the next two bytes. */
#include "fuzz.h"

#include "base/err.h"
#include "trainer/shard.h"

static char dir[] = "/tmp/muster-fuzz-XXXXXX";
static char idx[64], bin[64];

static void remove_dir(void)
{
    unlink(idx);
    unlink(bin);
    rmdir(dir);
}

static void put(const char *path, const void *bytes, size_t n)
{
    FILE *fp = fopen(path, "wb");

    if (!fp || fwrite(bytes, 1, n, fp) != n || fclose(fp) != 0)
        abort();
}

/* What opened must read, from end to end and at its edges. */
static void read_all(const struct shard *s)
{
    const struct shard_info *info = shard_info(s);
    struct err err = ERR_INIT;
    int64_t begin, end, at = 0;
    int32_t highest, last;

    if (info->tokens < 1 || shard_read(s, info->tokens - 1, 1, &last, &err) != 0)
        abort();
    if (shard_verify(s, 100, &highest, &err) != 0 && err.code != ERR_USAGE)
        abort();
    err_release(&err);
    for (; at < info->tokens; at = end)
        if (shard_document(s, at, &begin, &end, &err) != 0 || begin > at || end <= at)
            abort();
    if (at != info->tokens)
        abort();
}

static void open_and_read(const char *path)
{
    struct err err = ERR_INIT;
    struct shard *s;

    if (shard_open(path, &s, &err) == 0) {
        read_all(s);
        shard_close(s);
    } else if (err.code == ERR_NONE || !*err_text(&err)) {
        abort();
    }
    err_release(&err);
}

static void one_llmc(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = fuzz_file(data, size, path);

    open_and_read(path);
    close(fd);
}

static void one_megatron(const uint8_t *data, size_t size)
{
    static const char zeros[65536];
    size_t tokens = (size_t)data[0] | (size_t)data[1] << 8;

    if (!*idx) {
        /* a crash leaves the folder behind; libFuzzer prints where */
        if (!mkdtemp(dir) || atexit(remove_dir) != 0)
            abort();
        snprintf(idx, sizeof(idx), "%s/a.idx", dir);
        snprintf(bin, sizeof(bin), "%s/a.bin", dir);
    }
    put(idx, data + 2, size - 2);
    put(bin, zeros, tokens);
    open_and_read(idx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    if (data[0] % 2 == 0)
        one_llmc(data + 1, size - 1);
    else
        one_megatron(data + 1, size - 1);
    return 0;
}
