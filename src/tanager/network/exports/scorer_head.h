/* A Bayesian network classifier, written by Tanager.
 *
 *     @_row row = {...};
 *     double p[@_N_CLASSES];
 *     @_score(&row, p);
 *
 * p[c] is the probability of class c of @@TARGET:
@@EXPLAINED_CLASSES
 *
 * Numbers: NaN is missing. Texts (UTF-8): NULL is missing. Any value may be missing or
 * never seen in training; the probabilities are exact all the same. */
#ifndef @_MODEL_H
#define @_MODEL_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#define @_N_CLASSES @@CLASS_COUNT
#define @_N_FEATURES @@FEATURE_COUNT

typedef struct {
@@FIELDS
} @_row;

static const char *const @_classes[@_N_CLASSES] = {
    @@LABELS};

static inline const char *@_label(int c)
{
    return @_classes[c];
}
