// The tray: the positive and negative pictures and words in the address, with buttons to search or start a session.
import { portrait } from "./api.js";
import { may } from "./collection.js";
import { button, h, icon } from "./dom.js";
import { examplesIn, format } from "./examples.js";
import { keptFilters } from "./filters.js";
import { many } from "./format.js";
import { say } from "./notify.js";
import { amend, go, link, NO_EXAMPLES, read } from "./router.js";
import { startSession } from "./start_session.js";

const SHOWN_IN = ["pictures", "item", "search", "saved", "map", "class"];
let isOpen = false; // whether the tray is open, on phones; otherwise it is one line
const NAME_LETTERS = 200; // characters of the name of a class, at most

/** Add an example to the list `side`, "with" or "without", of the address, and remove it from the other list. */
export function put(example, side) {
  const text = format(example);
  const other = side === "with" ? "without" : "with";
  const { query } = read();
  const mine = new Set(query.getAll(side)).add(text);
  go(amend({ [side]: [...mine], [other]: query.getAll(other).filter((one) => one !== text) }));
  say(`Added as a ${side === "with" ? "positive" : "negative"} example.`);
}

/** Show in the tile of a grid whether its picture is in the tray. */
export function drawMark(tile) {
  const { query } = read();
  const sides = { with: ["yes", "plus", "Positive"], without: ["no", "minus", "Negative"] };
  const side = Object.keys(sides).find((one) => query.getAll(one).includes(tile.dataset.example));
  const pic = tile.querySelector(".pic");
  const [mark, drawing, words] = sides[side] ?? [];
  tile.querySelector(".badge")?.remove();
  tile.dataset.mark = mark ?? "none";
  const name = pic.ariaLabel.replace(/, (posi|nega)tive example$/, "");
  pic.ariaLabel = mark ? `${name}, ${words.toLowerCase()} example` : name;
  if (mark) pic.append(h("span", { class: `badge ${mark}` }, icon(drawing), words));
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

/** A chip of words, with buttons to make it negative or positive, and to remove it. */
function wordChip(text, side) {
  const other = side === "words" ? "without_words" : "words";
  const { query } = read();
  const rest = query.getAll(side).filter((one) => one !== text);
  const flipped = { [side]: rest, [other]: [...new Set([...query.getAll(other), text])] };
  const isPositive = side === "words";
  return h(
    "li",
    { class: isPositive ? "with phrase" : "without phrase" },
    button(
      isPositive ? "plus" : "minus",
      isPositive ? `Positive words; make “${text}” negative` : `Negative words; make “${text}” positive`,
      () => go(amend(flipped)),
      { quiet: true, class: "sign" },
    ),
    h("span", {}, isPositive ? text : `not ${text}`),
    button("no", `Remove the words “${text}”`, () => go(amend({ [side]: rest })), { quiet: true, class: "plain" }),
  );
}

/** Start a session from all examples, named after the words. */
function learnFrom({ positive, negative, words, withoutWords }) {
  return startSession({
    examples: positive,
    words,
    without: negative,
    without_words: withoutWords,
    name: words.join(", ").slice(0, NAME_LETTERS),
  });
}

export function show(route) {
  const tray = document.getElementById("tray");
  const buttons = () => [...tray.querySelectorAll("button, a")];
  const focused = buttons().indexOf(document.activeElement);
  draw(tray, route);
  for (const tile of document.querySelectorAll("main [data-example]")) drawMark(tile);
  if (focused >= 0) (buttons()[focused] ?? buttons().at(-1) ?? document.getElementById("main")).focus();
}

function draw(tray, route) {
  const examples = examplesIn(route.query);
  const { positive, negative, words, withoutWords } = examples;
  tray.hidden = !SHOWN_IN.includes(route.view) || !Object.values(examples).some((list) => list.length);
  document.body.classList.toggle("has-tray", !tray.hidden);
  if (tray.hidden) return tray.replaceChildren();
  const chips = h(
    "ul",
    { role: "list" },
    words.map((text) => wordChip(text, "words")),
    positive.map((one) => chip(one, "with")),
    withoutWords.map((text) => wordChip(text, "without_words")),
    negative.map((one) => chip(one, "without")),
  );
  const search = h(
    "a",
    {
      class: route.view === "search" ? "button" : "button main",
      href: link("search", "", keptFilters()),
      "aria-label": "Search with your examples",
    },
    icon("search"),
    h("span", {}, "Search"),
  );
  const learn =
    may("judge") &&
    button("session", "Start a session", () => learnFrom(examples), {
      "aria-label": "Start a session with your examples",
      disabled: !positive.length && !words.length,
      class: route.view === "search" ? "main" : null,
    });
  const clear = button(null, "Clear", () => go(route.view === "search" ? "#/" : amend(NO_EXAMPLES)), {
    class: "plain",
  });
  const number = chips.children.length;
  const first = positive[0] ?? negative[0];
  const toggle = h(
    "button",
    {
      type: "button",
      class: "toggle plain",
      "aria-expanded": isOpen,
      onclick: () => {
        isOpen = tray.classList.toggle("open");
        toggle.setAttribute("aria-expanded", isOpen);
      },
    },
    first ? h("img", { src: portrait(first), alt: "" }) : icon("search"),
    h("span", {}, many(number, "example")),
    icon("up"),
  );
  tray.classList.toggle("open", isOpen);
  return tray.replaceChildren(
    toggle,
    chips,
    h("div", { class: "actions" }, route.view === "search" ? null : search, learn, clear),
  );
}
