// The tray: the positive and negative examples in the address, with buttons to search or start a session.
import { portrait } from "./api.js";
import { may } from "./collection.js";
import { button, h, icon } from "./dom.js";
import { both, format } from "./examples.js";
import { amend, go, link, read } from "./router.js";
import { startSession } from "./start_session.js";

const SHOWN_IN = ["pictures", "item", "search", "map", "class"];

/** Add an example to the list `side`, "with" or "without", of the address, and remove it from the other list. */
export function put(example, side) {
  const text = format(example);
  const other = side === "with" ? "without" : "with";
  const { query } = read();
  const mine = new Set(query.getAll(side)).add(text);
  go(amend({ [side]: [...mine], [other]: query.getAll(other).filter((one) => one !== text) }));
}

function chip(example, side) {
  const text = format(example);
  const rest = read()
    .query.getAll(side)
    .filter((one) => one !== text);
  const role = side === "with" ? "positive" : "negative";
  const image = h("img", { src: portrait(example), alt: `${role === "positive" ? "Positive" : "Negative"} example` });
  return h(
    "li",
    { class: side },
    image,
    h("span", { class: "sign" }, icon(side === "with" ? "plus" : "minus")),
    button("no", `Remove this ${role} example`, () => go(amend({ [side]: rest })), { quiet: true, class: "take" }),
  );
}

export function show(route) {
  const tray = document.getElementById("tray");
  const { positive, negative } = both(route.query);
  tray.hidden = !SHOWN_IN.includes(route.view) || positive.length + negative.length === 0;
  document.body.classList.toggle("has-tray", !tray.hidden);
  if (tray.hidden) return tray.replaceChildren();
  const chips = h(
    "ul",
    { role: "list" },
    positive.map((one) => chip(one, "with")),
    negative.map((one) => chip(one, "without")),
  );
  const search = h(
    "a",
    { class: route.view === "search" ? "button" : "button main", href: link("search") },
    icon("search"),
    h("span", {}, "Search"),
  );
  const learn =
    may("judge") &&
    button("session", "Start a session", () => startSession({ examples: positive, without: negative }), {
      disabled: !positive.length,
      class: route.view === "search" ? "main" : null,
    });
  const clear = button(null, "Clear", () => go(route.view === "search" ? "#/" : amend({ with: null, without: null })), {
    class: "plain",
  });
  return tray.replaceChildren(
    chips,
    h("div", { class: "actions" }, route.view === "search" ? null : search, learn, clear),
  );
}
