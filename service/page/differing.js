// Where expected and found first differ, marked in both.

import { make } from "./drawing.js";

const POSITION = /^line (\d+)(?:, token (\d+))?/;

// Start and end of the token, or of the line, that a position names. Null: the text has no such place.
function locate(text, position) {
  const found = POSITION.exec(position ?? "");
  if (!found) return null;
  let start = 0;
  for (let line = 1; line < Number(found[1]); line += 1) {
    start = text.indexOf("\n", start) + 1;
    if (start === 0) return null;
  }
  const end = text.indexOf("\n", start) < 0 ? text.length : text.indexOf("\n", start);
  if (!found[2]) return [start, end];
  const tokens = [...text.slice(start, end).matchAll(/\S+/g)];
  const token = tokens[Number(found[2]) - 1];
  return token ? [start + token.index, start + token.index + token[0].length] : null;
}

// The places where two texts first differ, their spaces passed over: `[1, 2]` is `[1,2]`.
function firstDifference(one, other) {
  let [here, there] = [0, 0];
  for (;;) {
    while (/\s/.test(one[here] ?? "")) here += 1;
    while (/\s/.test(other[there] ?? "")) there += 1;
    if (here >= one.length || there >= other.length || one[here] !== other[there]) return [here, there];
    here += 1;
    there += 1;
  }
}

// The token around a place.
function around(text, place) {
  let start = place, end = place;
  while (start > 0 && !/[\s,[\](){}]/.test(text[start - 1])) start -= 1;
  while (end < text.length && !/[\s,[\](){}]/.test(text[end])) end += 1;
  return [start, Math.max(end, Math.min(start + 1, text.length))];
}

function marked(text, span) {
  if (!span) return [text];
  const [start, end] = span;
  if (start >= text.length || start === end) return [text.slice(0, start), make("mark", {}, "⌀"), text.slice(start)];
  return [text.slice(0, start), make("mark", {}, text.slice(start, end)), text.slice(end)];
}

// What was found, out of the quotes that tell it from words like "the end of the output".
function bare(found) {
  return /^'[^]*'$/.test(found) ? found.slice(1, -1) : found;
}

// The contents of two panels. `output` may be missing: then only what was found at the place is known.
export function compare(wanted, output, match) {
  if (!match || match.matched || match.position === "checker") return [[wanted ?? ""], [output ?? match?.found ?? ""]];
  if (output == null) return [marked(wanted ?? "", locate(wanted ?? "", match.position)), [make("mark", {}, bare(match.found ?? ""))]];
  let spans = [locate(wanted, match.position), locate(output, match.position)];
  if (!spans[0] && !spans[1]) {
    const [here, there] = firstDifference(wanted, output);
    spans = [around(wanted, here), around(output, there)];
  }
  return [marked(wanted, spans[0] ?? [wanted.length, wanted.length]), marked(output, spans[1] ?? [output.length, output.length])];
}
