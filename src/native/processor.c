/* What this processor can do, as far as the system lets it: see processor.h. */
#include "processor.h"

#ifdef VERSIONS
#include <cpuid.h>

#define BIT(word, k) ((int)((word) >> (k)&1u))
#define SAVES_YMM 0x06u
#define SAVES_ZMM 0xe6u

Processor processor;

__attribute__((constructor)) static void look_at_processor(void)
{
    unsigned a, b, c, d, saved, rest;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return;
    processor.counts_words = BIT(c, 23);
    if (!BIT(c, 27)) /* the system does not save wide registers */
        return;
    __asm__("xgetbv" : "=a"(saved), "=d"(rest) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return;
    processor.wide = (saved & SAVES_YMM) == SAVES_YMM && BIT(b, 5);
    int avx512f = BIT(b, 16), avx512vl = BIT(b, 31), vpopcntdq = BIT(c, 14);
    processor.counts_vectors =
        (saved & SAVES_ZMM) == SAVES_ZMM && avx512f && avx512vl && vpopcntdq;
}
#else
typedef int nothing_to_choose; /* C wants a declaration in every file */
#endif
