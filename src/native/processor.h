/* Loops compiled for several generations of processors; which of them runs is decided when the
 * module is loaded. All give the same numbers: no operation is fused or reordered.
 *
 * This takes nothing from the compiler's runtime library or the linker (target_clones needs both),
 * so it holds for gcc and clang on Linux, macOS and Windows alike. */
#ifndef TANAGER_PROCESSOR_H
#define TANAGER_PROCESSOR_H
#include <stdint.h>

#ifdef __GNUC__
#define INLINE static inline __attribute__((always_inline))
#define COUNT_BITS(word) ((uint64_t)__builtin_popcountll(word))
#else
#define INLINE static inline
static inline uint64_t count_bits(uint64_t word)
{
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    return ((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56;
}
#define COUNT_BITS(word) count_bits(word)
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(TANAGER_PLAIN) /* a test defines it */
#define VERSIONS

typedef struct {
    int wide;           /* AVX2 */
    int counts_words;   /* POPCNT */
    int counts_vectors; /* AVX-512 with VPOPCNTDQ */
} Processor;

extern Processor processor;

#define TARGET_POPCNT __attribute__((target("popcnt")))
#ifdef __clang__
#define TARGET_AVX512                                                                         \
    __attribute__((target("avx512f,avx512vl,avx512vpopcntdq"), min_vector_width(512)))
#else
#define TARGET_AVX512                                                                         \
    __attribute__((target("avx512f,avx512vl,avx512vpopcntdq,prefer-vector-width=512")))
#endif

/* WIDE(result, name, (parameters), (their names)) { body }: a static function whose body is
 * compiled for AVX2 too. */
#define WIDE(result, name, parameters, names) WIDE_VERSIONS(result, name, parameters, names)
#define WIDE_VERSIONS(result, name, parameters, names)                                        \
    INLINE result name##_body parameters;                                                     \
    __attribute__((target("avx2"))) static result name##_avx2 parameters                      \
    {                                                                                         \
        return name##_body names;                                                             \
    }                                                                                         \
    static result name##_plain parameters { return name##_body names; }                       \
    static inline result name parameters                                                      \
    {                                                                                         \
        return processor.wide ? name##_avx2 names : name##_plain names;                       \
    }                                                                                         \
    INLINE result name##_body parameters
#else
#define WIDE(result, name, parameters, names) static result name parameters
#endif

#endif
