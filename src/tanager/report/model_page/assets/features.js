/* Section three: one feature at a time, in full. */
function startFeatures() {
  const list = el("ul"), most = Math.max(1e-12, ...DATA.features.map((f) => f.bits));
  const search = el("input", { type: "search", placeholder: `Search ${DATA.features.length} features`, "aria-label": "Find a feature" });
  const buttons = new Map();
  for (const i of DATA.order) {
    const f = DATA.features[i];
    const button = el("button", { type: "button", "aria-pressed": "false", title: f.name, onclick: () => showFeature(i) },
      el("span", {}, short(f.name, 60)),
      el("span", { class: "meter", "aria-hidden": "true" }, el("i", { style: `width:${Math.max(0, (100 * f.bits) / most).toFixed(1)}%` })));
    buttons.set(i, button);
    list.append(el("li", {}, button));
  }
  search.addEventListener("input", () => {
    const text = search.value.toLowerCase();
    for (const [i, button] of buttons) button.parentNode.hidden = !DATA.features[i].name.toLowerCase().includes(text);
  });
  if (DATA.features.length > 10) $("picker").append(search);
  $("picker").append(list);

  window.showFeature = (i, jump) => {
    for (const [at, button] of buttons) button.setAttribute("aria-pressed", at === i);
    state.feature = i;
    state.given = -1;
    drawFeature();
    if (jump) { $("effect").scrollIntoView({ block: "center" }); buttons.get(i).focus({ preventScroll: true }); }
  };
  showFeature(DATA.order[0]);
  /* A printed page isn't interactive: the next features follow the first. */
  for (const i of DATA.order.slice(1, 7))
    if (DATA.features[i].p)
      $("paper").append(el("figure", {}, el("h3", {}, short(DATA.features[i].name, 40)), effectChart(DATA.features[i], state.class, -1, 360, true)));
}

function drawFeature() {
  const f = DATA.features[state.feature], panel = clear($("effect"));
  panel.append(el("h3", {}, short(f.name, 160)), factsLine(f));
  if (!f.p) {
    panel.append(el("p", { class: "quiet" }, "No plot: to keep the page small, only the most informative features have one."));
    return;
  }
  const tools = el("div", { class: "bar" }), host = el("figure"), words = el("p", { class: "quiet" });
  if (DATA.classes.length > 2)
    tools.append(el("label", {}, "Class ", choice("Class", DATA.classes, state.class, (c) => { state.class = c; drawFeature(); })));
  if (f.given) {
    const names = f.parents.map((p) => short(DATA.features[p].name));
    const options = ["any " + names.join(" and "),
      ...f.given.map((g) => g.is.map((value, at) => names[at] + ": " + value).join(", ") + " (" + percent(g.share) + ")")];
    tools.append(el("label", {}, "Given ", choice("Given", options, state.given + 1, (at) => { state.given = at - 1; drawFeature(); })));
  }
  if (tools.childNodes.length) panel.append(tools);
  panel.append(host);
  drawn(host, (node, width) => node.append(effectChart(f, state.class, state.given, width, false)));
  const against = DATA.classes.length === 2 ? DATA.classes[1 - state.class] : "all other classes";
  words.textContent = `Contribution of each value to the log-odds of ${short(DATA.classes[state.class], 40)} against ${short(against, 40)}. ` +
    (state.given >= 0 ? "Dashed: averaged over the parents." : f.n ? (f.kind === "category" ? "Thin lines" : "Shaded") + ": 95 % intervals from the counts in the rows" + (f.bands ? ", neighbouring values pooled" : "") + "; where the model's value lies outside, model and data disagree." +
      (f.kind === "category" ? "" : " Below: how many rows there are.")
      : DATA.rows ? "Intervals for the number of training rows." : "");
  panel.append(words);
  if (f.missing != null) {
    const e = effects(f.p, f.n, DATA.rows, state.class, f.bands)[f.missing];
    panel.append(el("p", { class: "quiet" }, `A missing value contributes ${signed(e.odds)} (${factor(e.odds)}).`));
  } else panel.append(el("p", { class: "quiet" }, "Never missing in training: a missing value is treated as unknown and marginalized."));
  panel.append(effectTable(f));
}

function effectTable(f) {
  const details = el("details", {}, el("summary", {}, "Show as a table"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.childNodes.length > 1) return;
    const context = state.given >= 0 ? f.given[state.given] : null, p = context ? context.p : f.p;
    const list = effects(p, context ? null : f.n, context ? null : DATA.rows, state.class, f.bands);
    const totals = DATA.classes.map((_, c) => p.reduce((sum, v) => sum + v[c], 0));
    const some = DATA.classes.length > 6 ? [state.class] : DATA.classes.map((_, c) => c);
    const head = ["value", ...(finite(list[0].rows) ? ["rows"] : []), ...some.map((c) => `P(value | ${short(DATA.classes[c], 16)})`), "log-odds", ...(finite(list[0].low) ? ["95 % interval"] : [])];
    const rows = list.map((e, v) => [label(f, v), ...(finite(e.rows) ? [whole(e.rows)] : []), ...some.map((c) => fixed(p[v][c] / totals[c], 4)),
      signed(e.odds, 3), ...(finite(e.low) ? [`${signed(e.low)} to ${signed(e.high)}`] : [])]);
    details.append(table(head, rows, { name: "Effects of " + f.name }));
  });
  return details;
}
