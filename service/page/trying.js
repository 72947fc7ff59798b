// A program typed in, judged, and shown.

import { ask, post } from "./asking.js";
import { make } from "./drawing.js";
import { draw } from "./judgement.js";

const KINDS = {
  stdin: {
    labels: ["Input", "Expected output"],
    program: "numbers = list(map(int, input().split()))\nprint(sum(numbers))\nprint(max(numbers))\n",
    entry: "",
    first: ["2 3 7\n", "12\n7\n"],
  },
  functional: {
    labels: ["Arguments (JSON lines)", "Expected (JSON)"],
    program: "def smallest(numbers, count):\n    return sorted(numbers)[:count]\n",
    entry: "smallest",
    first: ["[5, 1, 4]\n2", "[1, 4]"],
  },
  assertion: {
    labels: ["Test code", ""],
    program: "def double(text):\n    return text * 2\n",
    entry: "",
    first: ['assert double("ab") == "abab"', ""],
  },
};
const PROFILES = ["microcoder", "livecodebench", "exact"];
let number = 0;

function field(label, control) {
  control.id ||= `field-${(number += 1)}`;
  return make("div", {}, make("label", { for: control.id }, label), control);
}

function select(options) {
  return make("select", {}, options.map((option) => make("option", { value: option }, option)));
}

export function show(main) {
  const program = make("textarea", { id: "program", spellcheck: "false", autocapitalize: "off", autocomplete: "off", required: true });
  const kind = select(Object.keys(KINDS));
  const entry = make("input", { spellcheck: "false", placeholder: "Solution.solve" });
  const entryField = field("Function", entry);
  const profile = select(PROFILES);
  const cpu = make("input", { type: "number", min: "0.01", max: "60", step: "any", value: "6" });
  const memory = make("input", { type: "number", min: "16", max: "4096", step: "1", value: "1024" });
  const cases = make("div");
  const error = make("p", { class: "error", role: "alert" });
  const result = make("div", { "aria-live": "polite", class: "stack" });
  const send = make("button", { type: "submit" }, "Judge it");

  function relabel() {
    for (const one of cases.children) {
      const [input, expected] = one.querySelectorAll("label");
      [input.textContent, expected.textContent] = KINDS[kind.value].labels;
      expected.parentElement.hidden = kind.value === "assertion";
      one.classList.toggle("single", kind.value === "assertion");
    }
    entryField.hidden = kind.value === "stdin";
    entry.required = kind.value === "functional";
  }

  function addCase(input = "", expected = "") {
    const fields = [make("textarea", { rows: 3, spellcheck: "false" }), make("textarea", { rows: 3, spellcheck: "false" })];
    fields[0].value = input;
    fields[1].value = expected;
    const one = make("div", { class: "case" }, field("Input", fields[0]), field("Expected output", fields[1]));
    one.append(make("button", { type: "button", class: "quiet", onclick: () => cases.children.length > 1 && one.remove() }, "Remove"));
    cases.append(one);
    relabel();
    return fields[0];
  }

  // The example of the kind, unless there is a program of somebody's own.
  function showExample() {
    if (program.value && !Object.values(KINDS).some((one) => one.program === program.value)) return;
    program.value = KINDS[kind.value].program;
    entry.value = KINDS[kind.value].entry;
    cases.replaceChildren();
    addCase(...KINDS[kind.value].first);
  }

  function body() {
    const tests = [...cases.children].map((one) => {
      const [input, expected] = [...one.querySelectorAll("textarea")].map((area) => area.value);
      return { kind: kind.value, input, ...(kind.value === "assertion" || expected === "" ? {} : { expected }) };
    });
    const point = kind.value === "stdin" || !entry.value.trim() ? {} : { entry_point: entry.value.trim() };
    return {
      submission: { program: { source: program.value, ...point } },
      suite: { tests },
      limits: { cpu_seconds: Number(cpu.value), memory_bytes: Number(memory.value) * (1 << 20) },
      policy: { profile: profile.value },
      fail_fast: false,
    };
  }

  async function judge(event) {
    event.preventDefault();
    if (send.disabled) return;
    send.disabled = true;
    error.textContent = "";
    result.replaceChildren();
    send.textContent = "Judging…";
    try {
      const { id } = await post("/page/evaluations", body());
      let state = "queued";
      while (!["done", "cancelled"].includes(state) && form.isConnected) {
        ({ state } = await ask(`/v1/evaluations/${id}?wait=20&detail=summary`));
      }
      const judgement = await ask(`/page/evaluations/${id}/0`);
      const turn = async (first) => drawResult(await ask(`/page/evaluations/${id}/0?first=${first}`));
      const drawResult = (found) => result.replaceChildren(
        make("div", { class: "row" }, make("h2", { tabindex: -1 }, "Result"), make("a", { href: `#/evaluations/${id}/0` }, "its own address")),
        draw(found, turn));
      drawResult(judgement);
      result.querySelector("h2").focus({ preventScroll: true });
      result.scrollIntoView({ behavior: "auto", block: "nearest" });
    } catch (refused) {
      error.textContent = refused.message;
    } finally {
      send.disabled = false;
      send.textContent = "Judge it";
    }
  }

  const form = make("form", { class: "try", onsubmit: judge },
    make("section", { class: "card" }, field("Program (Python)", program)),
    make("section", { class: "card" },
      make("div", { class: "fields" }, field("Tests", kind), entryField, field("Comparison", profile),
        field("CPU seconds", cpu), field("Memory, MiB", memory)),
      make("fieldset", {}, make("legend", { class: "label" }, "Test cases"), cases),
      make("div", { class: "row" }, send,
        make("button", { type: "button", class: "quiet", onclick: () => addCase().focus() }, "Add a test"),
        make("span", { class: "soft small optional" }, "Ctrl+Enter judges")),
      error));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  kind.addEventListener("change", () => {
    showExample();
    relabel();
  });
  showExample();
  main.replaceChildren(make("h1", { tabindex: -1 }, "Try a program"), make("div", { class: "stack" }, form, result));
}
