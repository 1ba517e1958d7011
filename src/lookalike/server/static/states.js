// What a view shows while it waits, when it has nothing, and when something went wrong.
import { alive } from "./api.js";
import { button, h } from "./dom.js";
import { link } from "./router.js";

/** The head of a view: a way back up, its heading, a sentence, and what can be done beside it. */
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

/** A heading, a sentence and what can be done. */
export function plate(heading, text, ...actions) {
  return h(
    "section",
    { class: "plate" },
    h("h1", {}, heading),
    h("p", {}, text),
    actions.length ? h("p", { class: "actions" }, actions) : null,
  );
}

/** The same inside a view that has a heading already. */
export function empty(text, ...actions) {
  return h("div", { class: "empty" }, h("p", {}, text), actions.length ? h("p", { class: "actions" }, actions) : null);
}

export function waiting(text = "One moment…") {
  return h(
    "div",
    { class: "waiting", role: "status" },
    h("span", { class: "spinner", "aria-hidden": "true" }),
    h("p", {}, text),
  );
}

/** A problem as a view of its own; when the server is gone, it looks for it and goes on by itself. */
export function failed(problem, again, signal) {
  const retry = button("undo", "Try again", again, { class: "main" });
  const home = h(
    "a",
    { class: "button", href: link("pictures", "", { with: null, without: null }) },
    "To all pictures",
  );
  if (problem.kind === "gone") {
    const look = setInterval(async () => (await alive()) && again(), 2000);
    signal.addEventListener("abort", () => clearInterval(look));
    return plate("Nobody answers", problem.message, retry);
  }
  if (problem.status === 404) return plate("There is nothing here", problem.message, home);
  if (problem.status === 403) return plate("That is not yours to see", problem.message, home);
  return plate("That did not work", problem.message, retry, home);
}
