/* The collapsed Gibbs sampler of a hierarchical Dirichlet (or Pitman-Yor) model. */
#include "stirling.h"

/* A concentration that the data leave open (under an improper prior, say) stops here. */
#define LEAST_ALPHA 1e-9
#define MOST_ALPHA 1e9
/* Terms of -log Beta(alpha, n) that may be drawn for all nodes of a group at once, and the width of
 * the working space: sum of tables, terms drawn at once, spread, nodes by number of terms. */
#define POOLED 32
#define WORK (3 + POOLED)
#define FEW 4 /* up to so many rows -log Beta(alpha, n) is a sum of exponential numbers */

/* ---- random numbers: xoshiro256++ (Blackman and Vigna 2021, doi:10.1145/3460772) ---- */

/* A number in (0, 1); advances state (4,). */
static double uniform(uint64_t *state)
{
    uint64_t total = state[0] + state[3], result = ((total << 23) | (total >> 41)) + state[0];
    uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = (state[3] << 45) | (state[3] >> 19);
    return ((double)(result >> 11) + 0.5) * (1.0 / 9007199254740992.0);
}

/* A standard normal number, by Marsaglia's polar method. */
static double normal(uint64_t *state)
{
    for (;;) {
        double x = 2.0 * uniform(state) - 1.0, y = 2.0 * uniform(state) - 1.0;
        double square = x * x + y * y;
        if (square > 0.0 && square < 1.0)
            return x * sqrt(-2.0 * log(square) / square);
    }
}

/* The logarithm of a Gamma(shape, 1) number (Marsaglia and Tsang 2000,
 * doi:10.1145/358407.358414); a shape below one goes through shape + 1, in logarithms, so that it
 * cannot underflow. */
static double log_gamma_variate(uint64_t *state, double shape)
{
    double boost = 0.0;
    if (shape < 1.0) {
        boost = log(uniform(state)) / shape;
        shape += 1.0;
    }
    double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x = normal(state), v = 1.0 + c * x;
        if (v <= 0.0)
            continue;
        v = v * v * v;
        if (log(uniform(state)) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v) + boost;
    }
}

/* -log of a Beta(mass, n) number; of few rows as a sum of exponential numbers. */
static double draw_spread(uint64_t *state, double mass, int64_t n)
{
    double spread = 0.0;
    if (n > FEW) {
        double odds = log_gamma_variate(state, (double)n);
        odds -= log_gamma_variate(state, mass);
        return odds > 40.0 ? odds : log1p(exp(odds));
    }
    for (int64_t i = 0; i < n; i++)
        spread -= log(uniform(state)) / (mass + (double)i);
    return spread;
}

/* ---- the chain ---- */

typedef struct {
    const int64_t *level_node, *level_cell, *node_start, *node_group, *node_parent, *cell_parent;
    int64_t depth, n_nodes, n_cells, n_groups;
} Model;

/* The ratios, and their first columns again with S(n + 1, t) / S(n, t): what is read most, in a
 * fraction of the cache. */
typedef struct {
    Stirling far;
    const double *near, *growth; /* (n_near, n_columns) */
    int64_t n_near, n_columns;
    double discount;
} Ratios;

typedef struct {
    int64_t *counts, *tables, *node_counts, *node_tables;
    uint64_t *random;
} Chain;

typedef struct {
    double root_mass, root_part; /* the root's concentration, and what of it each value gets */
    double shape, arity;
    const double *rate;
} Prior;

static inline double table_ratio(const Ratios *ratios, int64_t n, int64_t t)
{
    if (n < ratios->n_near && t < ratios->n_columns)
        return ratios->near[n * ratios->n_columns + t];
    return stirling_ratio(&ratios->far, n, t);
}

/* S(n + 1, t) / S(n, t) for 1 <= t <= n. */
static inline double growth(const Ratios *ratios, int64_t n, int64_t t)
{
    if (n < ratios->n_near && t < ratios->n_columns)
        return ratios->growth[n * ratios->n_columns + t];
    double more = (double)n - (double)t * ratios->discount;
    return t == 1 ? more : more + 1.0 / table_ratio(ratios, n, t - 1);
}

/* Set every cell's tables to their rounded mean under phi and alpha, leaves first. */
static int64_t run_start_chain(Argument *arguments)
{
    Model tree = {LONGS(0), LONGS(1), LONGS(2), LONGS(3), NULL, LONGS(4),
                  LENGTH(0, 0) - 2, LENGTH(3, 0), LENGTH(4, 0), LENGTH(7, 0)};
    const double *cell_count = DOUBLES(5), *phi = DOUBLES(6), *alpha = DOUBLES(7);
    int64_t most_tables = NUMBER(8), *counts = LONGS(9), *tables = LONGS(10);
    int64_t *node_counts = LONGS(11), *node_tables = LONGS(12);
    for (int64_t c = 0; c < tree.n_cells; c++) {
        counts[c] = c >= tree.level_cell[tree.depth] ? (int64_t)low(cell_count[c], 4e18) : 0;
        tables[c] = 0;
    }
    for (int64_t d = tree.depth; d >= 0; d--)
        for (int64_t u = tree.level_node[d]; u < tree.level_node[d + 1]; u++) {
            node_counts[u] = node_tables[u] = 0;
            for (int64_t c = tree.node_start[u]; c < tree.node_start[u + 1]; c++) {
                node_counts[u] += counts[c];
                if (d == 0 || counts[c] == 0)
                    continue;
                int64_t above = tree.cell_parent[c];
                double slope, mass = alpha[tree.node_group[u]] * phi[above];
                double mean = expected_tables(mass, (double)counts[c], &slope);
                tables[c] = least(least(most((int64_t)rint(mean), 1), counts[c]), most_tables);
                node_tables[u] += tables[c];
                counts[above] += tables[c];
            }
        }
    return 0;
}
KERNEL(start_chain,
       "level_node: int64[n_levels] rising to n_nodes\n"
       "level_cell: int64[n_levels] rising to n_cells\n"
       "node_start: int64[n_nodes + 1] rising to n_cells\n"
       "node_group: int64[n_nodes] below n_groups or negative\n"
       "cell_parent: int64[n_cells] below n_cells or negative\n"
       "cell_count: float64[n_cells]\n"
       "phi: float64[n_cells]\n"
       "alpha: float64[n_groups]\n"
       "max_tables: int from 1\n"
       "counts: int64[n_cells] written\n"
       "tables: int64[n_cells] written\n"
       "node_counts: int64[n_nodes] written\n"
       "node_tables: int64[n_nodes] written\n"
       "2 <= n_levels")

/* Write the relative weights of table counts first .. last of cell c in node u; return their sum.
 * Ratios of equation 11 for one more table: the cell's own Stirling numbers and concentration,
 * times the parent's factor. At the root the Dirichlet is marginalised; elsewhere that factor is
 * S(n + 1, t) / S(n, t) over the next term of the rising factorial. */
static double weigh(const Model *tree, const Ratios *ratios, const Prior *prior,
                    const double *alpha, const Chain *chain, int64_t c, int64_t u, int64_t first,
                    int64_t last, double *weights)
{
    int64_t p = tree->cell_parent[c], above = tree->node_parent[u], now = chain->tables[c];
    double discount = ratios->discount;
    double mass = alpha[tree->node_group[u]] + discount * (double)(chain->node_tables[u] - now);
    int64_t n = chain->counts[p] - now, whole = chain->node_counts[above] - now;
    double whole_mass = above == 0 ? prior->root_mass : alpha[tree->node_group[above]];
    double weight = 1.0, total = 1.0;
    weights[0] = 1.0;
    for (int64_t t = first; t < last; t++) {
        double gain = table_ratio(ratios, chain->counts[c], t) * (mass + discount * (double)t);
        if (above == 0)
            gain *= (double)(n + t) + prior->root_part;
        else
            gain *= growth(ratios, n + t, chain->tables[p]);
        weight *= gain / ((double)(whole + t) + whole_mass);
        weights[t + 1 - first] = weight;
        total += weight;
    }
    return total;
}

/* Draw every cell's number of tables given all others, leaves first. A cell with one row has one
 * table. Of the others' supports a window with a random offset around the current value is
 * considered, which leaves the target invariant: each value of a window is as likely to have
 * opened it. weights (window,) is working space. */
static void sweep_tables(const Model *tree, const Ratios *ratios, const Prior *prior,
                         const double *alpha, const Chain *chain, int64_t window, double *weights)
{
    int64_t *counts = chain->counts, *tables = chain->tables, top = ratios->far.n_columns - 1;
    for (int64_t d = tree->depth; d > 0; d--)
        for (int64_t u = tree->level_node[d]; u < tree->level_node[d + 1]; u++)
            for (int64_t c = tree->node_start[u]; c < tree->node_start[u + 1]; c++) {
                if (counts[c] <= 1)
                    continue;
                int64_t now = tables[c], p = tree->cell_parent[c];
                int64_t fewest = d == 1 ? 1 : most(1, now - (counts[p] - tables[p]));
                double chance = uniform(chain->random) * (double)window;
                int64_t offset = (int64_t)chance, first = most(now - offset, fewest);
                int64_t last = least(least(now - offset + window - 1, counts[c]), top);
                if (first == last)
                    continue;
                double total = weigh(tree, ratios, prior, alpha, chain, c, u, first, last, weights);
                double point = (chance - (double)offset) * total;
                int64_t moved = first - now;
                for (int64_t at = 0; at < last - first; at++, moved++) {
                    point -= weights[at];
                    if (point < 0.0)
                        break;
                }
                tables[c] += moved;
                chain->node_tables[u] += moved;
                counts[p] += moved;
                chain->node_counts[tree->node_parent[u]] += moved;
            }
}

/* Count, in work (n_groups, WORK), the tables of every group and its nodes by their number of
 * rows, and decide how many terms are drawn for all of its nodes together. */
static void pool_nodes(const Model *tree, double discount, const double *alpha, const Chain *chain,
                       double *work)
{
    memset(work, 0, sizeof(double) * (size_t)(tree->n_groups * WORK));
    for (int64_t u = 1; u < tree->n_nodes; u++) {
        int64_t n = chain->node_counts[u];
        double mass = alpha[tree->node_group[u]], *mine = work + tree->node_group[u] * WORK;
        if (n == 0)
            continue;
        if (discount == 0.0)
            mine[0] += (double)chain->node_tables[u];
        else {
            mine[0] += 1.0;
            for (int64_t i = 1; i < chain->node_tables[u]; i++)
                if (uniform(chain->random) * (mass + discount * (double)i) < mass)
                    mine[0] += 1.0;
        }
        mine[3 + least(n, POOLED) - 1] += 1.0;
    }
    for (int64_t g = 0; g < tree->n_groups; g++) {
        double *mine = work + g * WORK, nodes = 0.0, terms = 0.0;
        for (int64_t i = 0; i < POOLED; i++)
            if (mine[3 + i] > 0.0) {
                nodes += mine[3 + i];
                terms = (double)(i + 1);
            }
        /* A node by itself takes two Gamma numbers; together they take one per term, and those
         * with more rows than terms two more each. */
        double alone = nodes - mine[2 + POOLED];
        mine[1] = terms < 2.0 * alone ? terms : 0.0;
    }
}

/* Draw every concentration given the tables. With q_u ~ Beta(alpha, n_u) the conditional is
 * Gamma(shape + sum t, rate - sum log q). As -log Beta(alpha, n) is a sum of independent
 * exponentials with rates alpha, alpha + 1, ..., alpha + n - 1, the first terms of all nodes of a
 * group can be drawn together, as one Gamma number each. A group of few nodes is cheaper node by
 * node. */
static void sweep_concentrations(const Model *tree, const Prior *prior, double discount,
                                 const Chain *chain, double *alpha, double *work)
{
    pool_nodes(tree, discount, alpha, chain, work);
    for (int64_t u = 1; u < tree->n_nodes; u++) {
        double *mine = work + tree->node_group[u] * WORK;
        int64_t together = (int64_t)mine[1], n = chain->node_counts[u];
        if (n > together)
            mine[2] += draw_spread(chain->random, alpha[tree->node_group[u]] + (double)together, n - together);
    }
    for (int64_t g = 0; g < tree->n_groups; g++) {
        double *mine = work + g * WORK, spread = mine[2], nodes = 0.0;
        for (int64_t i = POOLED - 1; i >= 0; i--) {
            nodes += mine[3 + i];
            if ((double)i < mine[1])
                spread += exp(log_gamma_variate(chain->random, nodes)) / (alpha[g] + (double)i);
        }
        if (nodes > 0.0) {
            double drawn = exp(log_gamma_variate(chain->random, prior->shape + mine[0]));
            alpha[g] = low(high(drawn / (prior->rate[g] + spread), LEAST_ALPHA), MOST_ALPHA);
        }
    }
}

/* Add the state's estimates of equations 12 to 14 to total, and the root's share of the uniform to
 * escape; phi (n_cells,) is working space. */
static void add_probabilities(const Model *tree, const Prior *prior, double discount,
                              const double *alpha, const Chain *chain, double *phi, double *total,
                              double *escape)
{
    double whole = (double)chain->node_counts[0] + prior->root_mass;
    *escape += prior->root_mass / whole;
    for (int64_t c = 0; c < tree->level_cell[1]; c++) {
        phi[c] = ((double)chain->counts[c] + prior->root_mass / prior->arity) / whole;
        total[c] += phi[c];
    }
    for (int64_t u = 1; u < tree->n_nodes; u++) {
        double mass = alpha[tree->node_group[u]];
        double scale = 1.0 / ((double)chain->node_counts[u] + mass);
        double spare = mass + discount * (double)chain->node_tables[u];
        for (int64_t c = tree->node_start[u]; c < tree->node_start[u + 1]; c++) {
            double own = (double)chain->counts[c] - discount * (double)chain->tables[c];
            phi[c] = (own + spare * phi[tree->cell_parent[c]]) * scale;
            total[c] += phi[c];
        }
    }
}

/* Sweep n_sweeps times, adding states' estimates to total and escape. Every thinning-th state is
 * added; concentrations move after every interval-th sweep; clock counts the chain's sweeps. */
static int64_t run_run_chain(Argument *arguments)
{
    Model tree = {LONGS(0), LONGS(1), LONGS(2), LONGS(3), LONGS(4), LONGS(5),
                  LENGTH(0, 0) - 2, LENGTH(3, 0), LENGTH(5, 0), LENGTH(21, 0)};
    Ratios ratios = {{DOUBLES(6), DOUBLES(7), LENGTH(6, 1), NUMBER(8), LENGTH(7, 0)},
                     DOUBLES(10), DOUBLES(11), LENGTH(10, 0), LENGTH(10, 1), REAL(9)};
    Prior prior = {REAL(12), REAL(13) * REAL(12) / (double)NUMBER(16), REAL(14), (double)NUMBER(16),
                   DOUBLES(15)};
    Chain chain = {LONGS(22), LONGS(23), LONGS(24), LONGS(25), WORDS(26)};
    int64_t thinning = NUMBER(18), interval = NUMBER(19), window = NUMBER(20), *clock = LONGS(27);
    double *alpha = DOUBLES(21);
    double *room = malloc(sizeof(double) * (size_t)(window + tree.n_groups * WORK + tree.n_cells));
    if (!room)
        return NO_MEMORY;
    double *work = room + window, *phi = work + tree.n_groups * WORK;
    for (int64_t sweep = 0; sweep < NUMBER(17); sweep++) {
        sweep_tables(&tree, &ratios, &prior, alpha, &chain, window, room);
        if (++*clock % interval == 0)
            sweep_concentrations(&tree, &prior, ratios.discount, &chain, alpha, work);
        if ((sweep + 1) % thinning == 0)
            add_probabilities(&tree, &prior, ratios.discount, alpha, &chain, phi, DOUBLES(28), DOUBLES(29));
    }
    free(room);
    return 0;
}
KERNEL(run_chain,
       "level_node: int64[n_levels] rising to n_nodes\n"
       "level_cell: int64[n_levels] rising to n_cells\n"
       "node_start: int64[n_nodes + 1] rising to n_cells\n"
       "node_group: int64[n_nodes] below n_groups or negative\n"
       "node_parent: int64[n_nodes] below n_nodes or negative\n"
       "cell_parent: int64[n_cells] below n_cells or negative\n"
       "rows: float64[n_known, n_columns]\n"
       "log_count: float64[n_far]\n"
       "dense: int from 0\n"
       "discount: float\n"
       "near: float64[n_near, n_near_columns]\n"
       "growth: float64[n_near, n_near_columns]\n"
       "root_mass: float\n"
       "root_share: float\n"
       "shape: float\n"
       "rate: float64[n_groups]\n"
       "arity: int from 1\n"
       "n_sweeps: int from 0\n"
       "thinning: int from 1\n"
       "interval: int from 1\n"
       "window: int from 1\n"
       "alpha: float64[n_groups] written\n"
       "counts: int64[n_cells] written\n"
       "tables: int64[n_cells] written\n"
       "node_counts: int64[n_nodes] written\n"
       "node_tables: int64[n_nodes] written\n"
       "random: uint64[4] written\n"
       "clock: int64[1] written\n"
       "total: float64[n_cells] written\n"
       "escape: float64[1] written\n"
       "2 <= n_levels")
