// The service as it is now: queue, workers, throughput, verdicts, the latest evaluations.

import { ask } from "./asking.js";
import { ago, badge, card, count, legend, make, shares, table } from "./drawing.js";

const SVG = "http://www.w3.org/2000/svg";

function tile(text, label) {
  return make("div", { class: "card tile" }, make("b", {}, text), make("span", {}, label));
}

// A bar a span; the current one isn't over and is left out.
function chart(pace) {
  const judged = pace.judged.slice(0, -1);
  const most = Math.max(...judged);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "chart");
  svg.setAttribute("viewBox", `0 0 ${judged.length * 10} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `At most ${count((most * 60) / pace.seconds)} a minute in the last ${Math.round((judged.length * pace.seconds) / 60)} minutes`);
  judged.forEach((number, place) => {
    const bar = document.createElementNS(SVG, "rect");
    const height = number ? Math.max(2, (97 * number) / most) : 0.8;
    const shape = { x: place * 10 + 1, y: 100 - height, width: 8, height };
    for (const [name, value] of Object.entries(shape)) bar.setAttribute(name, value);
    if (!number) bar.setAttribute("class", "rest");
    svg.append(bar);
  });
  return [svg, make("div", { class: "axis" }, make("span", {}, `${Math.round((judged.length * pace.seconds) / 60)} minutes ago`),
    make("span", {}, `highest: ${count((most * 60) / pace.seconds)} a minute`), make("span", {}, "now"))];
}

function workers(found) {
  if (!found.length) return make("p", { class: "said" }, "No worker is alive: start one with ", make("code", {}, "microcoder worker"), ".");
  const rows = found.map((worker) => make("tr", {},
    make("td", { class: "name" }, worker.host), make("td", { class: "numbers" }, String(worker.pid)),
    make("td", {}, worker.runtime.sandbox), make("td", { class: "optional" }, worker.runtime.python)));
  return table([["Host"], ["Process"], ["Boxes"], ["Python", "optional"]], rows);
}

function latest(found) {
  if (!found.length) return make("p", { class: "said soft" }, "None yet. ", make("a", { href: "#/try" }, "Try a program"), ".");
  const rows = found.map((one) => make("tr", {},
    make("td", { class: "name" }, make("a", { href: `#/evaluations/${encodeURIComponent(one.id)}`, title: one.id }, one.id)),
    make("td", { class: "optional" }, one.total === 1 && one.done === 1 ? badge(Object.keys(one.verdicts)[0]) : one.state),
    make("td", { class: "numbers right" }, `${count(one.done)} of ${count(one.total)}`),
    make("td", { class: "wide" }, shares(one.verdicts, one.total, true)),
    make("td", { class: "soft right numbers optional" }, ago(one.arrived))));
  return table([["Evaluation"], ["State", "optional"], ["Judged", "right"], ["Verdicts"], ["Arrived", "right optional"]], rows);
}

export async function show(main) {
  const found = await ask("/page/overview");
  const total = Object.values(found.verdicts).reduce((sum, number) => sum + number, 0);
  const looked = found.cache.hits + found.cache.misses;
  const minute = found.pace.judged.slice(-7, -1).reduce((sum, number) => sum + number, 0);
  main.replaceChildren(
    make("h1", { tabindex: -1 }, "Overview"),
    make("div", { class: "stack" },
      make("div", { class: "tiles" },
        tile(count(Math.max(0, found.waiting - found.in_hand)), "submissions wait"), tile(count(found.in_hand), "in hand"),
        tile(count(found.workers.length), found.workers.length === 1 ? "worker" : "workers"),
        tile(count(minute), "judged in the last minute"),
        tile(looked ? `${((100 * found.cache.hits) / looked).toFixed(1)} %` : "–", "answered from the cache")),
      make("div", { class: "pair" },
        card("Throughput", chart(found.pace)),
        card("Verdicts", total ? [shares(found.verdicts, total), legend(found.verdicts)] : make("p", { class: "soft said" }, "Nothing was judged yet."))),
      card("Latest evaluations", latest(found.latest)),
      card("Workers", workers(found.workers))));
  return found;
}
