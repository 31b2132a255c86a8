/* Tanager's scorer: exact posteriors of a Bayesian network classifier, in any JavaScript engine.
 *
 * const model = tanager.load(json)    what `network.to_json()` wrote, as text or already parsed
 *
 * model.classes                       the labels
 * model.features                      [{name, kind, labels, cuts | values, parents, arity, missing}]
 * model.code(row)                     codes of a raw row; a row is {name: value} or [value, ...]
 * model.logJoint(codes)               log P(y, what is known), one a class
 * model.posterior(codes)              P(y | what is known), one a class
 * model.terms(codes)                  [feature][class]: each feature's part of the log-joint
 * model.proba(row), model.predict(row)   posterior and most probable label of a raw row
 *
 * Code `arity` of a feature means unknown, and is summed out exactly. null, undefined and NaN are
 * missing; a value never seen in training is unknown. The difference of a feature's terms for two
 * classes is its contribution to their log-odds. Only a network whose unknown features hang
 * together too closely to be summed out gives null instead of an answer.
 */
const tanager = (() => {
  "use strict";
  const MAX_CELLS = 1 << 22; // of one sum over unknown features

  const key = (kind, value) =>
    String(kind === "text" || typeof value === "bigint" ? value : Number(value));

  function coder(f) {
    const places = new Map((f.values || []).map((value, code) => [key(f.kind, value), code]));
    return (value) => {
      if (value instanceof Date) value = value.getTime() / 1000;
      if (value == null || value !== value) return f.missing;
      if (f.kind === "text") return places.get(String(value)) ?? f.arity;
      if (typeof value === "string" && !value.trim()) return f.missing;
      if (Number.isNaN(Number(value))) throw new TypeError(f.name + ": not a number: " + value);
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
    if (format !== "tanager-scorer" || version !== 1)
      throw new Error("not a model of the format tanager-scorer, version 1");
    const C = classes.length;
    const coders = features.map(coder);
    // By which groups the table of family i knows each parent, and each code of it; null: by itself.
    const groups = features.map((f) => f.groups || f.parents.map(() => null));
    const wide = features.map((f, i) =>
      f.parents.map((p, k) => (groups[i][k] ? Math.max(...groups[i][k]) + 1 : features[p].arity)));

    // Where the table of family i holds the values for codes x, all classes side by side.
    const cell = (i, x) => {
      const { parents, arity } = features[i];
      let at = 0;
      for (let k = 0; k < parents.length; k++) {
        const view = groups[i][k], own = x[parents[k]];
        at = at * wide[i][k] + (view ? view[own] : own);
      }
      return (at * arity + x[i]) * C;
    };

    // Classes of codes that no view tells apart: the class of each code, the first code of each.
    const same = features.map((f) => {
      const codes = Array.from({ length: f.arity }, (_, v) => v);
      return { of: codes, first: codes };
    });
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

    const code = (row) =>
      features.map((f, i) =>
        coders[i](Array.isArray(row) ? row[i] : Object.hasOwn(row, f.name) ? row[f.name] : null));

    function logJoint(codes) {
      const x = Array.from(codes);
      const known = x.map((value, i) => value < features[i].arity);
      const holds = known.slice(); // known, or something known below
      for (let k = order.length - 1; k >= 0; k--)
        if (holds[order[k]]) for (const p of features[order[k]].parents) holds[p] = true;
      const total = log_prior.slice();
      const add = (values, at) => { for (let c = 0; c < C; c++) total[c] += values[at + c]; };
      let factors = [];
      for (const i of order) {
        if (!holds[i]) continue;
        const { parents, log_prob: values } = features[i];
        const scope = [...parents, i].filter((m) => !known[m]);
        const view = (m) => (m === i ? null : groups[i][parents.indexOf(m)]);
        if (scope.length) factors.push({ scope, values, view, at: () => cell(i, x) });
        else add(values, cell(i, x));
      }
      for (const f of elimination) {
        if (known[f] || !holds[f]) continue;
        const used = factors.filter((g) => g.scope.includes(f));
        factors = factors.filter((g) => !g.scope.includes(f));
        const scope = [...new Set(used.flatMap((g) => g.scope))].filter((m) => m !== f);
        const views = scope.map((m) =>
          refine(m, used.filter((g) => g.scope.includes(m)).map((g) => g.view(m))));
        const size = views.reduce((n, { first }) => n * first.length, 1), arity = features[f].arity;
        if (size * arity * C > MAX_CELLS) return null;
        const values = new Float64Array(size * C), sums = new Float64Array(arity * C);
        for (let k = 0; k < size; k++) {
          for (let m = scope.length - 1, left = k; m >= 0; m--) {
            const { first } = views[m];
            x[scope[m]] = first[left % first.length];
            left = Math.floor(left / first.length);
          }
          sums.fill(0);
          for (x[f] = 0; x[f] < arity; x[f]++)
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
          scope.reduce((a, m, k) => a * views[k].first.length + views[k].of[x[m]], 0) * C;
        const view = (m) => views[scope.indexOf(m)].of;
        if (scope.length) factors.push({ scope, values, view, at });
        else add(values, 0);
      }
      return total;
    }

    function posterior(codes) {
      const log = logJoint(codes);
      if (!log) return null;
      const top = Math.max(...log), weights = log.map((l) => Math.exp(l - top));
      const sum = weights.reduce((a, b) => a + b);
      return weights.map((w) => w / sum);
    }

    function terms(codes) {
      if (features.every((f, i) => codes[i] < f.arity))
        return features.map((f, i) => f.log_prob.slice(cell(i, codes), cell(i, codes) + C));
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

    const proba = (row) => posterior(code(row));
    const predict = (row) => {
      const p = proba(row);
      return p && classes[p.indexOf(Math.max(...p))];
    };
    return { ...rest, classes, features, log_prior, code, logJoint, posterior, terms, proba, predict };
  }

  return { load };
})();
