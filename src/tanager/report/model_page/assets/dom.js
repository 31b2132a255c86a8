/* Small helpers: elements, numbers as text, one tip for all charts. Text of the model is only ever
 * set as text, never as markup. */
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const sv = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const finite = (x) => typeof x === "number" && Number.isFinite(x);
const fixed = (x, digits) => x.toFixed(digits).replace(/^-(0(\.0+)?)$/, "$1").replace("-", "−");
const whole = (n) => Math.round(n).toLocaleString("en-US");
const percent = (p) => (p > 0 && p < 0.0005 ? "< 0.1 %" : p < 1 && p > 0.9995 ? "> 99.9 %" : fixed(100 * p, 1) + " %");
const between = ([low, high]) => `${fixed(100 * low, 1)} – ${fixed(100 * high, 1)} %`;
const signed = (x, digits = 2) => (x >= 0 ? "+" : "") + fixed(x, digits);
const factor = (x) => {
  const times = Math.exp(Math.abs(x)), text = times < 10 ? times.toFixed(1) : whole(times);
  return x >= 0 ? "odds × " + text : "odds ÷ " + text;
};
/* Names are untrusted: bidirectional marks are escaped. */
const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const visible = (text) => String(text).replace(STEERING, (mark) => "\\u" + mark.charCodeAt(0).toString(16).padStart(4, "0"));
const short = (text, most = 28) => {
  const flat = visible(String(text).replace(/\s+/g, " ").trim()) || "(no name)";
  return flat.length > most ? flat.slice(0, most - 1) + "…" : flat;
};
const clear = (node) => { node.replaceChildren(); return node; };

/* A number with as few digits as distinguish it from its neighbours. */
function plain(x) {
  const size = Math.abs(x);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return x.toPrecision(3).replace("-", "−");
  return String(+x.toPrecision(6)).replace("-", "−");
}
const day = (seconds) => new Date(seconds * 1000).toISOString().replace("T", " ").replace(/(:00)?\.\d+Z$/, "").replace(/ 00:00$/, "");

/* The display name of value v of a feature. */
function label(f, v) {
  if (v === f.missing) return "missing";
  if (f.labels) return visible(f.labels[v]);
  const show = f.kind === "time" ? day : plain, last = f.cuts.length;
  if (!last) return "any value";
  if (v === 0) return "≤ " + show(f.cuts[0]);
  if (v === last) return "> " + show(f.cuts[last - 1]);
  return show(f.cuts[v - 1]) + " – " + show(f.cuts[v]);
}

const tip = document.body.appendChild(el("div", { class: "tip", hidden: true, role: "presentation" }));
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), room = document.documentElement.clientWidth;
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, room - box.width - 8)) + "px";
  tip.style.top = Math.max(4, event.clientY - box.height - 12) + "px";
}
const hideTip = () => { tip.hidden = true; };
const tipped = (node, text) => {
  node.addEventListener("pointermove", (event) => showTip(event, text));
  node.addEventListener("pointerleave", hideTip);
  return node;
};

/* Draw now, and again whenever the host's width changes. */
function drawn(host, draw) {
  let width = 0;
  const again = () => {
    const now = Math.floor(host.clientWidth);
    if (now > 0 && now !== width) draw(clear(host), (width = now));
  };
  host.redraw = () => { width = 0; again(); };
  new ResizeObserver(again).observe(host);
  again();
}

function ticks(low, high, count) {
  const span = high - low || 1, raw = span / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const out = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + 1e-9 * span; t += step) out.push(+t.toPrecision(12));
  return out;
}
const scale = (d0, d1, r0, r1) => (x) => r0 + ((x - d0) / (d1 - d0 || 1)) * (r1 - r0);

/* A table from rows of texts; the first column names the row. */
function table(head, rows, options = {}) {
  const cell = (value, at) =>
    value instanceof Node ? el("td", { class: options.text?.includes(at) ? "text" : null }, value)
      : el("td", { class: options.text?.includes(at) ? "text" : null }, String(value));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.name || "Table" },
    el("table", {},
      el("thead", {}, el("tr", {}, head.map((h, at) => el("th", { scope: "col", class: options.text?.includes(at) ? "text" : null }, h)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell))))));
}

function choice(name, options, selected, change) {
  const select = el("select", { "aria-label": name, onchange: () => change(+select.value) },
    options.map((text, at) => (text == null ? null : el("option", { value: at, selected: at === selected }, short(text, 44)))));
  return select;
}
