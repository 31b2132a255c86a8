/* Section four: queries of the model, with any inputs known or unknown. */
function startAsking() {
  const host = $("asking"), model = tanager.load($("model").textContent);
  const F = model.features, C = model.classes.length;
  const codes = F.map((f) => f.arity), raw = F.map(() => undefined), controls = [];
  const names = model.classes.map(String);
  const facts = new Map(DATA.features.map((f) => [f.name, f]));
  /* The display name of code v: the same as elsewhere if the page has the feature in detail. */
  const called = (f, v) => { const known = facts.get(f.name); return known && known.cuts ? label(known, v) : visible(f.labels[v]); };
  const costs = model.costs, prices = DATA.prices || {};
  let against = -1;

  const answer = el("div", { class: "panel answer" }), decision = costs ? el("div", { class: "panel decision" }) : null, why = el("div", { class: "panel" }), next = el("div", { class: "panel" });
  const said = el("p", { class: "status", role: "status" });

  /* One raw value of one feature, as the scorer codes it. undefined: unknown; null: missing. */
  const codeOf = (i, value) => (value === undefined ? F[i].arity : model.code({ [F[i].name]: value })[i]);
  function set(i, value) {
    try { codes[i] = codeOf(i, value); } catch { return false; }
    raw[i] = value;
    controls[i].show();
    return true;
  }
  const setAll = (row) => { F.forEach((f, i) => set(i, Object.hasOwn(row, f.name) ? row[f.name] : undefined)); update(); };

  /* A number in the middle of an interval, with few digits. */
  function typical(f, v) {
    const cuts = f.cuts, last = cuts.length;
    if (!last) return 0;
    if (v === 0) return cuts[0];
    const low = cuts[v - 1], high = v < last ? cuts[v] : low + (last > 1 ? (low - cuts[0]) / (last - 1) || 1 : Math.abs(low) || 1);
    const middle = (low + high) / 2;
    for (let digits = 1; digits < 17; digits++) {
      const short = +middle.toPrecision(digits);
      if (short > low && short <= high) return short;
    }
    return high;
  }

  function control(f, i) {
    const id = "in-" + i, said = el("output", { for: id });
    const name = el("div", { class: "name" }, el("label", { for: id, title: f.name }, short(f.name, 60)), said);
    const box = el("div", { class: "control unknown" }, name);
    const unknown = f.arity, missing = f.missing < f.arity;
    const words = () => (codes[i] === unknown ? (raw[i] === undefined ? "unknown" : "not seen in training: unknown") : codes[i] === f.missing ? "missing" : f.kind === "number" ? called(f, codes[i]) : "");
    if (f.kind === "number" && !f.temporal) {
      const cells = f.cuts.length + 1;
      const number = el("input", { type: "number", step: "any", id, placeholder: "unknown", autocomplete: "off" });
      const slide = el("input", { type: "range", min: 0, max: Math.max(1, cells - 1), step: 1, "aria-label": f.name + ", by interval" });
      number.addEventListener("input", () => { set(i, number.value === "" ? undefined : +number.value); update(); });
      slide.addEventListener("input", () => { set(i, typical(f, Math.min(cells - 1, +slide.value))); update(); });
      const pair = el("div", { class: "pair" }, number, slide);
      box.append(pair);
      const forget = el("button", { type: "button", class: "plain", "aria-label": "Clear " + f.name, title: "unknown", onclick: () => { set(i, undefined); update(); } }, "×");
      const right = el("span", { class: "right" }, said);
      if (missing) right.append(el("button", { type: "button", class: "plain", onclick: () => { set(i, null); update(); } }, "missing"));
      right.append(forget);
      name.append(right);
      return { box, focus: () => number.focus(), show: () => {
        if (document.activeElement !== number || codes[i] >= cells) number.value = raw[i] == null ? "" : raw[i];
        slide.value = codes[i] < cells ? codes[i] : Math.floor(cells / 2);
        slide.setAttribute("aria-valuetext", words());
        said.textContent = words();
        box.classList.toggle("unknown", codes[i] === unknown);
        forget.hidden = raw[i] === undefined;
      } };
    }
    const values = f.kind === "number" ? f.labels.slice(0, f.cuts.length + 1).map((_, v) => typical(f, v)) : f.values;
    const select = el("select", { id }, el("option", { value: -1 }, "unknown"), missing ? el("option", { value: -2 }, "missing") : null,
      values.map((value, v) => el("option", { value: v }, short(called(f, v), 60))));
    select.addEventListener("change", () => { const v = +select.value; set(i, v === -1 ? undefined : v === -2 ? null : values[v]); update(); });
    box.append(select);
    return { box, focus: () => select.focus(), show: () => {
      select.value = codes[i] === unknown ? -1 : codes[i] === f.missing ? -2 : codes[i];
      said.textContent = "";
      box.classList.toggle("unknown", codes[i] === unknown);
    } };
  }

  /* Credible intervals of the probabilities of a complete row, as in predict_interval: the squared
   * deviations of the scorer's numbers add up like the scores themselves. */
  const reaches = DATA.intervals && [0, 1].map((end) => {
    const { pairs, codes } = DATA.intervals, { log_prior, features, ...rest } = JSON.parse($("model").textContent);
    let at = 0;
    const take = (numbers) => numbers && numbers.map(() => pairs[codes[at++]][end]);
    return tanager.load({ ...rest, log_prior: take(log_prior),
      features: features.map((f) => ({ ...f, log_prob: take(f.log_prob), log_within: take(f.log_within) })) });
  });
  function intervals(p) {
    const row = codes.map((code, i) => (F[i].arity === 1 ? 0 : code));
    if (!p || !reaches || F.some((f, i) => row[i] >= f.arity)) return null;
    const [below, above] = reaches.map((model) => model.logJoint(row));
    return p.map((own, c) => {
      const others = p.map((_, j) => j).filter((j) => j !== c);
      const rest = Math.max(others.reduce((sum, j) => sum + p[j], 0), 1e-150);
      const reach = (mine, theirs) => Math.sqrt(others.reduce((sum, j) => sum + (p[j] / rest) ** 2 * theirs[j], mine[c]));
      const odds = Math.log(Math.max(own, 1e-150)) - Math.log(rest), chance = (x) => 1 / (1 + Math.exp(-x));
      return [chance(odds - reach(below, above)), chance(odds + reach(above, below))];
    });
  }

  const entropy = (p) => p.reduce((sum, x) => (x > 0 ? sum - x * Math.log2(x) : sum), 0);

  function showAnswer(p) {
    clear(answer).append(el("h3", {}, `${short(DATA.target, 40)} given the known features`));
    if (!p) { answer.append(el("p", { class: "quiet" }, "Too many dependent features are unknown. Fill in some more.")); return; }
    const order = p.map((_, c) => c);
    if (C > 10) order.sort((a, b) => p[b] - p[a]);
    const bars = el("div", { class: "posterior" }), ends = intervals(p);
    for (const c of order.slice(0, 10)) {
      bars.append(el("span", { title: names[c] }, short(names[c], 40)), el("span", { class: "meter", "aria-hidden": "true" }, el("i", { style: `width:${(100 * p[c]).toFixed(2)}%` })), el("span", { class: "num", "data-class": c }, percent(p[c])));
      if (ends) bars.append(el("span"), el("span", { class: "reach", "aria-hidden": "true" }, el("i", { style: `left:${(100 * ends[c][0]).toFixed(2)}%;right:${(100 - 100 * ends[c][1]).toFixed(2)}%` })), el("span", { class: "num quiet" }, between(ends[c])));
    }
    answer.append(bars);
    if (C > 10) answer.append(el("p", { class: "quiet" }, `and ${C - 10} less probable classes`));
    const known = DATA.asked.filter((i) => codes[i] < F[i].arity).length;
    answer.append(el("p", { class: "quiet" }, `${known} of ${DATA.asked.length} known. Uncertainty ${fixed(entropy(p), 2)} of ${fixed(Math.log2(C), 2)} bits.`));
    if (reaches) answer.append(el("p", { class: "quiet" }, ends
      ? `Below each probability: its ${100 * DATA.intervals.level} % credible interval. It covers the uncertainty from having few training rows, but neither dependencies that the network lacks nor rows unlike the training data.`
      : `Fill in every feature to see ${100 * DATA.intervals.level} % credible intervals.`));
  }

  /* Expected cost of each action; the cost per class can be changed here. */
  function startDeciding() {
    const shown = C <= 6, said = el("p", { role: "status" }), cells = costs.actions.map(() => el("td", { class: "num" }));
    const cost = (a, c) => el("td", {}, el("input", { type: "number", step: "any", value: costs.matrix[a][c], "aria-label": `${costs.actions[a]} where ${names[c]}`, oninput: (event) => {
      if (event.target.value !== "") { costs.matrix[a][c] = +event.target.value; update(); }
    } }));
    const rows = costs.actions.map((name, a) => el("tr", {}, el("th", { scope: "row" }, short(String(name), 40)), shown ? names.map((_, c) => cost(a, c)) : null, cells[a]));
    const head = el("tr", {}, el("td"), shown ? names.map((name) => el("th", { scope: "col" }, short(name, 24))) : null, el("th", { scope: "col" }, "expected"));
    decision.append(el("h3", {}, "Decision"), said, el("div", { class: "scroll" }, el("table", { class: "decide" }, el("thead", {}, head), el("tbody", {}, rows))),
      shown ? el("p", { class: "quiet" }, "Cost of each action per true class. Change the numbers to see the decision change.") : null);
    return (p) => {
      decision.hidden = !p;
      if (!p) return;
      const { action, expected, margin } = model.cheapest(p, costs);
      said.textContent = `${action}${margin === margin ? `: ${plain(+margin.toPrecision(3))} cheaper than the next best` : ""}`;
      expected.forEach((cost, a) => { cells[a].textContent = fixed(cost, 2); rows[a].classList.toggle("chosen", costs.actions[a] === action); });
    };
  }

  /* The waterfall: exact terms from the prior to the posterior log-odds of two classes. */
  function showWhy(p) {
    clear(why);
    if (!p || C < 2) return;
    const terms = model.terms(codes), best = C === 2 ? state.class : p.indexOf(Math.max(...p));
    const target = against >= 0 && against < C ? against : best;
    let rival = -1;
    p.forEach((x, c) => { if (c !== target && (rival < 0 || x > p[rival])) rival = c; });
    const head = el("div", { class: "bar", style: "justify-content:space-between" }, el("h3", { style: "margin:0" }, "Why"));
    if (C > 2) head.append(el("label", {}, "for ", choice("Class to explain", [...names, "the most probable"], against < 0 ? C : against, (c) => { against = c === C ? -1 : c; update(); })));
    why.append(head);
    const prior = model.log_prior[target] - model.log_prior[rival];
    const steps = F.map((f, i) => ({ name: f.name, value: codes[i] >= f.arity ? "" : f.kind === "number" && !f.temporal && raw[i] != null ? plain(raw[i]) : called(f, codes[i]), step: terms[i][target] - terms[i][rival], known: codes[i] < f.arity }))
      .filter((s) => s.known).sort((a, b) => Math.abs(b.step) - Math.abs(a.step));
    const most = 9, shown = steps.slice(0, most), rest = steps.slice(most);
    if (rest.length) shown.push({ name: rest.length + " others", value: "", step: rest.reduce((sum, s) => sum + s.step, 0) });
    const figure = el("figure");
    why.append(figure);
    drawn(figure, (node, width) => node.append(waterfall(prior, shown, names[target], names[rival], width)));
    why.append(el("figcaption", {}, `Log-odds of ${short(names[target], 30)} against ${short(names[rival], 30)}. The contributions add up exactly. Parents come before their children, and information a feature shares with its parents counts only for the parents, so a feature that is informative on its own may contribute nothing.`));
  }

  function waterfall(prior, steps, target, rival, width) {
    const row = 25, top = 4, names = Math.min(170, width * 0.42), right = 48;
    const ends = [prior];
    for (const s of steps) ends.push(ends[ends.length - 1] + s.step);
    const total = ends[ends.length - 1], low = Math.min(0, ...ends), high = Math.max(0, low + 0.4, ...ends);
    const x = scale(low, high, names + 10, width - right), height = top + row * (steps.length + 2);
    const chart = sv("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img",
      "aria-label": `From a prior of ${signed(prior)} to ${signed(total)} log-odds of ${target} against ${rival}: ` + steps.map((s) => `${s.name} ${s.value} ${signed(s.step)}`).join("; ") });
    chart.append(sv("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: height }));
    const bar = (at, from, to, kind, text, value, tipText) => {
      const y = top + row * at, a = Math.min(x(from), x(to));
      chart.append(tipped(sv("g", {}, sv("text", { class: "strong", x: names, y: y + 16, "text-anchor": "end" }, text),
        sv("rect", { class: kind, x: a, y: y + 4, width: Math.max(1.5, Math.abs(x(to) - x(from))), height: row - 9, rx: 2 }),
        sv("text", { x: Math.max(x(from), x(to)) + 5, y: y + 16 }, signed(value))), tipText));
      if (at <= steps.length) chart.append(sv("line", { class: "link", x1: x(to), x2: x(to), y1: y + row - 5, y2: y + row + 4 }));
    };
    const letters = Math.floor(names / 6.5);
    bar(0, 0, prior, "total", "prior", prior, "class frequencies");
    steps.forEach((s, at) => bar(at + 1, ends[at], ends[at + 1], s.step >= 0 ? "up" : "down", short(s.value ? s.name + " " + s.value : s.name, letters), s.step, `${s.name} ${s.value}\n${signed(s.step)} log-odds (${factor(s.step)})`));
    bar(steps.length + 1, 0, total, "total", "total", total, factor(total));
    return chart;
  }

  /* The most useful next question: the saving from knowing the answer minus its price; or its bits. */
  let turn = 0;
  function showNext(p) {
    const mine = ++turn;
    clear(next).append(el("h3", {}, "Most useful next question"));
    if (!p) return;
    const open = F.map((_, i) => i).filter((i) => codes[i] === F[i].arity && F[i].arity > 1 && F[i].arity <= 400);
    const list = el("ul", { class: "questions" }), gains = [];
    next.append(list);
    if (!open.length) { list.append(el("li", {}, "All features are known.")); return; }
    const price = (i) => prices[F[i].name] || 0;
    const work = () => {
      if (mine !== turn) return;
      const until = performance.now() + 12;
      while (open.length && performance.now() < until) {
        const i = open.shift(), gain = model.gain(codes, i, costs);
        if (gain != null) gains.push([gain, i, costs ? gain - price(i) : gain]);
      }
      if (open.length) { setTimeout(work); return; }
      gains.sort((a, b) => b[2] - a[2] || price(a[1]) - price(b[1]));
      clear(list).append(...gains.slice(0, 4).map(([gain, i]) => el("li", {},
        el("button", { type: "button", class: "plain", onclick: () => lookAt(i) }, short(F[i].name, 32)),
        el("span", { class: "num" }, costs ? `saves ${fixed(gain, 3)}${price(i) ? ` for ${plain(price(i))}` : ""}` : `−${fixed(gain, 3)} bits`))));
      if (costs && !(gains[0][2] > 0)) next.append(el("p", { class: "quiet" }, "No question is worth its price. Decide now."));
      next.dataset.ready = mine;
    };
    setTimeout(work);
  }
  function lookAt(i) {
    const more = controls[i].box.closest("details");
    if (more) more.open = true;
    document.querySelectorAll(".hinted").forEach((node) => node.classList.remove("hinted"));
    controls[i].box.classList.add("hinted");
    controls[i].focus();
  }

  const decide = costs && startDeciding();
  let waiting = 0;
  function update() {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      const p = model.posterior(codes);
      showAnswer(p);
      if (decide) decide(p);
      showWhy(p);
      showNext(p);
    });
  }

  const known = () => Object.fromEntries(F.flatMap((f, i) => (raw[i] === undefined ? [] : [[f.name, raw[i]]])));
  async function copy(text, what) {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = document.body.appendChild(el("textarea", { value: text, style: "position:fixed;opacity:0", "aria-hidden": "true" }));
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    said.textContent = what + " copied.";
  }
  const tools = el("div", { class: "bar" },
    el("button", { type: "button", onclick: () => { setAll({}); said.textContent = "All features are unknown."; } }, "Reset"),
    el("button", { type: "button", onclick: () => {
      const hash = "#ask=" + encodeURIComponent(JSON.stringify(known()));
      history.replaceState(null, "", hash);
      copy(location.href, "Link");
    } }, "Copy as link"),
    el("button", { type: "button", onclick: () => {
      const p = model.posterior(codes);
      copy(JSON.stringify({ known: known(), probabilities: p && Object.fromEntries(names.map((n, c) => [n, p[c]])) }, null, 1), "JSON");
    } }, "Copy as JSON"));

  F.forEach((f, i) => controls.push(control(f, i)));
  const order = DATA.asked, first = order.length > 16 ? 12 : order.length;
  const grid = (some) => el("div", { class: "controls" }, some.map((i) => controls[i].box));
  const form = el("div", { class: "panel" }, tools, said, grid(order.slice(0, first)));
  if (first < order.length) form.append(el("details", {}, el("summary", {}, `${order.length - first} more features`), grid(order.slice(first))));
  host.append(form, el("div", { class: "result" }, answer, decision, next, why));
  controls.forEach((c) => c.show());
  const read = () => {
    if (!location.hash.startsWith("#ask=")) return false;
    try { setAll(JSON.parse(decodeURIComponent(location.hash.slice(5)))); } catch { said.textContent = "The link can't be read."; return false; }
    return true;
  };
  if (read()) $("ask").scrollIntoView();
  addEventListener("hashchange", read);
  update();
  window.asking = { model, codes, set, setAll, update, posterior: () => model.posterior(codes), intervals: () => intervals(model.posterior(codes)) };
}
