// Keyboard shortcuts of the page and of its views, and the dialog that lists them.
import { h } from "./dom.js";
import { dialog } from "./notify.js";

const ALL = [
  [
    "Everywhere",
    [
      ["/", "go to the search box"],
      ["Ctrl + K", "go to a view, class, session, saved search or folder, or run an action"],
      ["?", "show this list"],
      ["Ctrl + Z", "undo the last change"],
      ["Esc", "close; go back from a single picture or a comparison"],
    ],
  ],
  [
    "Pictures",
    [
      ["← ↑ ↓ →", "move from picture to picture"],
      ["Enter", "open the picture"],
      ["+", "add it as a positive example"],
      ["-", "add it as a negative example"],
      ["f", "show it in full screen"],
      ["x, Space", "select it"],
      ["Shift + ↑ ↓ ← →", "select several"],
      ["Ctrl + A", "select all"],
      ["Esc", "clear the selection"],
    ],
  ],
  [
    "Single picture",
    [
      ["s", "search with it"],
      ["t", "start a session with it"],
      ["b", "select a part; arrows move it, Shift and arrows resize it"],
      ["f", "full screen"],
      ["← →", "previous picture, next picture"],
    ],
  ],
  [
    "Full screen, Compare",
    [
      ["+ - 0 1", "zoom in, zoom out, fit, 100 %"],
      ["← ↑ ↓ →", "move an enlarged picture; otherwise previous, next"],
      ["i", "details"],
      ["d", "difference of two pictures"],
    ],
  ],
  [
    "Session",
    [
      ["y", "yes, this is a match"],
      ["n", "no, it is not a match"],
      ["Space", "skip"],
      ["u", "undo"],
      ["Enter", "next round"],
      ["w", "explain why it is shown"],
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
  [
    "Map",
    [
      ["+ - 0", "zoom in, zoom out, show everything"],
      ["← ↑ ↓ →", "move from picture to picture"],
    ],
  ],
];

/** Whether the key event belongs to an input field or an open dialog. A closed one has the focus until it is removed. */
export const typing = (event) => event.target.closest?.("input, textarea, select, dialog[open]") !== null;

/** The name of the key in tables, such as "n" or "Ctrl+z"; undefined with Alt. */
const nameOf = ({ key, ctrlKey, metaKey, altKey }) =>
  altKey ? undefined : ctrlKey || metaKey ? `Ctrl+${key}` : key;

const tables = []; // newest first: a view's keys take precedence over the page's

/** Register {key: handler} until `signal` aborts. A handler that returns false passes the key on. */
export function keys(table, signal) {
  if (signal?.aborted) return; // the user has already left the view
  tables.unshift(table);
  signal?.addEventListener("abort", () => tables.splice(tables.indexOf(table), 1));
}

function press(event) {
  if (event.defaultPrevented || typing(event)) return;
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return; // it activates that element
  const name = nameOf(event);
  const matching = tables.filter((table) => Object.hasOwn(table, name));
  if (matching.some((table) => table[name](event) !== false)) event.preventDefault();
}

/** Move the focus from the page to its first visible picture, or to the map. */
function enter(event) {
  if (!event.target.matches("body, main")) return false;
  const map = document.querySelector("main [role=application]");
  if (map) return map.focus();
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
  dialog("Keyboard shortcuts", h("div", { class: "keys" }, ALL.map(part)));
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
      const focus = () => document.getElementById("search")?.focus();
      if (document.getElementById("search")) return focus();
      document.addEventListener("shown", focus, { once: true, capture: true });
      location.hash = "#/";
      return true;
    },
  });
}
