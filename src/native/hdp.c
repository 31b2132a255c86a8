/* The fixed point of a hierarchical Dirichlet model, by sweeps up and down its tree. */
#include "stirling.h"

/* Concentrations stay inside these bounds: below, a node trusts its own counts alone;
 * above, it repeats its parent whatever it saw. */
#define MIN_CONCENTRATION 1e-3
#define MAX_CONCENTRATION 1e5
#define MAX_STEP 1.5     /* largest change of a log-concentration in one sweep */
#define ASYMPTOTIC 8.0   /* from here six terms of the series leave an error below 1e-13 */
#define MOST_COUNTED 4e18 /* below 2^62; more tables than that are not told apart */
#define SMALL_COUNT 16.0 /* up to this count a sum of reciprocals is cheaper than two digammas */

typedef struct {
    const int64_t *level_node, *level_cell, *node_start, *node_group, *cell_parent;
    const double *cell_count;
    int64_t depth, n_nodes, n_cells, n_groups;
    double arity, root_mass, shape;
    const double *rate;
} Model;

/* The first two derivatives of log gamma at x > 0: the recurrence carries x past 8, the
 * asymptotic series of Abramowitz and Stegun (6.3.18, 6.4.12) does the rest. */
static void polygamma(double x, double *first, double *second)
{
    double a = 0.0, b = 0.0, inverse, square;
    while (x < ASYMPTOTIC) {
        inverse = 1.0 / x;
        a -= inverse;
        b += inverse * inverse;
        x += 1.0;
    }
    inverse = 1.0 / x;
    square = inverse * inverse;
    a += log(x) - 0.5 * inverse;
    a -= square *
         (1.0 / 12.0 -
          square * (1.0 / 120.0 - square * (1.0 / 252.0 - square * (1.0 / 240.0 - square * (1.0 / 132.0)))));
    b += inverse + 0.5 * square;
    b += inverse * square *
         (1.0 / 6.0 -
          square * (1.0 / 30.0 - square * (1.0 / 42.0 - square * (1.0 / 30.0 - square * (5.0 / 66.0)))));
    *first = a;
    *second = b;
}

/* E[t] = a (psi(a+n) - psi(a)) = sum over i < n of a/(a+i), and its derivative by log a.
 * One step of the recurrence takes the pole at a = 0 out of the difference, so that a
 * tiny mass loses no digits. */
double expected_tables(double mass, double count, double *slope)
{
    *slope = 0.0;
    if (count == 1.0)
        return 1.0;
    if (count <= SMALL_COUNT && count == floor(count)) {
        double tables = 1.0;
        for (int i = 1; i < (int)count; i++) {
            double share = mass / (mass + i);
            tables += share;
            *slope += share * (1.0 - share);
        }
        return tables;
    }
    double first_high, second_high, first_low, second_low;
    polygamma(mass + count + 1.0, &first_high, &second_high);
    polygamma(mass + 1.0, &first_low, &second_low);
    double share = count / (mass + count), smooth = mass * (first_high - first_low);
    *slope = smooth + mass * mass * (second_high - second_low) - share * (1.0 - share);
    return smooth + share;
}

/* Pass the expected tables of every node up to its parent. Writes counts above the
 * leaves, totals, and per group sums (5, n_groups): tables and their derivative by log
 * alpha, alpha [psi(n + alpha) - psi(alpha)] and its derivative, the largest node count. */
static void sweep_up(const Model *tree, const double *phi, const double *alpha, double *counts,
                     double *totals, double *sums)
{
    int64_t g = tree->n_groups;
    memset(sums, 0, sizeof(double) * (size_t)(5 * g));
    memset(counts, 0, sizeof(double) * (size_t)tree->level_cell[tree->depth]);
    for (int64_t d = tree->depth; d > 0; d--)
        for (int64_t u = tree->level_node[d]; u < tree->level_node[d + 1]; u++) {
            int64_t group = tree->node_group[u];
            double concentration = alpha[group], total = 0.0, tables = 0.0, slope = 0.0, change;
            for (int64_t c = tree->node_start[u]; c < tree->node_start[u + 1]; c++) {
                double count = counts[c], mean = 1.0;
                if (count == 0.0)
                    continue;
                int64_t above = tree->cell_parent[c];
                if (count != 1.0) {
                    mean = expected_tables(concentration * phi[above], count, &change);
                    slope += change;
                }
                counts[above] += mean;
                tables += mean;
                total += count;
            }
            totals[u] = total;
            if (total == 0.0)
                continue;
            double spread = expected_tables(concentration, total, &change);
            sums[group] += tables;
            sums[g + group] += slope;
            sums[2 * g + group] += spread;
            sums[3 * g + group] += change;
            sums[4 * g + group] = high(sums[4 * g + group], total);
        }
}

/* One damped Newton step on every log alpha; returns a bound on its effect.
 *
 * The fixed point solves alpha = (shape - 1 + sum t) / (rate + sum [psi(n + alpha) -
 * psi(alpha)]). Newton's step on the logarithm of the ratio of both sides replaces
 * hundreds of plain iterations; where two levels explain the same variation their steps
 * overshoot together, so a change of sign halves a group's damping. The bound is on the
 * change of any (n + alpha phi)/(N + alpha), whose derivative by log alpha is at most
 * alpha N / (N + alpha)^2. */
static double move_concentrations(const Model *tree, const double *sums, double *alpha,
                                  double *residual, double *damping)
{
    double effect = 0.0;
    int64_t n = tree->n_groups;
    for (int64_t g = 0; g < n; g++) {
        if (sums[2 * n + g] == 0.0)
            continue;
        double old = alpha[g], above = tree->shape - 1.0 + sums[g];
        double below = tree->rate[g] * old + sums[2 * n + g];
        if (above <= 0.0) {
            alpha[g] = MIN_CONCENTRATION;
            effect = high(effect, 0.25 * fabs(log(alpha[g] / old)));
            continue;
        }
        double value = log(above / below);
        double slope = sums[n + g] / above - (tree->rate[g] * old + sums[3 * n + g]) / below;
        double step = slope < 0.0 ? -value / slope : value;
        damping[g] = value * residual[g] < 0.0 ? 0.5 * damping[g] : low(1.0, 1.3 * damping[g]);
        residual[g] = value;
        step = damping[g] * low(high(step, -MAX_STEP), MAX_STEP);
        alpha[g] = low(high(old * exp(step), MIN_CONCENTRATION), MAX_CONCENTRATION);
        double share = old / (old + sums[4 * n + g]);
        double weight = share > 0.5 ? share * (1.0 - share) : 0.25;
        effect = high(effect, weight * fabs(log(alpha[g] / old)));
    }
    return effect;
}

/* Blend every node's counts with its parent's estimate, levels 0 to `last`. Writes phi
 * and the root's total; returns the largest change. */
static double sweep_down(const Model *tree, const double *alpha, const double *counts,
                         double *totals, int64_t last, double *phi)
{
    double change = 0.0, total = 0.0, root = tree->root_mass;
    for (int64_t c = 0; c < tree->level_cell[1]; c++)
        total += counts[c];
    totals[0] = total;
    for (int64_t c = 0; c < tree->level_cell[1]; c++) {
        double value = (counts[c] + root / tree->arity) / (total + root);
        change = high(change, fabs(value - phi[c]));
        phi[c] = value;
    }
    for (int64_t u = 1; u < tree->level_node[last + 1]; u++) {
        double mass = alpha[tree->node_group[u]], scale = 1.0 / (totals[u] + mass);
        for (int64_t c = tree->node_start[u]; c < tree->node_start[u + 1]; c++) {
            double value = (counts[c] + mass * phi[tree->cell_parent[c]]) * scale;
            change = high(change, fabs(value - phi[c]));
            phi[c] = value;
        }
    }
    return change;
}

static int64_t solve(const Model *tree, double tolerance, int64_t max_sweeps, double *alpha,
                     double *phi, double *escape, double *trace, double *room)
{
    double *counts = room, *totals = counts + tree->n_cells, *sums = totals + tree->n_nodes;
    double *residual = sums + 5 * tree->n_groups, *damping = residual + tree->n_groups;
    memcpy(counts, tree->cell_count, sizeof(double) * (size_t)tree->n_cells);
    for (int64_t u = 0; u < tree->n_nodes; u++) {
        totals[u] = 0.0;
        for (int64_t c = tree->node_start[u]; c < tree->node_start[u + 1]; c++)
            totals[u] += counts[c];
        for (int64_t c = tree->node_start[u]; c < tree->node_start[u + 1]; c++)
            phi[c] = (counts[c] + 1.0 / tree->arity) / (totals[u] + 1.0);
    }
    for (int64_t g = 0; g < tree->n_groups; g++)
        residual[g] = 0.0, damping[g] = 1.0;
    int64_t n_sweeps = 0;
    while (n_sweeps < max_sweeps) {
        sweep_up(tree, phi, alpha, counts, totals, sums);
        double change = move_concentrations(tree, sums, alpha, residual, damping);
        change += sweep_down(tree, alpha, counts, totals, tree->depth - 1, phi);
        trace[n_sweeps++] = change;
        if (change < tolerance)
            break;
    }
    sweep_down(tree, alpha, counts, totals, tree->depth, phi);
    for (int64_t c = 0; c < tree->n_cells; c++)
        phi[c] = log(phi[c]);
    for (int64_t u = 0; u < tree->n_nodes; u++) {
        double mass = u == 0 ? tree->root_mass : alpha[tree->node_group[u]];
        escape[u] = log(mass / (totals[u] + mass));
    }
    return n_sweeps;
}

/* Sweep until no predictive probability moves by more than `tolerance`. rate and alpha
 * (n_groups,): of the prior; the start, which receives the concentrations. Writes log-
 * probabilities to phi (n_cells,), log escape mass to escape (n_nodes,), each sweep's change
 * to trace; returns the number of sweeps. */
static int64_t run_solve_fixed_point(Argument *arguments)
{
    int64_t depth = LENGTH(0, 0) - 2;
    Model tree = {LONGS(0), LONGS(1),       LONGS(2),     LONGS(3),     LONGS(4), DOUBLES(5),
                  depth,    LENGTH(3, 0),   LENGTH(5, 0), LENGTH(12, 0), (double)NUMBER(6),
                  REAL(7),  REAL(8),        DOUBLES(9)};
    size_t size = (size_t)(tree.n_cells + tree.n_nodes + 7 * tree.n_groups + 1);
    double *room = malloc(sizeof(double) * size);
    if (!room)
        return NO_MEMORY;
    int64_t n = solve(&tree, REAL(10), NUMBER(11), DOUBLES(12), DOUBLES(13), DOUBLES(14),
                      DOUBLES(15), room);
    free(room);
    return n;
}
KERNEL(solve_fixed_point,
       "level_node: int64[n_levels] rising to n_nodes\n"
       "level_cell: int64[n_levels] rising to n_cells\n"
       "node_start: int64[n_nodes + 1] rising to n_cells\n"
       "node_group: int64[n_nodes]\n"
       "cell_parent: int64[n_cells]\n"
       "cell_count: float64[n_cells]\n"
       "arity: int from 1\n"
       "root_mass: float\n"
       "shape: float\n"
       "rate: float64[n_groups]\n"
       "tolerance: float\n"
       "max_sweeps: int\n"
       "alpha: float64[n_groups] written\n"
       "phi: float64[n_cells] written\n"
       "escape: float64[n_nodes] written\n"
       "trace: float64[max_sweeps] written")

/* The mean of t under weights S(n, t) phi^t (alpha + d rest) (alpha + d (rest + 1)) ...:
 * the tables of one cell of a Pitman-Yor node, given the `rest` of the node's tables. */
static double mean_tables(const Stirling *table, int64_t n, double phi, double alpha,
                          double discount, double rest)
{
    if (n <= 1)
        return (double)n;
    double weight = 1.0, sum = 1.0, first = 1.0;
    Between row = find_rows(table, n);
    for (int64_t t = 1; t < least(n, table->n_columns); t++) {
        double ratio = (1.0 - row.share) * row.low[t] + row.share * row.high[t];
        ratio *= phi * (alpha + discount * (rest + (double)t));
        weight *= ratio;
        sum += weight;
        first += weight * (double)(t + 1);
        if (ratio < 1.0 && weight < 1e-14 * sum)
            break;
        if (sum > 1e200)
            weight *= 1e-200, sum *= 1e-200, first *= 1e-200;
    }
    return first / sum;
}

/* Writes the mean number of tables of every cell to mean (n_cells,). A fractional count lies
 * on the line between its whole neighbours; alpha (n_cells,) is that of the cell's node. */
static int64_t run_expect_tables(Argument *arguments)
{
    Stirling table = {DOUBLES(0), DOUBLES(1), LENGTH(0, 1), NUMBER(2), LENGTH(1, 0)};
    const double *count = DOUBLES(3), *phi = DOUBLES(4), *rest = DOUBLES(5), *alpha = DOUBLES(6);
    double discount = REAL(7), *mean = DOUBLES(8);
    for (int64_t c = 0; c < LENGTH(3, 0); c++) {
        double whole = low(floor(count[c]), MOST_COUNTED), part = high(count[c] - whole, 0.0);
        part = part < 1.0 ? part : 0.0;
        double low_mean = mean_tables(&table, (int64_t)whole, phi[c], alpha[c], discount, rest[c]);
        mean[c] = low_mean;
        if (part > 0.0) {
            double high_mean =
                mean_tables(&table, (int64_t)whole + 1, phi[c], alpha[c], discount, rest[c]);
            mean[c] += part * (high_mean - low_mean);
        }
    }
    return 0;
}
KERNEL(expect_tables,
       "rows: float64[n_known, n_columns]\n"
       "log_count: float64[n_far]\n"
       "dense: int from 0\n"
       "count: float64[n_cells]\n"
       "phi: float64[n_cells]\n"
       "rest: float64[n_cells]\n"
       "alpha: float64[n_cells]\n"
       "discount: float\n"
       "mean: float64[n_cells] written")
