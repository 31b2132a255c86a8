/* Section two: the drawing can be walked through by mouse and by keyboard. */
function startNetwork() {
  const drawing = document.querySelector("svg.network"), canvas = $("canvas");
  const nodes = [...drawing.querySelectorAll(".node")], edges = [...drawing.querySelectorAll(".edge")];
  const natural = [drawing.viewBox.baseVal.width, drawing.viewBox.baseVal.height];
  let zoom = 1;

  const setZoom = (wanted) => {
    const at = [(canvas.scrollLeft + canvas.clientWidth / 2) / zoom, (canvas.scrollTop + canvas.clientHeight / 2) / zoom];
    zoom = Math.max(0.08, Math.min(2.5, wanted));
    drawing.setAttribute("width", natural[0] * zoom);
    drawing.setAttribute("height", natural[1] * zoom);
    canvas.scrollLeft = at[0] * zoom - canvas.clientWidth / 2;
    canvas.scrollTop = at[1] * zoom - canvas.clientHeight / 2;
  };
  const fit = () => setZoom(Math.min(1, (canvas.clientWidth - 4) / natural[0], (canvas.clientHeight - 4) / natural[1]));
  const reveal = (i) => {
    const box = nodes[i].getBoundingClientRect(), frame = canvas.getBoundingClientRect();
    if (box.left < frame.left || box.right > frame.right) canvas.scrollLeft += box.left - frame.left - frame.width / 3;
    if (box.top < frame.top || box.bottom > frame.bottom) canvas.scrollTop += box.top - frame.top - frame.height / 3;
  };

  const choose = (i, focus, stay) => {
    nodes.forEach((node, at) => { node.setAttribute("aria-pressed", at === i); node.setAttribute("tabindex", at === i ? 0 : -1); });
    edges.forEach((edge) => {
      edge.classList.toggle("in", +edge.dataset.to === i);
      edge.classList.toggle("out", +edge.dataset.from === i);
    });
    drawing.classList.add("chosen");
    if (!stay) reveal(i);
    if (focus) nodes[i].focus({ preventScroll: true });
    inspect(i);
  };
  nodes.forEach((node, i) => node.addEventListener("click", () => choose(i)));
  const places = nodes.map((node) => { const r = node.querySelector("rect"); return [+r.getAttribute("x"), +r.getAttribute("y")]; });
  drawing.addEventListener("keydown", (event) => {
    const i = nodes.indexOf(event.target);
    if (i < 0) return;
    const [x, y] = places[i], side = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(i, true); }
    if (!side) return;
    event.preventDefault();
    let best = -1, least = Infinity;
    places.forEach(([a, b], at) => {
      const along = (a - x) * side[0] + (b - y) * side[1], across = Math.abs((a - x) * side[1]) + Math.abs((b - y) * side[0]);
      if (at !== i && along > 1 && along + 2 * across < least) [best, least] = [at, along + 2 * across];
    });
    if (best >= 0) choose(best, true);
  });

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

  const arrows = el("input", { type: "checkbox", onchange: () => drawing.classList.toggle("with-class", arrows.checked) });
  arrows.checked = DATA.edges.length === 0;
  drawing.classList.toggle("with-class", arrows.checked);
  const tools = $("network-tools");
  if (nodes.length > 12) tools.append(el("label", {}, "Find ", finder((i) => choose(i))));
  tools.append(
    el("span", {}, el("button", { type: "button", "aria-label": "Smaller", onclick: () => setZoom(zoom / 1.3) }, "−"), " ",
      el("button", { type: "button", "aria-label": "Larger", onclick: () => setZoom(zoom * 1.3) }, "+"), " ",
      el("button", { type: "button", onclick: fit }, "All")),
    el("label", {}, arrows, "Arrows of ", short(DATA.target)));
  if (natural[1] < 700) canvas.classList.add("fits");
  setZoom(Math.max(0.8, Math.min(1, (canvas.clientWidth - 4) / natural[0])));
  canvas.scrollTop = Math.max(0, (natural[1] * zoom - canvas.clientHeight) / 2);
  canvas.scrollLeft = 0;
  choose(DATA.order[0], false, true);
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
  const measured = parents.some((edge) => finite(edge.loss));
  if (parents.length) {
    const head = ["parent", "bits", ...(measured ? ["loss without"] : []), ...(DATA.folds ? ["found again"] : [])];
    const rows = parents.map((edge) => [
      link(edge.from), finite(edge.bits) ? fixed(edge.bits, 3) : "–",
      ...(measured ? [finite(edge.loss) ? signed(edge.loss, 4) : "–"] : []),
      ...(DATA.folds ? [finite(edge.again) ? edge.again + " of " + DATA.folds : "–"] : []),
    ]);
    left.append(table(head, rows, { name: "Parents of " + f.name }));
    const notes = [`Bits: what the parent says about ${short(f.name)} when ${short(DATA.target)} is known.`];
    if (measured) notes.push("Loss without: how much the log-loss rises if the edge is taken out.");
    if (DATA.folds) notes.push("Found again: in how many of the models fitted without a fold.");
    left.append(el("p", { class: "quiet" }, notes.join(" ")));
  } else left.append(el("p", { class: "quiet" }, `Its only parent is ${short(DATA.target)}.`));
  if (children.length) {
    const line = el("p", { class: "quiet" }, "Parent of ");
    children.slice(0, 12).forEach((edge, at) => line.append(at ? ", " : "", link(edge.to)));
    if (children.length > 12) line.append(`, and ${children.length - 12} more`);
    left.append(line);
  }
  if (!f.p) return;
  const host = el("figure");
  right.append(host, el("p", { class: "quiet" }, `Log-odds of ${short(DATA.classes[state.class], 30)}, value by value. `,
    el("button", { type: "button", class: "plain", onclick: () => showFeature(i, true) }, "See it in full")));
  drawn(host, (node, width) => node.append(effectChart(f, state.class, -1, width, true)));
}
const link = (i) => el("button", { type: "button", class: "plain", onclick: () => window.chooseNode(i, true) }, short(DATA.features[i].name));

function factsLine(f) {
  const kinds = { number: "a number", time: "a date or time", category: "a category" };
  const parts = [`${kinds[f.kind]}, ${whole(f.arity)} ${f.kind === "category" ? "values" : "intervals"}`];
  if (finite(f.bits)) parts.push(fixed(f.bits, 3) + " bits about " + short(DATA.target));
  if (finite(f.loss)) parts.push("loss without it " + signed(f.loss, 4));
  return el("p", { class: "facts-line" }, parts.map((text) => el("span", {}, text)));
}
