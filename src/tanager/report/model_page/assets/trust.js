/* Section five: held-out rows, as aggregates. */
function startTrust() {
  const host = $("trusting"), t = DATA.trust;
  if (!host || !t) return;
  const two = DATA.classes.length === 2;
  if (!two)
    host.append(el("div", { class: "bar whole" }, el("label", {}, "Class ", choice("Class to plot", DATA.classes, state.class, (c) => { state.class = c; drawTwo(); }))));
  const reliability = el("div", { class: "tile" }), histogram = el("div", { class: "tile" });
  host.append(reliability, histogram);
  const drawTwo = () => { drawReliability(reliability, t.reliability[state.class]); drawHistogram(histogram, t.histogram[state.class]); };
  drawTwo();
  if (t.threshold) host.append(thresholds(t.threshold));
  host.append(confusion(t.confusion));
  if (!two) host.append(perClass(t.by_class));
  if (t.known && t.known.length) host.append(known(t.known));
  host.append(slices(t.slices));
}

/* Wilson's interval of a share. */
function wilson(share, n) {
  const z = 1.96, d = 1 + (z * z) / n, middle = (share + (z * z) / (2 * n)) / d;
  const half = (z / d) * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n));
  return [middle - half, middle + half];
}

function frame(width, height, name, xs, ys, xName, yName, xText = fixed, yText = fixed) {
  const left = 46, bottom = height - 40, right = width - 12, top = yName ? 22 : 8;
  const x = scale(xs[0], xs[1], left, right), y = scale(ys[0], ys[1], bottom, top);
  const chart = sv("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": name });
  for (const t of ticks(ys[0], ys[1], 5)) {
    chart.append(sv("line", { class: "grid", x1: left, x2: right, y1: y(t), y2: y(t) }));
    chart.append(sv("text", { x: left - 7, y: y(t) + 4, "text-anchor": "end" }, yText(t, 1)));
  }
  for (const t of ticks(xs[0], xs[1], Math.max(2, Math.min(6, Math.floor((right - left) / 70)))))
    chart.append(sv("text", { x: x(t), y: bottom + 17, "text-anchor": "middle" }, xText(t, 1)));
  chart.append(sv("line", { class: "zero", x1: left, x2: right, y1: bottom, y2: bottom }));
  chart.append(sv("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, xName));
  chart.append(sv("text", { x: 0, y: 10 }, yName));
  return { chart, x, y, left, right, top, bottom };
}

function drawReliability(tile, bins) {
  const name = short(DATA.classes[state.class], 30), host = el("figure");
  clear(tile).append(el("h3", {}, "Calibration"), host,
    el("p", { class: "quiet" }, `Rows binned by the predicted probability of ${name}. On the diagonal, predicted probability and observed frequency agree. Lines: 95 % intervals. Larger dots: more rows.`));
  drawn(host, (node, width) => {
    const size = Math.min(width, 400), { chart, x, y } = frame(width, size * 0.86, `Reliability diagram for ${name}`, [0, 1], [0, 1], "predicted probability", "observed frequency");
    chart.append(sv("line", { class: "ghost", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
    chart.append(sv("path", { class: "curve", "stroke-width": 1.4, d: bins.map(([p, s], i) => `${i ? "L" : "M"}${x(p)} ${y(s)}`).join("") }));
    const most = Math.max(...bins.map((b) => b[2]));
    for (const [p, s, n] of bins) {
      const [low, high] = wilson(s, n);
      chart.append(sv("line", { class: "whisker", x1: x(p), x2: x(p), y1: y(low), y2: y(high) }));
      chart.append(tipped(sv("circle", { class: "dot", cx: x(p), cy: y(s), r: 3 + 3 * Math.sqrt(n / most) }), `predicted ${percent(p)}, observed ${percent(s)}\n95 %: ${percent(low)} to ${percent(high)}\n${whole(n)} rows`));
    }
    node.append(chart);
  });
}

function drawHistogram(tile, [all, own]) {
  const name = short(DATA.classes[state.class], 30), host = el("figure");
  clear(tile).append(el("h3", {}, "Predicted probabilities"), host, el("p", { class: "quiet" }, `Distribution of the predicted probability of ${name}; blue: rows that are ${name}. The fewer rows in the middle, the better the classes are separated.`));
  drawn(host, (node, width) => {
    const most = Math.max(...all) || 1, height = Math.min(width, 400) * 0.86;
    const { chart, x, y, bottom } = frame(width, height, `Histogram of the probability of ${name}`, [0, 1], [0, most], `probability of ${name}`, "rows", fixed, (t) => (t >= 10000 ? whole(t / 1000) + "k" : whole(t)));
    all.forEach((n, i) => {
      const a = x(i / all.length) + 0.8, wide = x((i + 1) / all.length) - a - 0.8;
      chart.append(tipped(sv("g", {}, sv("rect", { class: "density", x: a, width: wide, y: y(n), height: bottom - y(n) }),
        sv("rect", { class: "total", x: a, width: wide, y: y(own[i]), height: bottom - y(own[i]) }),
        sv("rect", { x: a, width: wide, y: 0, height: bottom, fill: "transparent" })),
        `${percent(i / all.length)} to ${percent((i + 1) / all.length)}\n${whole(n)} rows, ${whole(own[i])} of ${name}`));
    });
    node.append(chart);
  });
}

function thresholds({ true: hit, false: alarm }) {
  const steps = hit.length - 1, positives = hit[0], negatives = alarm[0], n = positives + negatives;
  const yes = short(DATA.classes[1], 24), no = short(DATA.classes[0], 24);
  const tile = el("div", { class: "tile whole" }), host = el("figure"), out = el("div", { class: "big", role: "status", "aria-live": "polite" });
  const falseAlarm = el("input", { type: "number", min: 0, step: "any", value: 1, id: "cost-alarm" });
  const missed = el("input", { type: "number", min: 0, step: "any", value: 1, id: "cost-miss" });
  const slide = el("input", { type: "range", min: 0, max: steps, value: steps / 2, step: 1, id: "threshold" });
  const cost = (k) => (1000 * (alarm[k] * +falseAlarm.value + (positives - hit[k]) * +missed.value)) / n;
  const show = () => {
    const k = +slide.value, at = k / steps, flagged = hit[k] + alarm[k];
    let best = 0;
    for (let j = 0; j <= steps; j++) if (cost(j) < cost(best) - 1e-9) best = j;
    const ratio = +falseAlarm.value / ((+falseAlarm.value) + (+missed.value) || 1);
    slide.setAttribute("aria-valuetext", fixed(at, 3));
    const fact = (text, value) => el("div", {}, el("b", {}, value), text);
    clear(out).append(fact("threshold", fixed(at, 3)), fact("predicted " + yes, percent(flagged / n)), fact("precision", flagged ? percent(hit[k] / flagged) : "–"),
      fact("recall", positives ? percent(hit[k] / positives) : "–"), fact("error rate", percent((alarm[k] + positives - hit[k]) / n)),
      fact("cost per 1,000 rows", fixed(cost(k), 1)), fact("lowest cost, at " + fixed(best / steps, 3), fixed(cost(best), 1)), fact("optimal if calibrated", fixed(ratio, 3)));
    host.redraw?.();
  };
  for (const input of [falseAlarm, missed, slide]) input.addEventListener("input", show);
  tile.append(el("h3", {}, "Decision threshold"),
    el("p", { class: "quiet", style: "margin-bottom:.8rem" }, `Rows with at least this probability are predicted as ${yes}. Enter what each kind of error costs you, in any unit.`),
    el("div", { class: "costs" }, el("label", { for: "cost-alarm" }, `Cost of a false positive (${no} predicted as ${yes})`, falseAlarm), el("label", { for: "cost-miss" }, `Cost of a false negative (${yes} predicted as ${no})`, missed)),
    el("label", { for: "threshold" }, "Threshold"), slide, out, host,
    el("p", { class: "quiet" }, "Cost per 1,000 rows by threshold. For calibrated probabilities, the optimal threshold is the cost of a false positive divided by the sum of both costs."));
  drawn(host, (node, width) => {
    const costs = hit.map((_, k) => cost(k)), high = Math.max(...costs) || 1;
    const { chart, x, y, top, bottom } = frame(width, 220, "Cost by threshold", [0, 1], [0, high], "threshold", "cost", fixed, (v) => whole(v));
    chart.append(sv("path", { class: "curve", d: costs.map((c, k) => `${k ? "L" : "M"}${x(k / steps)} ${y(c)}`).join("") }));
    const k = +slide.value;
    chart.append(sv("line", { class: "hover", x1: x(k / steps), x2: x(k / steps), y1: top, y2: bottom }), sv("circle", { class: "dot", cx: x(k / steps), cy: y(costs[k]), r: 5 }));
    node.append(chart);
  });
  show();
  return tile;
}

function confusion(counts) {
  const sums = counts.map((row) => row.reduce((a, b) => a + b, 0));
  const head = el("tr", {}, el("td"), DATA.classes.map((c) => el("th", { scope: "col" }, short(c, 20))));
  const body = counts.map((row, i) => el("tr", {}, el("th", { scope: "row" }, short(DATA.classes[i], 20)), row.map((n, j) => {
    const share = sums[i] ? n / sums[i] : 0, tone = i === j ? "--blue" : "--down";
    return tipped(el("td", { style: `background:color-mix(in srgb, var(${tone}) ${(share * 42).toFixed(0)}%, var(--paper))` }, n ? whole(n) : ""),
      `${short(DATA.classes[i])} predicted as ${short(DATA.classes[j])}\n${percent(share)} of its ${whole(sums[i])} rows`);
  })));
  return el("div", { class: "tile" + (DATA.classes.length > 6 ? " whole" : "") }, el("h3", {}, "Confusion matrix"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Confusion matrix" }, el("table", { class: "confusion" }, el("thead", {}, head), el("tbody", {}, body))),
    el("p", { class: "quiet" }, "Rows: true class. Columns: predicted class. Darker: a larger share of the row."));
}

function perClass(list) {
  const rows = list.map(([name, own, taken, right]) => [short(name, 30), whole(own), own ? percent(right / own) : "–", taken ? percent(right / taken) : "–"]);
  return el("div", { class: "tile" }, el("h3", {}, "Per class"),
    el("div", { class: "tall" }, table(["class", "rows", "recall", "precision"], rows, { name: "Recall and precision" })),
    el("p", { class: "quiet" }, "Recall: share of the class's rows that are predicted as it. Precision: share of the rows predicted as it that are right. Lowest recall first."));
}

function known(curve) {
  const host = el("figure"), refits = curve.filter(([, , refit]) => refit != null);
  drawn(host, (node, width) => {
    const all = [...curve.map(([, loss]) => loss), ...refits.map(([, , refit]) => refit)];
    const low = Math.min(...all), high = Math.max(...all), pad = (high - low || 0.1) * 0.15;
    const { chart, x, y } = frame(width, 240, "Log-loss against the share of known features", [0, 1], [Math.max(0, low - pad), high + pad], "share of features known", "log-loss", (v) => fixed(100 * v, 0) + " %", (v) => fixed(v, 2));
    const path = (list, at) => list.map((c, i) => `${i ? "L" : "M"}${x(c[0])} ${y(c[at])}`).join("");
    chart.append(sv("path", { class: "curve", d: path(curve, 1) }));
    if (refits.length) chart.append(sv("path", { class: "ghost", d: path(refits, 2) }));
    for (const [share, loss, refit] of curve) chart.append(tipped(sv("circle", { class: "dot", cx: x(share), cy: y(loss), r: 5 }), `${percent(share)} of the features known\nlog-loss ${fixed(loss, 4)}` + (refit != null ? `\nrefitted on only these ${fixed(refit, 4)}` : "")));
    node.append(chart);
  });
  return el("div", { class: "tile" }, el("h3", {}, "Unknown features"), host,
    el("p", { class: "quiet" }, "Log-loss with a random subset of the features known and the rest marginalized." + (refits.length ? " Dashed: the same model refitted on only the known columns." : "")));
}

function slices(list) {
  const tile = el("div", { class: "tile whole" }, el("h3", {}, "Worst slices"));
  if (!list.length) { tile.append(el("p", { class: "quiet" }, "No value of any feature stands out.")); return tile; }
  const rows = list.map((s) => [`${short(s.feature, 30)}: ${short(s.value, 30)}`, whole(s.rows), fixed(s.loss, 3), fixed(s.expected, 3), percent(s.errors), s.sure ? el("span", { class: "flag" }, "overconfident") : ""]);
  tile.append(table(["slice", "rows", "log-loss", "expected log-loss", "error rate", ""], rows, { name: "Worst slices" }),
    el("p", { class: "quiet" }, `Log-loss over all rows: ${fixed(DATA.scores.model.loss, 3)}. Where it matches the loss the model expects from its own probabilities, the rows are hard to predict; where it is higher, the model is overconfident.`));
  return tile;
}
