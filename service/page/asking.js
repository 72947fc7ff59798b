// Requests to the service that serves this page, with its key where it asks for one.

const KEY = "microcoder-key";
const dialog = document.getElementById("key");
const input = document.getElementById("key-input");
const error = document.getElementById("key-error");
const forget = document.getElementById("forget");
let waiting = null;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

forget.addEventListener("click", () => {
  sessionStorage.removeItem(KEY);
  location.reload();
});
dialog.addEventListener("cancel", (event) => event.preventDefault());

function askForKey(complaint) {
  waiting ??= new Promise((resolve) => {
    error.textContent = complaint;
    input.value = "";
    dialog.showModal();
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, input.value.trim());
      waiting = null;
      resolve();
    }, { once: true });
  });
  return waiting;
}

// The answer's document. Throws `Refused` with a sentence; waits for a key as long as one is missing.
export async function ask(path, options = {}) {
  if (document.documentElement.dataset.keyNeeded === "yes" && !sessionStorage.getItem(KEY)) await askForKey("");
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = { ...(key ? { Authorization: `Bearer ${key}` } : {}), ...options.headers };
    let response;
    try {
      response = await fetch(path, { ...options, headers, cache: "no-store" });
    } catch {
      throw new Refused(0, "The service doesn't answer.");
    }
    if (response.status === 401) {
      sessionStorage.removeItem(KEY);
      await askForKey(key ? "This key isn't known here." : "");
      continue;
    }
    forget.hidden = !key;
    const document_ = await response.json().catch(() => ({}));
    if (!response.ok) throw new Refused(response.status, document_.detail ?? `The service answered ${response.status}.`);
    return document_;
  }
}

export function post(path, body) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}
