// Which view is shown, and how often it is drawn again.

import { Refused } from "./asking.js";
import { make } from "./drawing.js";
import { showEvaluation, showSubmission } from "./evaluation.js";
import { show as showOverview } from "./overview.js";
import { show as showTrying } from "./trying.js";

const PAUSE = 2000;
const main = document.getElementById("main");
const status = document.getElementById("status");
let shown = 0;

// What draws the view of an address, and what tells from its answer whether it is final.
function choose(address) {
  const [view, id, index] = address.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  if (view === "try") return { draw: async (place) => (showTrying(place), true), final: Boolean };
  if (view === "evaluations" && index !== undefined) return { draw: (place) => showSubmission(place, id, Number(index)), final: Boolean };
  if (view === "evaluations" && id) return { draw: (place) => showEvaluation(place, id), final: Boolean };
  return { draw: showOverview, final: () => false };
}

function tell(text, off = false) {
  status.textContent = text;
  status.classList.toggle("off", off);
}

// Whether drawing now would take something away from who is reading: a selection, or what has the focus.
function isInUse() {
  const focused = document.activeElement;
  return document.hidden || !getSelection().isCollapsed || (main.contains(focused) && focused !== main && focused.tagName !== "H1");
}

async function run() {
  const round = (shown += 1);
  const address = location.hash || "#/";
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.getAttribute("href") === address;
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const view = choose(address);
  const place = make("div");  // a view that was left draws into nothing
  for (let first = true; round === shown; first = false) {
    try {
      const answer = first || !isInUse() ? await view.draw(place) : null;
      if (round !== shown) return;
      if (first) main.replaceChildren(place);
      tell("connected");
      if (first) main.querySelector("h1")?.focus({ preventScroll: true });
      document.title = `${main.querySelector("h1")?.textContent ?? ""} · MicroCoder`;
      if (answer !== null && view.final(answer)) return;
    } catch (error) {
      if (!(error instanceof Refused) || round !== shown) throw error;
      tell(error.status ? "refused" : "no connection", true);
      if (first || error.status === 404) place.replaceChildren(make("h1", { tabindex: -1 }, "Nothing to show"), make("p", {}, error.message));
      if (first) main.replaceChildren(place);
      if (error.status === 404) return;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => {
  scrollTo(0, 0);
  run();
});
run();
