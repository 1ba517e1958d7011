// Parts that all views share: the header, and the loading, empty and error states.
import { alive } from "./api.js";
import { button, h } from "./dom.js";
import { link, NO_EXAMPLES } from "./router.js";

/** The header of a view: a link to its parent, a heading, a sentence, and tools. */
export function lead(heading, text, { up = null, tools = [] } = {}) {
  return h(
    "header",
    { class: "lead" },
    h(
      "div",
      {},
      up && h("p", { class: "crumb" }, h("a", { href: link(up) }, `${up[0].toUpperCase()}${up.slice(1)}`)),
      h("h1", {}, heading),
      text instanceof Node ? text : text && h("p", { class: "quiet" }, text),
    ),
    tools,
  );
}

/** A heading, a sentence and actions, as a whole view. */
export function notice(heading, text, ...actions) {
  return h(
    "section",
    { class: "notice" },
    h("h1", {}, heading),
    h("p", {}, text),
    actions.length ? h("p", { class: "actions" }, actions) : null,
  );
}

/** A sentence and actions, inside a view that has a heading. */
export function empty(text, ...actions) {
  return h("div", { class: "empty" }, h("p", {}, text), actions.length ? h("p", { class: "actions" }, actions) : null);
}

export function waiting(text = "Loading…") {
  return h(
    "div",
    { class: "waiting", role: "status" },
    h("span", { class: "spinner", "aria-hidden": "true" }),
    h("p", {}, text),
  );
}

/** A button that opens a menu. A choice, Escape, and a click or the focus elsewhere close it. */
export function menu(words, entries) {
  const summary = h("summary", { class: "button" }, words);
  const list = entries.map((entry) => h("li", {}, entry));
  const element = h("details", { class: "menu" }, summary, h("ul", {}, list));
  const close = () => (element.open = false);
  const escape = (event) => {
    if (event.key !== "Escape" || !element.open) return;
    event.preventDefault();
    close();
    summary.focus();
  };
  const leave = ({ target }) => element.contains(target) || close();
  let closed = new AbortController();
  const choose = ({ target }) => {
    if (!target.closest("li")) return;
    close();
    summary.focus(); // a dialog that the choice opens returns the focus there
  };
  element.addEventListener("click", choose, { capture: true });
  element.addEventListener("keydown", escape);
  element.addEventListener("toggle", () => {
    closed.abort();
    if (!element.open) return;
    closed = new AbortController();
    for (const name of ["pointerdown", "focusin"]) document.addEventListener(name, leave, closed);
  });
  return element;
}

/** An error as a whole view. If the server cannot be reached, it retries until it responds. */
export function failed(problem, again, signal) {
  const retry = button("undo", "Try again", again, { class: "main" });
  const home = h("a", { class: "button", href: link("pictures", "", NO_EXAMPLES) }, "Show all pictures");
  if (problem.kind === "unreachable") {
    const poll = setInterval(async () => (await alive()) && again(), 2000);
    signal.addEventListener("abort", () => clearInterval(poll));
    return notice("Cannot reach the server", problem.message, retry);
  }
  if (problem.status === 404) return notice("Not found", problem.message, home);
  if (problem.status === 403) return notice("Access denied", problem.message, home);
  return notice("Something went wrong", problem.message, retry, home);
}
