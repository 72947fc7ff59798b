// One evaluation and its submissions; one submission and its tests.

import { ask } from "./asking.js";
import { ago, badge, bytes, card, count, legend, make, seconds, shares, table } from "./drawing.js";
import { draw } from "./judgement.js";

const path = (id) => `/page/evaluations/${encodeURIComponent(id)}`;
const link = (id) => `#/evaluations/${encodeURIComponent(id)}`;

function submissions(found, turn) {
  const rows = found.judgements.map((one) => make("tr", {},
    make("td", { class: "numbers" }, make("a", { href: `${link(found.id)}/${one.index}` }, `Submission ${one.index + 1}`)),
    make("td", {}, badge(one.verdict)),
    make("td", { class: "numbers right optional" }, one.verdict ? seconds(one.cpu_seconds) : ""),
    make("td", { class: "numbers right optional" }, one.verdict ? bytes(one.memory_bytes) : ""),
    make("td", { class: "name soft optional", title: one.detail }, one.detail ?? "")));
  const last = found.first + rows.length;
  const pages = found.submissions > rows.length && make("div", { class: "row" },
    make("button", { type: "button", class: "quiet", disabled: found.first === 0, onclick: () => turn(Math.max(0, found.first - 100)) }, "Earlier"),
    make("span", { class: "soft" }, `${found.first + 1} to ${last} of ${found.submissions}`),
    make("button", { type: "button", class: "quiet", disabled: last >= found.submissions, onclick: () => turn(last) }, "Later"));
  const heads = [["Submission"], ["Verdict"], ["CPU", "right optional"], ["Memory", "right optional"], ["Why", "optional"]];
  return [table(heads, rows), pages || null];
}

// Returns whether it is final.
export async function showEvaluation(main, id, first = 0) {
  const found = await ask(`${path(id)}?first=${first}`);
  main.replaceChildren(
    make("h1", { tabindex: -1 }, `Evaluation ${id}`),
    make("div", { class: "stack" },
      card(null, make("p", {}, `${found.state}, ${count(found.done)} of ${count(found.total)} judged, arrived ${ago(found.arrived)}`),
        shares(found.verdicts, found.total), legend(found.verdicts)),
      card("Submissions", submissions(found, (next) => showEvaluation(main, id, next)))));
  return ["done", "cancelled"].includes(found.state);
}

export async function showSubmission(main, id, index, first = null) {
  const found = await ask(`${path(id)}/${index}${first == null ? "" : `?first=${first}`}`);
  main.replaceChildren(
    make("p", { class: "small" }, make("a", { href: link(id) }, `Evaluation ${id}`)),
    make("h1", { tabindex: -1 }, `Submission ${index + 1}`),
    draw(found, (next) => showSubmission(main, id, index, next)));
  return found.verdict != null;
}
