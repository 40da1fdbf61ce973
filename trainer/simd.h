/* simd.h - what the CPU loops share: clones for wider registers, and exp.
 *
 * SIMD_CLONES compiles a function for several generations of x86-64 and picks
 * one at start, so that a build runs everywhere and is still fast.  Reductions
 * use `#pragma omp simd` (-fopenmp-simd, no runtime): the order of a sum is fixed
 * by the compiled code, so it repeats bit for bit on one kind of processor. */
#ifndef TRAINER_SIMD_H
#define TRAINER_SIMD_H

#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SIMD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SIMD_SANITIZED 1
#endif
#endif

/* Resolvers run before a sanitizer is ready. */
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(SIMD_SANITIZED)
#define SIMD_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define SIMD_CLONES
#endif
#define SIMD_INLINE static inline __attribute__((always_inline))

union simd_bits {
    float f;
    int32_t i;
};

/* e^x to 1 ulp or so: x = n ln 2 + r, |r| <= ln2/2, Cephes' minimax polynomial.
 * Below -87.3 it is 0, above 88.3 it stays at e^88.3; NaN gives NaN. */
SIMD_INLINE float simd_exp(float x)
{
    const float magic = 12582912.0f; /* 1.5 2^23: adding it rounds to an integer */
    float y = x > 88.3f ? 88.3f : x, n, r, p;
    union simd_bits t, scale;

    y = y < -87.3f ? -87.3f : y;
    t.f = y * 1.44269504088896341f + magic;
    n = t.f - magic;
    r = y - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    scale.i = (int32_t)((uint32_t)(t.i - 0x4b400000 + 127) << 23);
    p = p * scale.f;
    return x < -87.3f ? 0.0f : p;
}

SIMD_INLINE float simd_sigmoid(float x)
{
    return 1.0f / (1.0f + simd_exp(-x));
}

#endif
