/* Leave-one-out for one type of codes: CODE is the type, NAME(x) names a function. */

#ifndef TANAGER_ESTIMATES
#define TANAGER_ESTIMATES
typedef struct {
    const int64_t *arities;
    const double *joint;
    const int32_t *context;
    const double *context_count;
    int64_t n_classes;
    double smoothing, strength;
    int64_t score;
    double scale;
} Estimates;

/* One row's loss from its posterior. */
static double posterior_loss(const double *posterior, int64_t n_classes, int64_t own, int64_t score)
{
    if (score == SQUARED)
        return (1.0 - posterior[own]) * (1.0 - posterior[own]);
    if (score == LOG)
        return -log(posterior[own]);
    if (score == ZERO_ONE) {
        int64_t best = 0;
        for (int64_t c = 1; c < n_classes; c++)
            if (posterior[c] > posterior[best])
                best = c;
        return best == own ? 0.0 : 1.0;
    }
    double total = 0.0;
    for (int64_t c = 0; c < n_classes; c++) {
        double error = c == own ? 1.0 - posterior[c] : posterior[c];
        total += error * error;
    }
    return total / (double)n_classes;
}

/* Move the estimates of one row and feature one level down. seen (n_classes,): the estimates
 * from all rows; kept: that of the row's own class without the row. Above the class stands
 * the feature's marginal, for classes without (other) rows. */
static void blend(const Estimates *e, int64_t cell, int64_t depth, double even, int64_t own,
                  double share, double *seen, double *kept)
{
    const double *joint = e->joint + cell * e->n_classes;
    const double *context = e->context_count + (int64_t)e->context[cell] * e->n_classes;
    double m = e->smoothing, s = e->strength, rest = context[own] - share;
    if (depth == 0) {
        double total = 0.0, marginal = 0.0;
        for (int64_t c = 0; c < e->n_classes; c++) {
            total += context[c];
            marginal += joint[c];
        }
        for (int64_t c = 0; c < e->n_classes; c++)
            seen[c] = context[c] > 0.0 ? (joint[c] + even) / (context[c] + m)
                                       : (marginal + even) / (total + m);
        *kept = rest > 0.0 ? (joint[own] - share + even) / (rest + m)
                           : (marginal - share + even) / (high(total - share, 0.0) + m);
    } else if (s > 0.0) {
        for (int64_t c = 0; c < e->n_classes; c++)
            seen[c] = (joint[c] + s * seen[c]) / (context[c] + s);
        *kept = (high(joint[own] - share, 0.0) + s * *kept) / (high(rest, 0.0) + s);
    } else {
        for (int64_t c = 0; c < e->n_classes; c++)
            if (context[c] > 0.0)
                seen[c] = (joint[c] + even) / (context[c] + m);
        if (rest > 0.0)
            *kept = (joint[own] - share + even) / (rest + m);
    }
}

/* Multiply one row's posterior by a feature's term, and normalise it. */
static void multiply(double *posterior, const double *seen, int64_t n_classes, int64_t own,
                     double kept)
{
    double total = 0.0;
    for (int64_t c = 0; c < n_classes; c++) {
        posterior[c] *= c == own ? kept : seen[c];
        total += posterior[c];
    }
    double scale = 1.0 / total;
    for (int64_t c = 0; c < n_classes; c++)
        posterior[c] = high(posterior[c] * scale, LOWEST);
}

/* Multiply the odds against the rows' own classes by a feature's ratios; return the sum of
 * the losses in whole units of 1 / scale. For two classes both squared errors are the same. */
WIDE(int64_t, squared_losses,
     (double *odds, const double *ratio, int64_t size, double scale),
     (odds, ratio, size, scale))
{
    int64_t sum = 0;
    for (int64_t r = 0; r < size; r++) {
        odds[r] = low(high(odds[r] * ratio[r], LOWEST), HIGHEST);
        double error = odds[r] / (1.0 + odds[r]);
        /* Rounded to a whole number, whose bits then stand at the end of the mantissa. */
        double shifted = error * error * scale + ROUNDING;
        int64_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        sum += bits - ROUNDING_BITS;
    }
    return sum;
}

static int64_t other_losses(double *odds, const double *ratio, const uint16_t *labels, int64_t size,
                            int64_t score, double scale)
{
    int64_t sum = 0;
    for (int64_t r = 0; r < size; r++) {
        odds[r] = low(high(odds[r] * ratio[r], LOWEST), HIGHEST);
        if (score <= CLASS_SQUARED) { /* of so few rows that a loss has more than 51 bits */
            double error = odds[r] / (1.0 + odds[r]);
            sum += (int64_t)(error * error * scale + 0.5);
        } else if (score == ZERO_ONE)
            sum += odds[r] > 1.0 || (odds[r] == 1.0 && labels[r] == 1) ? (int64_t)scale : 0;
        else
            sum += (int64_t)(log1p(odds[r]) * scale + 0.5);
    }
    return sum;
}
#endif

/* Move rows one level down the tries. Where a level has all combinations, a child's place
 * is known; elsewhere it is looked for. */
static void NAME(step_down)(const Trie *trie, int64_t level, int64_t depth, const CODE *column,
                            int64_t size, int32_t *cell)
{
    int32_t first = (int32_t)trie->cell_start[level], width = (int32_t)trie->width[level];
    if (depth == 0)
        for (int64_t r = 0; r < size; r++)
            cell[r] = first + column[r];
    else if (width) {
        first -= (int32_t)trie->cell_start[level - 1] * width;
        for (int64_t r = 0; r < size; r++)
            cell[r] = first + cell[r] * width + column[r];
    } else
        for (int64_t r = 0; r < size; r++)
            cell[r] = (int32_t)step(trie, cell[r], column[r]);
}

/* odds: room for (n_depths, ROW_BLOCK). */
static void NAME(score_odds)(const CODE *codes, int64_t n_rows, const uint16_t *labels,
                             const Trie *trie, const double *ratios, int64_t score, double scale,
                             double *odds, double *state, int64_t *totals)
{
    int32_t cell[ROW_BLOCK];
    int64_t n_depths = trie->n_depths;
    double ratio[ROW_BLOCK];
    int quick = score <= CLASS_SQUARED && scale <= LARGEST_ROUNDED;
    for (int64_t row = 0; row < n_rows; row += ROW_BLOCK) {
        int64_t size = least(ROW_BLOCK, n_rows - row);
        for (int64_t r = 0; r < size; r++)
            for (int64_t d = 0; d < n_depths; d++)
                odds[d * ROW_BLOCK + r] = state[(row + r) * n_depths + d];
        for (int64_t f = 0; f < trie->n_features; f++) {
            int64_t first = trie->level_start[f], n_levels = trie->level_start[f + 1] - first;
            for (int64_t d = 0; d < n_depths; d++) {
                if (d < n_levels) {
                    const CODE *column = codes + trie->member[first + d] * n_rows + row;
                    NAME(step_down)(trie, first + d, d, column, size, cell);
                    for (int64_t r = 0; r < size; r++)
                        ratio[r] = ratios[2 * (int64_t)cell[r] + labels[row + r]];
                }
                double *mine = odds + d * ROW_BLOCK;
                totals[d * trie->n_features + f] +=
                    quick ? squared_losses(mine, ratio, size, scale)
                          : other_losses(mine, ratio, labels + row, size, score, scale);
            }
        }
        for (int64_t r = 0; r < size; r++)
            for (int64_t d = 0; d < n_depths; d++)
                state[(row + r) * n_depths + d] = odds[d * ROW_BLOCK + r];
    }
}

static void NAME(score_posteriors)(const CODE *codes, int64_t n_rows, const uint16_t *labels,
                                   const double *weights, const double *shares, const Trie *trie,
                                   const Estimates *e, double *seen, double *state, int64_t *totals)
{
    int64_t n_depths = trie->n_depths, n_classes = e->n_classes;
    for (int64_t r = 0; r < n_rows; r++) {
        int64_t own = labels[r];
        for (int64_t f = 0; f < trie->n_features; f++) {
            int64_t first = trie->level_start[f], last = trie->level_start[f + 1], cell = 0;
            double even = e->smoothing / (double)e->arities[trie->member[first]], kept = 0.0;
            int known = weights[r] > 0.0, deeper = known;
            for (int64_t d = 0; d < n_depths; d++) {
                double *posterior = state + (r * n_depths + d) * n_classes;
                deeper &= first + d < last;
                if (deeper) {
                    int64_t member = trie->member[first + d], code = codes[member * n_rows + r];
                    deeper = code < e->arities[member];
                    known &= deeper || d > 0;
                    if (deeper) {
                        cell = d ? step(trie, cell, code) : trie->cell_start[first] + code;
                        blend(e, cell, d, even, own, shares[r], seen, &kept);
                    }
                }
                if (known)
                    multiply(posterior, seen, n_classes, own, kept);
                double loss = posterior_loss(posterior, n_classes, own, e->score);
                totals[d * trie->n_features + f] += (int64_t)(weights[r] * loss * e->scale + 0.5);
            }
        }
    }
}
