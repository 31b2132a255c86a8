const DATA = JSON.parse($("data").textContent);
const state = { class: DATA.positive, feature: 0, given: -1 };
startNetwork();
startFeatures();
if ($("asking") && $("model").textContent.trim()) startAsking();
startTrust();
document.querySelectorAll("[data-feature]").forEach((node) => node.addEventListener("click", (event) => {
  event.preventDefault();
  showFeature(+node.dataset.feature, true);
}));
const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
const here = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    links.forEach((a) => a.removeAttribute("aria-current"));
    links.get(entry.target.id)?.setAttribute("aria-current", "true");
  }
}, { rootMargin: "-20% 0px -70% 0px" });
document.querySelectorAll("main section").forEach((section) => here.observe(section));
document.documentElement.dataset.ready = Math.round(performance.now()); // milliseconds until every chart was drawn
