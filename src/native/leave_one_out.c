/* Leave-one-out losses of every kDB with up to k parents and any number of features.
 *
 * Each feature has a trie over (value, parent 1, ..., parent k) with a level for each; only
 * combinations that occur have a node (a cell), and every training row finds its own. The
 * children of a cell stand side by side, sorted by value. */
#include "arrays.h"

#define ROW_BLOCK 512 /* rows whose posteriors stay in the nearest cache over all features */

enum { SQUARED, CLASS_SQUARED, ZERO_ONE, LOG };

/* Odds and posteriors are kept within these bounds, far outside what a score can tell. */
#define LOWEST 1e-250
#define HIGHEST 1e250

/* Added to a number below 2^51, it leaves the nearest whole number in the last bits. */
#define ROUNDING 6755399441055744.0 /* 1.5 * 2^52 */
#define ROUNDING_BITS 0x4338000000000000
#define LARGEST_ROUNDED 2251799813685248.0 /* 2^51 */

typedef struct {
    int64_t n_features, n_depths;
    const int64_t *level_start; /* levels of feature f are level_start[f]:level_start[f+1] */
    const int64_t *member;      /* the row of the codes that a level branches on */
    const int64_t *cell_start;  /* number of a level's first cell */
    const int64_t *width;       /* children of every cell above a level that has all, else 0 */
    const int32_t *child;       /* (n_cells + 1,): children of cell c are child[c]:child[c+1] */
    const uint16_t *value;      /* (n_cells,): the code that leads to a cell */
} Trie;

static inline int64_t step(const Trie *trie, int64_t cell, int64_t code)
{
    int64_t first = trie->child[cell], last = trie->child[cell + 1], guess = first + code;
    if (guess < last && trie->value[guess] == code)
        return guess;
    last = least(last, guess + 1);
    while (first + 1 < last) {
        int64_t middle = (first + last) / 2;
        if (trie->value[middle] <= code)
            first = middle;
        else
            last = middle;
    }
    return first;
}

#define CODE uint8_t
#define NAME(x) x##_8
#include "leave_one_out_by_type.h"
#undef CODE
#undef NAME
#define CODE uint16_t
#define NAME(x) x##_16
#include "leave_one_out_by_type.h"

#define TRIE(at, totals)                                                                      \
    {LENGTH(totals, 1), LENGTH(totals, 0), LONGS(at), LONGS(at + 1), LONGS(at + 2), LONGS(at + 3), INTS(at + 4), SHORTS(at + 5)}

/* For two classes and rows of weight one. odds (n_cells, 2): the factor by which a cell
 * multiplies the odds against a row's own class y, own count removed. state (n_rows,
 * n_depths): the odds after earlier features, changed in place. Adds each row's loss under
 * every model to totals (n_depths, n_features) of int64, in units of 1 / scale. */
static int64_t run_score_odds(Argument *arguments)
{
    Trie trie = TRIE(2, 12);
    int64_t n_rows = LENGTH(1, 0);
    double *room = malloc(sizeof(double) * (size_t)(trie.n_depths * ROW_BLOCK + 1));
    if (!room)
        return NO_MEMORY;
    if (NARROW(0))
        score_odds_8(BYTES(0), n_rows, SHORTS(1), &trie, DOUBLES(8), NUMBER(9), REAL(10), room,
                     DOUBLES(11), LONGS(12));
    else
        score_odds_16(SHORTS(0), n_rows, SHORTS(1), &trie, DOUBLES(8), NUMBER(9), REAL(10), room,
                      DOUBLES(11), LONGS(12));
    free(room);
    return 0;
}
KERNEL(score_odds,
       "codes: uint8|uint16[n_columns, n_rows]\n"
       "labels: uint16[n_rows] below 2\n"
       "level_start: int64[n_features + 1] rising to n_levels\n"
       "member: int64[n_levels] below n_columns\n"
       "cell_start: int64[n_levels] below n_cells\n"
       "width: int64[n_levels]\n"
       "child: int32[n_cells + 1]\n"
       "value: uint16[n_cells]\n"
       "odds: float64[n_cells, 2]\n"
       "score: int below 4\n"
       "scale: float\n"
       "state: float64[n_rows, n_depths] written\n"
       "totals: int64[n_depths, n_features] written")

/* Any number of classes, any weights. joint (n_cells, n_classes): N(x, y, parents); context
 * (n_cells,): the row of context_count (n_contexts, n_classes) that holds N(y, parents);
 * weights: of the loss; shares: what a row removes from its own counts; smoothing: m of the
 * m-estimate; strength: weight of the shorter context's estimate, 0 for none; state (n_rows,
 * n_depths, n_classes): the posteriors after earlier features. An unknown feature says
 * nothing about its row; below an unknown parent the shorter context's estimate stands. */
static int64_t run_score_posteriors(Argument *arguments)
{
    Trie trie = TRIE(2, 19);
    Estimates estimates = {LONGS(8),  DOUBLES(11), INTS(12), DOUBLES(13),
                           LENGTH(11, 1), REAL(14), REAL(15), NUMBER(16), REAL(17)};
    int64_t n_rows = LENGTH(1, 0), n_classes = estimates.n_classes;
    double *room = malloc(sizeof(double) * (size_t)(2 * n_classes + 1));
    if (!room)
        return NO_MEMORY;
    if (NARROW(0))
        score_posteriors_8(BYTES(0), n_rows, SHORTS(1), DOUBLES(9), DOUBLES(10), &trie, &estimates,
                           room, DOUBLES(18), LONGS(19));
    else
        score_posteriors_16(SHORTS(0), n_rows, SHORTS(1), DOUBLES(9), DOUBLES(10), &trie,
                            &estimates, room, DOUBLES(18), LONGS(19));
    free(room);
    return 0;
}
KERNEL(score_posteriors,
       "codes: uint8|uint16[n_columns, n_rows]\n"
       "labels: uint16[n_rows] below n_classes\n"
       "level_start: int64[n_features + 1] rising to n_levels\n"
       "member: int64[n_levels] below n_columns\n"
       "cell_start: int64[n_levels] below n_cells\n"
       "width: int64[n_levels]\n"
       "child: int32[n_cells + 1]\n"
       "value: uint16[n_cells]\n"
       "arities: int64[n_columns]\n"
       "weights: float64[n_rows]\n"
       "shares: float64[n_rows]\n"
       "joint: float64[n_cells, n_classes]\n"
       "context: int32[n_cells]\n"
       "context_count: float64[n_contexts, n_classes]\n"
       "smoothing: float\n"
       "strength: float\n"
       "score: int below 4\n"
       "scale: float\n"
       "state: float64[n_rows, n_depths, n_classes] written\n"
       "totals: int64[n_depths, n_features] written")
