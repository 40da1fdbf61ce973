/* Run a fuzz target over files, without libFuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    FILE *fp = fopen(path, "rb");
    uint8_t *data;
    long size;

    if (!fp || fseek(fp, 0, SEEK_END) != 0 || (size = ftell(fp)) < 0) {
        perror(path);
        return 1;
    }
    rewind(fp);
    data = malloc((size_t)size + 1);
    if (!data || fread(data, 1, (size_t)size, fp) != (size_t)size) {
        perror(path);
        return 1;
    }
    fclose(fp);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    int bad = 0;

    for (int i = 1; i < argc; i++)
        bad |= replay(argv[i]);
    return bad;
}
