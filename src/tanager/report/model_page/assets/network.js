/* Section two: the drawing can be explored by mouse and by keyboard. */
function startNetwork() {
  const canvas = $("canvas"), drawings = [...canvas.querySelectorAll("svg.network")].map((svg) => {
    const nodes = [...svg.querySelectorAll(".node[data-i]")], single = new Map();
    nodes.forEach((node) => { if (!node.classList.contains("folded")) single.set(+node.dataset.i, node); });
    return { svg, nodes, single, edges: [...svg.querySelectorAll(".edge[data-to]")],
      natural: [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height],
      places: nodes.map((node) => { const r = node.querySelector("rect"); return [+r.getAttribute("x"), +r.getAttribute("y")]; }) };
  });
  const whole = drawings[drawings.length - 1];  /* before it, if there are two, one with leaves folded */
  let at = drawings[0], zoom = 1, chosen = -1;

  const setZoom = (wanted) => {
    const middle = [(canvas.scrollLeft + canvas.clientWidth / 2) / zoom, (canvas.scrollTop + canvas.clientHeight / 2) / zoom];
    zoom = Math.max(0.08, Math.min(2.5, wanted));
    at.svg.setAttribute("width", at.natural[0] * zoom);
    at.svg.setAttribute("height", at.natural[1] * zoom);
    canvas.scrollLeft = middle[0] * zoom - canvas.clientWidth / 2;
    canvas.scrollTop = middle[1] * zoom - canvas.clientHeight / 2;
  };
  const fit = () => setZoom(Math.min(1, (canvas.clientWidth - 4) / at.natural[0], (canvas.clientHeight - 4) / at.natural[1]));
  const start = () => {
    canvas.classList.toggle("whole", at === whole && drawings.length > 1);
    canvas.classList.toggle("fits", at.natural[1] < 700);
    setZoom(Math.max(0.8, Math.min(1, (canvas.clientWidth - 4) / at.natural[0])));
    const target = at.svg.querySelector(".class-node rect");  /* the class is at the top */
    canvas.scrollTop = 0;
    canvas.scrollLeft = +target.getAttribute("x") * zoom - canvas.clientWidth / 2;
  };
  const reveal = (node) => {
    const box = node.getBoundingClientRect(), frame = canvas.getBoundingClientRect();
    if (box.left < frame.left || box.right > frame.right) canvas.scrollLeft += box.left - frame.left - frame.width / 3;
    if (box.top < frame.top || box.bottom > frame.bottom) canvas.scrollTop += box.top - frame.top - frame.height / 3;
  };
  const leaves = el("input", { type: "checkbox", onchange: () => unfold(leaves.checked) });
  const unfold = (all) => {
    leaves.checked = all;
    at = all ? whole : drawings[0];
    start();
    if (chosen >= 0) choose(at.single.has(chosen) ? chosen : [...at.single.keys()][0]);
  };

  const choose = (i, focus) => {
    chosen = i;
    if (!at.single.has(i)) { at = whole; leaves.checked = true; start(); }
    const own = at.single.get(i);
    at.nodes.forEach((node) => {
      if (!node.classList.contains("folded")) node.setAttribute("aria-pressed", node === own);
      node.setAttribute("tabindex", node === own ? 0 : -1);
    });
    at.edges.forEach((edge) => {
      edge.classList.toggle("in", +edge.dataset.to === i);
      edge.classList.toggle("out", +edge.dataset.from === i);
    });
    at.svg.classList.add("chosen");
    reveal(own);
    if (focus) own.focus({ preventScroll: true });
    inspect(i);
  };
  for (const drawing of drawings) {
    const { svg, nodes, places } = drawing;
    const press = (node, focus) => choose(+node.dataset.i, focus);  /* a folded box opens all leaves */
    nodes.forEach((node) => node.addEventListener("click", () => press(node)));
    svg.addEventListener("keydown", (event) => {
      const from = nodes.indexOf(event.target);
      if (from < 0) return;
      const [x, y] = places[from], side = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); press(nodes[from], true); }
      if (!side) return;
      event.preventDefault();
      let best = -1, least = Infinity;
      places.forEach(([a, b], to) => {
        const along = (a - x) * side[0] + (b - y) * side[1], across = Math.abs((a - x) * side[1]) + Math.abs((b - y) * side[0]);
        if (to !== from && along > 1 && along + 2 * across < least) [best, least] = [to, along + 2 * across];
      });
      if (best < 0) return;
      if (nodes[best].classList.contains("folded")) { nodes[best].setAttribute("tabindex", 0); nodes[best].focus(); } else press(nodes[best], true);
    });
  }

  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && !event.target.closest(".node"))
      grip = [event.clientX + canvas.scrollLeft, event.clientY + canvas.scrollTop];
  });
  addEventListener("pointermove", (event) => {
    if (!grip) return;
    canvas.classList.add("dragging");
    canvas.scrollLeft = grip[0] - event.clientX;
    canvas.scrollTop = grip[1] - event.clientY;
  });
  addEventListener("pointerup", () => { grip = null; canvas.classList.remove("dragging"); });
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey) { event.preventDefault(); setZoom(zoom * Math.exp(-event.deltaY / 300)); }
  }, { passive: false });

  const tools = $("network-tools");
  if (whole.nodes.length > 12) tools.append(el("label", {}, "Find ", finder((i) => choose(i))));
  tools.append(
    el("span", {}, el("button", { type: "button", "aria-label": "Smaller", onclick: () => setZoom(zoom / 1.3) }, "−"), " ",
      el("button", { type: "button", "aria-label": "Larger", onclick: () => setZoom(zoom * 1.3) }, "+"), " ",
      el("button", { type: "button", onclick: fit }, "All")));
  if (drawings.length > 1) tools.append(el("label", {}, leaves, "Show all leaves"));
  start();
  const seen = DATA.order.find((i) => at.single.has(i));
  choose(seen === undefined ? DATA.order[0] : seen);
  window.chooseNode = choose;
}

/* A box that finds features by name. */
let lists = 0;
function finder(found) {
  const id = "names-" + lists++;
  const input = el("input", { type: "search", list: id, placeholder: "a feature", autocomplete: "off" });
  input.addEventListener("input", () => {
    const i = DATA.features.findIndex((f) => f.name === input.value);
    if (i >= 0) found(i);
  });
  return [input, el("datalist", { id }, DATA.features.map((f) => el("option", { value: f.name })))];
}

function inspect(i) {
  const f = DATA.features[i], panel = clear($("inspector")), left = el("div"), right = el("div");
  const children = DATA.edges.filter((edge) => edge.from === i);
  panel.append(left, right);
  left.append(el("h3", {}, short(f.name, 160)), factsLine(f));
  const parents = DATA.edges.filter((edge) => edge.to === i);
  if (parents.length) {
    const head = ["parent", "bits", ...(DATA.folds ? ["in folds"] : [])];
    const rows = parents.map((edge) => [
      link(edge.from), finite(edge.bits) ? fixed(edge.bits, 3) : "–",
      ...(DATA.folds ? [finite(edge.again) ? edge.again + " of " + DATA.folds : "–"] : []),
    ]);
    left.append(table(head, rows, { name: "Parents of " + f.name }));
    const notes = [`Bits: information about ${short(f.name)} given ${short(DATA.target)}.`];
    if (DATA.folds) notes.push("In folds: number of cross-validation models with this edge.");
    left.append(el("p", { class: "quiet" }, notes.join(" ")));
  } else left.append(el("p", { class: "quiet" }, `Its only parent is ${short(DATA.target)}.`));
  if (children.length) {
    const more = children.length > 12 ? `and ${children.length - 12} more` : null;
    left.append(el("p", { class: "quiet links" }, "Parent of", children.slice(0, 12).map((edge) => link(edge.to)), more));
  }
  if (!f.p) return;
  const host = el("figure");
  right.append(host, el("p", { class: "quiet" }, `Log-odds of ${short(DATA.classes[state.class], 30)}, value by value. `,
    el("button", { type: "button", class: "plain", onclick: () => showFeature(i, true) }, "Show details")));
  drawn(host, (node, width) => node.append(effectChart(f, state.class, -1, width, true)));
}
const link = (i) => el("button", { type: "button", class: "plain", onclick: () => window.chooseNode(i, true) }, short(DATA.features[i].name));

function factsLine(f) {
  const kinds = { number: "numeric", time: "date or time", category: "categorical" };
  const parts = [`${kinds[f.kind]}, ${whole(f.arity)} ${f.kind === "category" ? "values" : "intervals"}`];
  if (finite(f.bits)) parts.push(fixed(f.bits, 3) + " bits about " + short(DATA.target));
  if (finite(f.loss)) parts.push("loss increase without it " + signed(f.loss, 4));
  return el("p", { class: "facts-line" }, parts.map((text) => el("span", {}, text)));
}
