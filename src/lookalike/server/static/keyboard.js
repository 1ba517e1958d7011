// Keyboard shortcuts: those of the whole page, those of a view, and the list of all.
import { h } from "./dom.js";
import { dialog } from "./notify.js";

const ALL = [
  [
    "Everywhere",
    [
      ["/", "to the search box"],
      ["?", "this list"],
      ["Esc", "close; back from a large picture"],
    ],
  ],
  [
    "Pictures",
    [
      ["← ↑ ↓ →", "move from picture to picture"],
      ["Enter", "open the picture"],
      ["+", "add it to your examples"],
      ["-", "add it as what you do not want"],
    ],
  ],
  [
    "Large picture",
    [
      ["s", "search with it"],
      ["t", "start a session with it"],
      ["b", "choose a part; arrows move it, Shift and arrows size it"],
      ["← →", "the one before, the one after"],
    ],
  ],
  [
    "Session",
    [
      ["y", "yes, that is it"],
      ["n", "no, it is not"],
      ["Space", "skip: cannot say"],
      ["u", "undo"],
      ["Enter", "next round"],
      ["w", "why this one?"],
      ["o", "open the picture"],
    ],
  ],
  [
    "Class",
    [
      ["y", "confirm a suggestion"],
      ["n", "reject it"],
    ],
  ],
];

/** Whether a key is meant for a field or a dialog. */
export const typing = (event) => event.target.closest?.("input, textarea, select, dialog") !== null;

const plain = (event) => !event.ctrlKey && !event.metaKey && !event.altKey;

const tables = []; // the newest first: a view's own keys come before those of the page

/** Keys of a view: {key: what to do}, as long as it is shown; what returns false leaves the key to others. */
export function keys(table, signal) {
  if (signal?.aborted) return; // another view was asked for meanwhile
  tables.unshift(table);
  signal?.addEventListener("abort", () => tables.splice(tables.indexOf(table), 1));
}

function press(event) {
  if (event.defaultPrevented || typing(event) || !plain(event)) return;
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return; // it means that one
  const meant = tables.filter((table) => Object.hasOwn(table, event.key));
  if (meant.some((table) => table[event.key](event) !== false)) event.preventDefault();
}

/** From the page itself into its pictures: to the first one in sight. */
function enter(event) {
  if (!event.target.matches("body, main")) return false;
  const below = document.getElementById("top").offsetHeight;
  const all = [...document.querySelectorAll("main [role=grid] [data-focus]")];
  const target = all.find((one) => one.checkVisibility() && one.getBoundingClientRect().top >= below);
  target?.focus();
  return target !== undefined;
}

export function showKeys() {
  const part = ([heading, rows]) =>
    h(
      "section",
      {},
      h("h3", {}, heading),
      h(
        "dl",
        {},
        rows.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what))),
      ),
    );
  dialog("Keys", h("div", { class: "keys" }, ALL.map(part)));
}

export function listen() {
  addEventListener("keydown", press);
  keys({
    ArrowDown: enter,
    ArrowUp: enter,
    ArrowLeft: enter,
    ArrowRight: enter,
    "?": showKeys,
    "/": () => {
      const field = document.querySelector("input[type=search]");
      if (field) field.focus();
      else location.hash = "#/";
    },
  });
}
