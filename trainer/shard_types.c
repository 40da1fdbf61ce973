#include <endian.h>
#include <string.h>

#include "trainer/shard_format.h"

/* In a file tokens are little-endian and need not be aligned: load by memcpy. */
#define ID(x) (x)
#define DEFINE_TYPE(tag, stored, decode, what)                                      \
    static int64_t value_##tag(const void *raw)                                     \
    {                                                                               \
        stored v;                                                                   \
                                                                                    \
        memcpy(&v, raw, sizeof(v));                                                 \
        return (int64_t)(stored)decode(v);                                          \
    }                                                                               \
                                                                                    \
    static void widen_##tag(int32_t *out, const void *raw, int64_t n)               \
    {                                                                               \
        const char *from = raw;                                                     \
                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                           \
            int64_t v = value_##tag(from + i * (int64_t)sizeof(stored));            \
            out[i] = v == (int32_t)v ? (int32_t)v : -1;                             \
        }                                                                           \
    }                                                                               \
                                                                                    \
    const struct token_type token_##tag = { what, (int)sizeof(stored), widen_##tag, \
                                            value_##tag };

DEFINE_TYPE(u8, uint8_t, ID, "uint8")
DEFINE_TYPE(i8, int8_t, ID, "int8")
DEFINE_TYPE(u16, uint16_t, le16toh, "uint16")
DEFINE_TYPE(i16, int16_t, le16toh, "int16")
DEFINE_TYPE(u32, uint32_t, le32toh, "uint32")
DEFINE_TYPE(i32, int32_t, le32toh, "int32")
DEFINE_TYPE(i64, int64_t, le64toh, "int64")
