/* Tanager's scorer: exact posteriors of a Bayesian network classifier, in any JavaScript engine.
 *
 * const model = tanager.load(json)    the output of `network.to_json()`, as text or already parsed
 *
 * model.classes                       the labels
 * model.features                      [{name, kind, labels, cuts | values, parents, arity, missing}]
 * model.code(row)                     codes of a raw row; a row is {name: value} or [value, ...]
 * model.logJoint(codes)               log P(y, what is known), one per class
 * model.logJoints(codes, i)           the same for every code of feature i in turn, at less cost
 * model.posterior(codes)              P(y | what is known), one per class
 * model.terms(codes)                  [feature][class]: each feature's term in the log-joint
 * model.proba(row), model.predict(row)   posterior and most probable label of a raw row
 * model.logProbability(row)           log P(what is known), the class summed out
 * model.familiarity(row)              the share of training rows at most as probable
 * model.surprise(row)                 log P(value | the others), one per feature: low if it's unusual
 * model.decide(row, costs)            {action, expected, margin}: the action of least expected cost
 * model.gain(codes, i, costs)         what knowing feature i saves in expectation; without costs, in bits
 *
 * Costs are {actions: [...], matrix: [[cost per class], ...]}; by default, those of the export.
 * Code `arity` of a feature means unknown, and is summed out exactly. null, undefined and NaN are
 * missing; a value never seen in training is unknown. The difference between a feature's terms for
 * two classes is its contribution to their log-odds. The result is null only if the network's
 * unknown features are too entangled to be summed out.
 */
const tanager = (() => {
  "use strict";
  const MAX_CELLS = 1 << 22; // of one sum over unknown features

  // Integers past 2^53 don't fit a Number: as BigInt and as text, they are compared digit by digit.
  const key = (kind, value) => {
    const digits = typeof value === "string" && /^\s*[+-]?\d+\s*$/.test(value);
    if (kind === "integer" && digits) value = BigInt(value.replace("+", ""));
    return String(kind === "text" || typeof value === "bigint" ? value : Number(value));
  };

  function coder(f) {
    const places = new Map((f.values || []).map((value, code) => [key(f.kind, value), code]));
    const wide = f.kind === "integer" && f.values.some((known) => typeof known === "string");
    return (value) => {
      if (value instanceof Date) value = value.getTime() / 1000;
      if (value == null || value !== value) return f.missing;
      if (f.kind === "text") return places.get(String(value)) ?? f.other ?? f.arity;
      if (typeof value === "string" && !value.trim()) return f.missing;
      if (Number.isNaN(Number(value))) throw new TypeError(f.name + ": not a number: " + value);
      if (wide && Number.isInteger(value) && !Number.isSafeInteger(value))
        throw new TypeError(f.name + ": past 2^53, give a BigInt or a text: " + value);
      if (f.kind !== "number") return places.get(key(f.kind, value)) ?? f.arity;
      let low = 0, high = f.cuts.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (f.cuts[middle] < Number(value)) low = middle + 1;
        else high = middle;
      }
      return low;
    };
  }

  function load(source) {
    const { format, version, classes, features, order, elimination, log_prior, ...rest } =
      typeof source === "string" ? JSON.parse(source) : source;
    if (format !== "tanager-scorer" || version !== 2)
      throw new Error("not a model of the format tanager-scorer, version 2");
    const C = classes.length;
    const coders = features.map(coder);
    const range = (n) => Array.from({ length: n }, (_, v) => v);

    // Tables read a feature's codes in groups, if it has any. What a code adds to its group,
    // whatever the parents are, is in log_within.
    const size = features.map((f) => (f.groups ? Math.max(...f.groups) + 1 : f.arity));
    const grouped = (codes) =>
      features.map((f, i) =>
        codes[i] >= f.arity ? size[i] : f.groups ? f.groups[codes[i]] : codes[i]);
    const addShare = (i, v, total) => {
      const { groups, arity, log_within } = features[i];
      if (groups && v < arity) for (let c = 0; c < C; c++) total[c] += log_within[v * C + c];
      return total;
    };

    // The index of each of a parent's groups in the table of family i; null: the group itself.
    const views = features.map((f) => f.views || f.parents.map(() => null));
    const wide = features.map((f, i) =>
      f.parents.map((p, k) => (views[i][k] ? Math.max(...views[i][k]) + 1 : size[p])));

    // The offset of groups x in the table of family i, with all classes next to each other.
    const cell = (i, x) => {
      const { parents } = features[i];
      let at = 0;
      for (let k = 0; k < parents.length; k++) {
        const view = views[i][k], own = x[parents[k]];
        at = at * wide[i][k] + (view ? view[own] : own);
      }
      return (at * size[i] + x[i]) * C;
    };

    // Groups that no view distinguishes share an index: the index of each, the first group of each.
    const same = size.map((n) => ({ of: range(n), first: range(n) }));
    const refine = (i, views) => {
      if (views.includes(null) || views.includes(same[i].of)) return same[i];
      const known = new Map(), first = [];
      const of = same[i].of.map((v) => {
        const name = views.map((view) => view[v]).join();
        if (!known.has(name)) known.set(name, first.push(v) - 1);
        return known.get(name);
      });
      return { of, first };
    };

    const value = (row, f, i) =>
      Array.isArray(row) ? row[i] : Object.hasOwn(row, f.name) ? row[f.name] : null;
    const code = (row) => features.map((f, i) => coders[i](value(row, f, i)));

    // Adds the terms of groups x to a log-joint, with unknown ones summed out; null if too many.
    function addGroups(given, total) {
      const x = given.slice();
      const known = x.map((group, i) => group < size[i]);
      const holds = known.slice(); // known, or with known descendants
      for (let k = order.length - 1; k >= 0; k--)
        if (holds[order[k]]) for (const p of features[order[k]].parents) holds[p] = true;
      const add = (values, at) => { for (let c = 0; c < C; c++) total[c] += values[at + c]; };
      let factors = [];
      for (const i of order) {
        if (!holds[i]) continue;
        const { parents, log_prob: values } = features[i];
        const scope = [...parents, i].filter((m) => !known[m]);
        const view = (m) => (m === i ? null : views[i][parents.indexOf(m)]);
        if (scope.length) factors.push({ scope, values, view, at: () => cell(i, x) });
        else add(values, cell(i, x));
      }
      for (const f of elimination) {
        if (known[f] || !holds[f]) continue;
        const used = factors.filter((g) => g.scope.includes(f));
        factors = factors.filter((g) => !g.scope.includes(f));
        const scope = [...new Set(used.flatMap((g) => g.scope))].filter((m) => m !== f);
        const places = scope.map((m) =>
          refine(m, used.filter((g) => g.scope.includes(m)).map((g) => g.view(m))));
        const cells = places.reduce((n, { first }) => n * first.length, 1);
        if (cells * size[f] * C > MAX_CELLS) return null;
        const values = new Float64Array(cells * C), sums = new Float64Array(size[f] * C);
        for (let k = 0; k < cells; k++) {
          for (let m = scope.length - 1, left = k; m >= 0; m--) {
            const { first } = places[m];
            x[scope[m]] = first[left % first.length];
            left = Math.floor(left / first.length);
          }
          sums.fill(0);
          for (x[f] = 0; x[f] < size[f]; x[f]++)
            for (const g of used)
              for (let c = 0, at = g.at(); c < C; c++) sums[x[f] * C + c] += g.values[at + c];
          for (let c = 0; c < C; c++) {
            let top = -Infinity, sum = 0;
            for (let v = c; v < sums.length; v += C) top = Math.max(top, sums[v]);
            for (let v = c; v < sums.length; v += C) sum += Math.exp(sums[v] - top);
            values[k * C + c] = top + Math.log(sum);
          }
        }
        const at = () =>
          scope.reduce((a, m, k) => a * places[k].first.length + places[k].of[x[m]], 0) * C;
        const view = (m) => places[scope.indexOf(m)].of;
        if (scope.length) factors.push({ scope, values, view, at });
        else add(values, 0);
      }
      return total;
    }

    const shares = (codes) =>
      codes.reduce((total, v, i) => addShare(i, v, total), log_prior.slice());
    const logJoint = (codes) => addGroups(grouped(codes), shares(codes));

    function logJoints(codes, i) {
      const others = codes.slice();
      others[i] = features[i].arity;
      const base = shares(others), x = grouped(others);
      const sums = range(size[i]).map((g) => {
        x[i] = g;
        return addGroups(x, base.slice());
      });
      if (sums.includes(null)) return null;
      const { groups } = features[i];
      return range(features[i].arity).map((v) =>
        addShare(i, v, sums[groups ? groups[v] : v].slice()));
    }

    function posterior(codes) {
      const log = logJoint(codes);
      if (!log) return null;
      const top = Math.max(...log), weights = log.map((l) => Math.exp(l - top));
      const sum = weights.reduce((a, b) => a + b);
      return weights.map((w) => w / sum);
    }

    function terms(codes) {
      if (features.every((f, i) => codes[i] < f.arity)) {
        const x = grouped(codes);
        return features.map((f, i) =>
          addShare(i, codes[i], f.log_prob.slice(cell(i, x), cell(i, x) + C)));
      }
      const out = [], partial = features.map((f) => f.arity);
      let before = logJoint(partial);
      for (const i of order) {
        partial[i] = codes[i];
        const after = logJoint(partial);
        if (!after) return null;
        out[i] = after.map((l, c) => l - before[c]);
        before = after;
      }
      return out;
    }

    const logSum = (log) => {
      if (!log || rest.normalized === false) return null;
      const top = Math.max(...log);
      return top + Math.log(log.reduce((sum, l) => sum + Math.exp(l - top), 0));
    };
    const logProbability = (row) => logSum(logJoint(code(row)));

    // Values never seen in training are summed out, and add the probability of such a value.
    function familiar(row) {
      const codes = code(row), unseen = [];
      features.forEach((f, i) => {
        let v = value(row, f, i);
        if (v instanceof Date) v = v.getTime() / 1000;
        const gone = v == null || v !== v || (f.kind !== "text" && !String(v).trim());
        const outside = f.range && (Number(v) < f.range[0] || Number(v) > f.range[1]);
        if (gone || f.log_unseen === undefined || !(outside || codes[i] >= f.arity)) return;
        codes[i] = f.arity;
        unseen[i] = f.log_unseen;
      });
      const log = unseen.reduce((a, b) => a + b, 0);
      const total = (known) => {
        const sum = logSum(logJoint(known));
        return sum === null ? null : sum + log;
      };
      return { codes, unseen, total };
    }
    function surprise(row) {
      const { codes, unseen, total } = familiar(row), all = total(codes);
      if (all === null) return null;
      return features.map((f, i) =>
        unseen[i] ?? (codes[i] >= f.arity ? 0 : all - total(codes.map((v, j) => (j === i ? f.arity : v)))));
    }
    function familiarity(row) {
      const { codes, total } = familiar(row), sum = total(codes);
      if (sum === null || !rest.familiarity) return null;
      const log = sum + 1e-9; // so that rounding doesn't separate equal rows
      const { levels, scores } = rest.familiarity;
      const at = scores.filter((score) => score <= log).length;
      const low = at ? levels[at - 1] : 0, high = at < scores.length ? levels[at] : 1;
      const part = at && at < scores.length ? (log - scores[at - 1]) / (scores[at] - scores[at - 1]) : 0;
      return low + part * (high - low);
    }

    const proba = (row) => posterior(code(row));
    const predict = (row) => {
      const p = proba(row);
      return p && classes[p.indexOf(Math.max(...p))];
    };
    // Ties, to a billionth of the largest cost, go to the first action.
    const expected = (p, { matrix }) =>
      matrix.map((row) => row.reduce((sum, cost, c) => sum + p[c] * cost, 0));
    function cheapest(p, costs) {
      const each = expected(p, costs), least = Math.min(...each);
      const tie = 1e-9 * Math.max(...costs.matrix.flat().map(Math.abs));
      const best = each.findIndex((cost) => cost <= least + tie);
      const margin = each.length < 2 ? NaN : [...each].sort((a, b) => a - b)[1] - least;
      return { action: costs.actions[best], expected: each, margin };
    }
    const decide = (row, costs = rest.costs) => {
      const p = proba(row);
      return p && cheapest(p, costs);
    };

    // Expected cost, or entropy in bits, of weights; proportional to their sum.
    const left = (w, costs) => {
      if (costs) return Math.min(...expected(w, costs));
      const sum = w.reduce((a, b) => a + b);
      return w.reduce((total, x) => (x > 0 ? total - x * Math.log2(x / sum) : total), 0);
    };
    function gain(codes, i, costs) {
      const base = logJoint(codes), answers = base && logJoints(codes, i);
      if (!answers) return null;
      const top = Math.max(...base), weights = (log) => log.map((l) => Math.exp(l - top));
      const now = weights(base), mass = now.reduce((a, b) => a + b);
      const after = answers.reduce((sum, log) => sum + left(weights(log), costs), 0);
      return Math.max(0, (left(now, costs) - after) / mass);
    }
    return {
      ...rest, logProbability, familiarity, surprise, cheapest, decide, gain, classes, features, log_prior, code, logJoint, logJoints, posterior, terms, proba, predict,
    };
  }

  return { load };
})();
