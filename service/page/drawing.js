// What every view is drawn with. Text goes in as text, never as HTML.

export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

export function count(value) {
  return Math.round(value).toLocaleString("en");
}

export function seconds(value) {
  if (value < 0.00005) return "under 0.1 ms";
  if (value < 0.9995) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  return `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

export function bytes(value) {
  if (value < 1 << 20) return `${Math.round(value / 1024)} KiB`;
  const mebibytes = value / (1 << 20);
  return `${mebibytes.toFixed(mebibytes < 10 ? 1 : 0)} MiB`;
}

export function ago(moment) {
  const passed = Math.max(0, Date.now() / 1000 - moment);
  if (passed < 90) return `${Math.round(passed)} s ago`;
  if (passed < 5400) return `${Math.round(passed / 60)} min ago`;
  return `${Math.round(passed / 3600)} h ago`;
}

const ORDER = [
  "accepted", "wrong_answer", "time_limit", "memory_limit", "output_limit", "runtime_error", "compile_error", "no_code",
  "skipped", "cancelled", "internal_error",
];

export function words(verdict) {
  return verdict.replaceAll("_", " ");
}

function colour(element, verdict) {
  element.style.background = `var(--${ORDER.includes(verdict) ? verdict : "no_code"})`;
  return element;
}

export function badge(verdict) {
  if (verdict == null) return make("span", { class: "soft" }, "not judged yet");
  return make("span", { class: "badge" }, colour(make("i", { class: "dot" }), verdict), words(verdict));
}

// [verdict, count] pairs, the usual order of verdicts.
export function ordered(verdicts) {
  const place = ([verdict]) => (ORDER.indexOf(verdict) + 1 || 99);
  return Object.entries(verdicts).sort((one, other) => place(one) - place(other));
}

export function shares(verdicts, total, thin = false) {
  const found = ordered(verdicts);
  const label = found.map(([verdict, number]) => `${words(verdict)}: ${count(number)}`).join(", ") || "nothing judged yet";
  const bar = make("div", { class: thin ? "shares thin" : "shares", role: "img", "aria-label": label, title: label });
  for (const [verdict, number] of found) {
    const part = colour(make("i"), verdict);
    part.style.width = `${(100 * number) / Math.max(1, total)}%`;
    bar.append(part);
  }
  return bar;
}

export function legend(verdicts) {
  const total = Object.values(verdicts).reduce((sum, number) => sum + number, 0);
  const rows = ordered(verdicts).map(([verdict, number]) => make("li", {},
    colour(make("i", { class: "dot" }), verdict), words(verdict), make("span", { class: "grow" }),
    make("span", { class: "numbers" }, `${count(number)} · ${((100 * number) / total).toFixed(1)} %`)));
  return make("ul", { class: "legend" }, rows);
}

export function table(heads, rows) {
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, heads.map(([text, kind]) => make("th", { scope: "col", class: kind }, text)))),
    make("tbody", {}, rows)));
}

export function card(title, ...children) {
  return make("section", { class: "card" }, title && make("h2", {}, title), children);
}
