/* The effect of a value on a class: log-odds with intervals from counts.
 *
 * p[v][c] is P(value v, class c), n[v][c] the number of rows. The effect of v on class c against all
 * others is log P(v | c) - log P(v | not c). The interval comes from the counts, each plus one half,
 * or without counts from the model's expected rows. If a number has hundreds of values, bands[v]
 * says which neighbours share an interval. */
function effects(p, n, rows, c, bands) {
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  const inside = sum(p.map((v) => v[c])), outside = sum(p.map(sum)) - inside;
  const counted = n || (rows ? p.map((v) => v.map((x) => x * rows)) : null);
  const all = counted && [sum(counted.map((v) => v[c])), sum(counted.map(sum))];
  const together = [];
  if (counted) counted.forEach((v, at) => {
    const band = bands ? bands[at] : at, so_far = together[band] || [0, 0];
    together[band] = [so_far[0] + v[c], so_far[1] + sum(v)];
  });
  return p.map((v, at) => {
    if (!(inside > 0 && outside > 0)) return { odds: 0, share: sum(v) }; // one class: no effect
    const odds = Math.log(Math.max(v[c], 1e-12) / inside) - Math.log(Math.max(sum(v) - v[c], 1e-12) / outside);
    if (!counted) return { odds, share: sum(v) };
    const [k, of_all] = together[bands ? bands[at] : at], m = of_all - k;
    const a = all[0], b = all[1] - all[0];
    const middle = n ? Math.log((k + 0.5) / (a + 0.5)) - Math.log((m + 0.5) / (b + 0.5)) : odds;
    const error = Math.sqrt(Math.max(0, 1 / (k + 0.5) + 1 / (m + 0.5) - 1 / (a + 0.5) - 1 / (b + 0.5)));
    return { odds, low: middle - 1.96 * error, high: middle + 1.96 * error, rows: sum(counted[at]), share: sum(v) };
  });
}

const effectText = (f, v, e, className, counted) => [
  short(f.name) + ": " + label(f, v),
  signed(e.odds) + " log-odds of " + short(className) + " (" + factor(e.odds) + ")",
  finite(e.low) ? (f.bands ? "95 %, with neighbours: " : "95 %: ") + signed(e.low) + " to " + signed(e.high) : "",
  finite(e.rows) ? whole(e.rows) + (counted ? " rows" : " rows expected") : percent(e.share) + " of rows",
].filter(Boolean).join("\n");

/* The y range: the whole curve, and intervals as far as they don't squash it. */
function reach(list, ghost) {
  const values = [0, ...list.map((e) => e.odds), ...(ghost || []).map((e) => e.odds)];
  let low = Math.min(...values), high = Math.max(...values);
  const room = Math.max(0.5, (high - low) * 0.5);
  for (const e of list) {
    if (!finite(e.low)) continue;
    low = Math.min(low, Math.max(e.low, low - room));
    high = Math.max(high, Math.min(e.high, high + room));
  }
  const pad = Math.max(0.08, (high - low) * 0.05);
  return [low - pad, high + pad];
}

/* Positions of a number's intervals: to scale, or equally wide if that would hide most of them. */
function places(f) {
  const cuts = f.cuts, n = cuts.length + 1;
  if (cuts.length < 2) return { edges: Array.from({ length: n + 1 }, (_, i) => i), even: true };
  const gaps = cuts.slice(1).map((cut, i) => cut - cuts[i]).sort((a, b) => a - b);
  const middle = gaps[gaps.length >> 1], span = cuts[cuts.length - 1] - cuts[0];
  const tiny = gaps.filter((gap) => gap < span / 120).length;
  if (tiny > gaps.length / 4) return { edges: Array.from({ length: n + 1 }, (_, i) => i), even: true };
  const end = Math.max(middle, span * 0.06);
  return { edges: [cuts[0] - end, ...cuts, cuts[cuts.length - 1] + end], even: false };
}

function numberChart(f, list, ghost, className, counted, width, small) {
  const cells = f.cuts.length + 1, { edges, even } = places(f);
  const missing = f.missing != null ? list[f.missing] : null;
  const left = 46, right = missing ? 62 : 10, top = 10, plot = small ? 120 : 230, dense = small ? 26 : 44;
  const bottom = top + plot, floor = bottom + 10 + dense, height = floor + 34;
  const [low, high] = reach(list, ghost);
  const y = scale(low, high, bottom, top), end = width - right, x = scale(edges[0], edges[cells], left, end);
  const clip = (value) => Math.max(top, Math.min(bottom, y(value)));
  const chart = sv("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": `Effect of ${f.name} on ${className}: from ${signed(Math.min(...list.map((e) => e.odds)))} to ${signed(Math.max(...list.map((e) => e.odds)))} log-odds. The table below has every number.` });
  for (const t of ticks(low, high, small ? 4 : 6)) {
    chart.append(sv("line", { class: t === 0 ? "zero" : "grid", x1: left, x2: end + (missing ? 52 : 0), y1: y(t), y2: y(t) }));
    chart.append(sv("text", { x: left - 7, y: y(t) + 4, "text-anchor": "end" }, fixed(t, Math.abs(t % 1) > 1e-9 ? 1 : 0)));
  }
  const path = (items) => items.slice(0, cells).map((e, v) => `${v ? "L" : "M"}${x(edges[v])} ${clip(e.odds)}L${x(edges[v + 1])} ${clip(e.odds)}`).join("");
  if (finite(list[0].low))
    for (let v = 0; v < cells; v++)
      chart.append(sv("rect", { class: "band", x: x(edges[v]), width: Math.max(0.5, x(edges[v + 1]) - x(edges[v])), y: clip(list[v].high), height: Math.max(0.5, clip(list[v].low) - clip(list[v].high)) }));
  if (ghost) chart.append(sv("path", { class: "ghost", d: path(ghost) }));
  chart.append(sv("path", { class: "curve", d: path(list) }));
  const wide = (v) => (even ? 1 : edges[v + 1] - edges[v]), band = (v) => (f.bands ? f.bands[v] : v), heap = [];
  list.slice(0, cells).forEach((e, v) => {
    const [rows, width_] = heap[band(v)] || [0, 0];
    heap[band(v)] = [rows + (e.rows ?? e.share), width_ + wide(v)];
  });
  const weight = list.slice(0, cells).map((_, v) => heap[band(v)][0] / heap[band(v)][1]);
  const most = Math.max(...weight) || 1;
  weight.forEach((w, v) => {
    const tall = (dense * w) / most;
    chart.append(sv("rect", { class: "density", x: x(edges[v]) + 0.3, width: Math.max(0.6, x(edges[v + 1]) - x(edges[v]) - 0.6), y: floor - tall, height: tall }));
  });
  chart.append(sv("line", { class: "grid", x1: left, x2: end, y1: floor, y2: floor }));
  const show = f.kind === "time" ? (s) => day(s).slice(0, 10) : (v) => plain(Number(v.toPrecision(4)));
  const marks = even ? f.cuts.map((cut, i) => [x(i + 1), show(cut)])
    : (f.kind === "time" ? f.cuts : ticks(edges[0], edges[cells], Math.max(2, Math.floor((end - left) / 90)))).map((t) => [x(t), show(t)]);
  let last = -1e9;
  for (const [at, text] of marks) {
    const half = text.length * 3.4 + 5;
    if (at - half < last || at + half > end + 14) continue;
    last = at + half;
    chart.append(sv("line", { class: "zero", x1: at, x2: at, y1: floor, y2: floor + 4 }));
    chart.append(sv("text", { x: at, y: floor + 17, "text-anchor": "middle" }, text));
  }
  if (!small) chart.append(sv("text", { x: left, y: height - 2 }, short(f.name, 60) + (even && f.cuts.length > 1 ? ", intervals drawn equally wide" : "")));
  if (missing) {
    const at = end + 34;
    if (finite(missing.low)) chart.append(sv("line", { class: "whisker", x1: at, x2: at, y1: clip(missing.low), y2: clip(missing.high) }));
    chart.append(tipped(sv("circle", { class: "dot", cx: at, cy: clip(missing.odds), r: 5 }), effectText(f, f.missing, missing, className, counted)));
    chart.append(sv("text", { x: at, y: floor + 17, "text-anchor": "middle" }, "missing"));
  }
  const line = chart.appendChild(sv("line", { class: "hover", y1: top, y2: floor, visibility: "hidden" }));
  chart.append(sv("rect", { x: left, y: top, width: Math.max(0, end - left), height: floor - top, fill: "transparent",
    onpointermove: (event) => {
      const box = chart.getBoundingClientRect(), at = ((event.clientX - box.left) * width) / box.width;
      let v = 0;
      while (v < cells - 1 && x(edges[v + 1]) < at) v++;
      line.setAttribute("visibility", "visible");
      line.setAttribute("x1", at); line.setAttribute("x2", at);
      showTip(event, effectText(f, v, list[v], className, counted));
    },
    onpointerleave: () => { line.setAttribute("visibility", "hidden"); hideTip(); } }));
  return chart;
}

function barChart(f, list, ghost, className, counted, width, small) {
  const last = (v) => (v === f.missing ? 2 : f.merged && v === list.length - 1 ? 1 : 0);
  let order = list.map((_, v) => v).sort((a, b) => last(a) - last(b) || (f.ordered ? a - b : list[b].odds - list[a].odds));
  if (small && order.length > 8) order = [...order.slice(0, 4), ...order.slice(-4)];
  const row = small ? 20 : 24, names = Math.min(small ? 110 : 190, width * 0.34), numbers = small ? 8 : 64, top = 20;
  const height = top + row * order.length + 6, [low, high] = reach(list, ghost);
  const x = scale(low, high, names + 8, width - numbers), letters = Math.max(6, Math.floor(names / 6.6));
  const chart = sv("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": `Effect of ${f.name} on ${className}, value by value. The table below has every number.` });
  for (const t of ticks(low, high, Math.max(3, Math.floor((width - names) / 70)))) {
    chart.append(sv("line", { class: t === 0 ? "zero" : "grid", x1: x(t), x2: x(t), y1: top - 4, y2: height - 6 }));
    chart.append(sv("text", { x: x(t), y: top - 8, "text-anchor": "middle" }, fixed(t, Math.abs(t % 1) > 1e-9 ? 1 : 0)));
  }
  if (!small) chart.append(sv("text", { x: width, y: top - 8, "text-anchor": "end" }, finite(list[0].rows) ? "rows" : "share"));
  const clip = (value) => Math.max(names + 8, Math.min(width - numbers, x(value)));
  order.forEach((v, at) => {
    const e = list[v], y = top + row * at + row / 2, text = effectText(f, v, e, className, counted);
    const group = sv("g", {}, sv("text", { class: "strong", x: names, y: y + 4, "text-anchor": "end" }, short(label(f, v), letters)),
      sv("rect", { class: e.odds >= 0 ? "up" : "down", x: Math.min(x(0), x(e.odds)), width: Math.max(1, Math.abs(x(e.odds) - x(0))), y: y - row * 0.3, height: row * 0.6, rx: 2 }));
    if (ghost) group.append(sv("line", { class: "whisker", x1: x(ghost[v].odds), x2: x(ghost[v].odds), y1: y - row * 0.42, y2: y + row * 0.42, "stroke-dasharray": "2 2" }));
    if (finite(e.low)) group.append(sv("line", { class: "whisker", x1: clip(e.low), x2: clip(e.high), y1: y, y2: y }));
    if (!small) group.append(sv("text", { x: width, y: y + 4, "text-anchor": "end" }, finite(e.rows) ? whole(e.rows) : percent(e.share)));
    group.append(sv("rect", { x: 0, width, y: y - row / 2, height: row, fill: "transparent" }));
    chart.append(tipped(group, text));
  });
  return chart;
}

/* The chart of a feature on the class in question; given: one of its contexts, or -1. */
function effectChart(f, c, given, width, small) {
  const own = effects(f.p, f.n, DATA.rows, c, f.bands);
  const context = given >= 0 ? f.given[given] : null;
  const list = context ? effects(context.p, null, null, c) : own;
  const chart = f.kind === "category" ? barChart : numberChart;
  return chart(f, list, context ? own : null, DATA.classes[c], Boolean(f.n) && !context, width, small);
}
