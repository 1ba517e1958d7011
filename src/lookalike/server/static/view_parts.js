// Parts that all views share: their head, and what they show while they load, if they are empty, and after an error.
import { alive } from "./api.js";
import { button, h } from "./dom.js";
import { link } from "./router.js";

/** The head of a view: a link to its parent, its heading, a sentence, and its tools. */
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
export function plate(heading, text, ...actions) {
  return h(
    "section",
    { class: "plate" },
    h("h1", {}, heading),
    h("p", {}, text),
    actions.length ? h("p", { class: "actions" }, actions) : null,
  );
}

/** A sentence and actions, inside a view that has a heading. */
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

/** An error as a whole view; if the server does not answer, it retries until it does. */
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
