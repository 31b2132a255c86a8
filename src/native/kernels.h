/* Every kernel of the module, by file. */
#ifndef TANAGER_KERNELS_H
#define TANAGER_KERNELS_H

#define KERNELS(K)                                                                            \
    /* counts.c */                                                                            \
    K(count_values) K(count_pairs) K(count_pairs_by_bits) K(score_information)                \
    K(extend_keys) K(count_keys) K(collapse_keys) K(merge_runs) K(gather_level)               \
    /* tables.c */                                                                            \
    K(add_dense_terms) K(add_tree_terms) K(normalize)                                         \
    /* hdp.c */                                                                               \
    K(solve_fixed_point) K(expect_tables)                                                     \
    /* codes.c */                                                                             \
    K(mark_present) K(count_cells) K(encode_matrix) K(split_by_mdl)                           \
    /* scores.c */                                                                            \
    K(evaluate_scores)                                                                        \
    /* leave_one_out.c */                                                                     \
    K(score_odds) K(score_posteriors)                                                         \
    /* loglinear.c */                                                                         \
    K(evaluate_sums) K(add_sums) K(locate_rows) K(weigh_joints) K(descend) K(score_gains)     \
    /* shares.c */                                                                            \
    K(normalize_scores) K(spread_shares)                                                      \
    /* cuts.c */                                                                              \
    K(find_cuts)

#endif
