/* Exponentials and logarithms of arrays, without branches or calls in their loops, so that
 * they run on several numbers at a time. */
#ifndef TANAGER_MATHS_H
#define TANAGER_MATHS_H
#include "arrays.h"

/* exp(x) = 2^k exp(r) with |r| <= log(2)/2. Adding 1.5 * 2^52 rounds to an integer and
 * leaves it in the low bits. */
#define LOG2_E 1.4426950408889634
#define LOG_2 0.6931471805599453
#define LOG_2_HIGH 6.93147180369123816490e-01
#define LOG_2_LOW 1.90821492927058770002e-10
#define ROUNDER 6755399441055744.0
#define LEAST_EXPONENT -700.0
#define ROOT_HALF 0x3FE6A09E667F3BCDu /* the bits of sqrt(1/2) */
#define TWO_52 0x4330000000000000u    /* the bits of 2^52, whose lowest bits count units */

static inline double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

static inline uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

/* exp(value) within 4 units in the last place, by Taylor's polynomial of degree 13. Values
 * are at most 700, and those below -700 count as -700. */
static inline double exponential(double value)
{
    value = value > LEAST_EXPONENT ? value : LEAST_EXPONENT;
    double rounded = value * LOG2_E + ROUNDER, whole = rounded - ROUNDER;
    double r = (value - whole * LOG_2_HIGH) - whole * LOG_2_LOW, r2 = r * r, r4 = r2 * r2;
    double first = (1.0 + r) + r2 * (1 / 2.0 + r * (1 / 6.0));
    double second = (1 / 24.0 + r * (1 / 120.0)) + r2 * (1 / 720.0 + r * (1 / 5040.0));
    double third = (1 / 40320.0 + r * (1 / 362880.0)) + r2 * (1 / 3628800.0 + r * (1 / 39916800.0));
    double fourth = 1 / 479001600.0 + r * (1 / 6227020800.0);
    double power = from_bits((to_bits(rounded) + 1023) << 52);
    return (first + r4 * second + (r4 * r4) * (third + r4 * fourth)) * power;
}

/* log(1 + value) within 4 units in the last place, for values of at least 0.
 * 1 + value = 2^k (1 + f) with 1 + f between the roots of 1/2 and 2, and
 * log(1 + f) = 2 artanh(f / (2 + f)), by its series. */
static inline double logarithm_1p(double value)
{
    uint64_t bits = to_bits(1.0 + value), exponent_bits = (bits - ROOT_HALF) >> 52;
    double exponent = from_bits(exponent_bits | TWO_52) - 4503599627370496.0;
    double rest = from_bits(bits - (exponent_bits << 52)) - 1.0;
    /* where 2^k is one, the value itself, which has more digits than 1 + value */
    double f = exponent == 0.0 ? value : rest;
    double t = f / (f + 2.0), t2 = t * t, t4 = t2 * t2, t8 = t4 * t4;
    double first = (1 / 3.0 + t2 * (1 / 5.0)) + t4 * (1 / 7.0 + t2 * (1 / 9.0));
    double second = (1 / 11.0 + t2 * (1 / 13.0)) + t4 * (1 / 15.0 + t2 * (1 / 17.0));
    double third = 1 / 19.0 + t2 * (1 / 21.0);
    double total = first + t8 * (second + t8 * third);
    return exponent * LOG_2 + 2.0 * (t + t * t2 * total);
}

#endif
