// One judgement with its tests: input, expected and found side by side, the rung, what it took.

import { badge, bytes, card, make, seconds } from "./drawing.js";
import { compare } from "./differing.js";

function measure(name, text, share) {
  const fill = make("i");
  fill.style.width = `${Math.min(100, 100 * share).toFixed(1)}%`;
  return make("span", { class: "measure" }, `${name} ${text}`, make("span", { class: "bar", "aria-hidden": "true" }, fill));
}

function panel(title, contents) {
  const empty = contents.every((part) => part === "");
  const pre = empty ? make("pre", { class: "nothing" }, "nothing") : make("pre", { tabindex: 0 }, contents);
  return make("div", {}, make("h3", {}, title), pre);
}

function unkept(title, text) {
  return make("div", {}, make("h3", {}, title), make("pre", { class: "nothing" }, text));
}

function sides(test) {
  const [wanted, found] = compare(test.wanted, test.output, test.match);
  const known = test.output != null || (test.match && !test.match.matched);
  const input = test.kind === "assertion" ? "Test code" : test.kind === "functional" ? "Arguments" : "Input";
  const panels = [];
  if (test.input != null) panels.push(panel(input, [test.input]));
  if (test.wanted != null) panels.push(panel("Expected", wanted));
  else if (test.match?.expected) panels.push(panel("Expected, where they differ", [make("mark", {}, test.match.expected)]));
  if (known && (test.kind !== "assertion" || test.output)) panels.push(panel(test.output != null ? "Found" : "Found, where they differ", found));
  else if (test.verdict === "accepted" && test.kind !== "assertion") panels.push(unkept("Found", "As expected; it isn't kept."));
  return make("div", { class: "sides" }, panels);
}

function about(test) {
  if (test.verdict === "accepted" && !test.match && test.kind !== "assertion") return "nothing was expected";
  return test.match?.matched ? `matched by ${test.match.rung ?? "its checker"}` : "";
}

function card_of(test, most) {
  const head = make("summary", {},
    make("span", { class: "numbers" }, `Test ${test.index + 1}`), badge(test.verdict),
    make("span", { class: "soft small" }, [test.name, about(test)].filter(Boolean).join(" · ")),
    measure("CPU", seconds(test.cpu_seconds), test.cpu_seconds / most.cpu),
    measure("Memory", bytes(test.memory_bytes), test.memory_bytes / most.memory));
  const body = make("div", { class: "body" },
    test.detail && make("p", { class: "said" }, test.detail),
    sides(test),
    test.stderr && panel("Standard error", [test.stderr]));
  const open = !["accepted", "skipped"].includes(test.verdict);
  return make("details", { class: "card test", open }, head, body);
}

function facts(judgement) {
  const runtime = judgement.runtime;
  const listed = [
    ["Reward", judgement.reward == null ? "none" : String(judgement.reward)],
    ["CPU", seconds(judgement.cpu_seconds)],
    ["Memory", bytes(judgement.memory_bytes)],
    ["Where", runtime ? `Python ${runtime.python} in a ${runtime.sandbox} box` : "nowhere"],
    judgement.cached && ["From", "the cache of results"],
    judgement.reason && ["Reason", judgement.reason],
    judgement.suspicion && ["Suspicion", judgement.suspicion],
  ].filter(Boolean);
  return make("dl", { class: "facts" }, listed.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))));
}

// `turn(first)` shows other tests of the same judgement.
export function draw(judgement, turn = null) {
  if (judgement.verdict == null) return card(null, make("p", { class: "said" }, badge(null)));
  const tests = judgement.tests;
  const most = {
    cpu: Math.max(1e-6, ...tests.map((test) => test.cpu_seconds)),
    memory: Math.max(1, ...tests.map((test) => test.memory_bytes)),
  };
  const last = judgement.first + tests.length;
  const pages = turn && judgement.count > tests.length && make("div", { class: "row" },
    make("button", { type: "button", class: "quiet", disabled: judgement.first === 0, onclick: () => turn(Math.max(0, judgement.first - 50)) }, "Earlier tests"),
    make("span", { class: "soft" }, `${judgement.first + 1} to ${last} of ${judgement.count}`),
    make("button", { type: "button", class: "quiet", disabled: last >= judgement.count, onclick: () => turn(last) }, "Later tests"));
  return make("div", { class: "stack" },
    card(null, make("h2", {}, badge(judgement.verdict)),
      judgement.detail && make("p", {}, judgement.detail),
      facts(judgement),
      judgement.note && make("p", { class: "soft said" }, judgement.note)),
    pages, tests.map((test) => card_of(test, most)));
}
