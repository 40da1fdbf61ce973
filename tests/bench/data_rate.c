/* data_rate SHARD T SAMPLES MASK - samples a second out of one shard, in order. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "recipes/recipe.h"
#include "trainer/data.h"

static int measure(const struct recipe *r, int64_t samples, struct err *err)
{
    size_t T = (size_t)r->training.seq_len;
    int32_t *tok = calloc(3 * (T + 1), sizeof(*tok));
    struct dataset *d;
    int64_t sum = 0;
    double start;

    if (!tok || dataset_open(r, 1, 0, &d, err) != 0)
        return -1;
    start = clock_s();
    for (int64_t s = 0; s < samples; s++) {
        if (dataset_sample(d, s, 0, tok, tok + T + 1, tok + 2 * (T + 1), err) != 0)
            return -1;
        sum += tok[0];
    }
    start = clock_s() - start;
    printf(
        "seq_len %zu, %s: %.0f samples/s, %.1f M tokens/s, %.2f us a sample (%lld)\n",
        T, r->data.document_mask ? "document marks" : "no marks",
        (double)samples / start, (double)samples * (double)T / start / 1e6,
        start / (double)samples * 1e6, (long long)sum);
    dataset_close(d);
    free(tok);
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct recipe r;

    if (argc != 5)
        return ERR_USAGE;
    recipe_init(&r);
    strlist_add(&r.data.path, argv[1]);
    r.training.seq_len = (int)strtol(argv[2], NULL, 10);
    r.training.local_batch_size = 1;
    r.training.global_batch_size = 1;
    r.model.vocab = 65536;
    r.data.validation_fraction = 0;
    r.data.eod_token = 256;
    r.data.document_mask = (int)strtol(argv[4], NULL, 10);
    if (measure(&r, strtoll(argv[3], NULL, 10), &err) != 0) {
        fprintf(stderr, "data_rate: %s\n", err_text(&err));
        return err.code;
    }
    recipe_release(&r);
    return 0;
}
