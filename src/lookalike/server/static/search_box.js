// The search box: words, with suggestions for the words at the cursor, or a picture.
import { get } from "./api.js";
import { button, h, icon } from "./dom.js";
import { parseWords } from "./examples.js";
import { keptFilters } from "./filters.js";
import { amend, go, link, read } from "./router.js";
import { picker, searchWith } from "./upload.js";

const PAUSE_MS = 150; // after the last key, before suggestions are requested
const LETTERS = 2; // minimum length of a text that gets suggestions
const MAX_LETTERS = 200; // the server rejects longer texts
const WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}'’-]*$/u;

/** The box, filled with `text`. Submitted words replace those in the address; pictures are kept. */
export function searchBox(text, signal) {
  const field = h("input", {
    id: "search",
    type: "text",
    role: "combobox",
    placeholder: "Search by words or picture",
    "aria-label": "Search by words",
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": "suggestions",
    autocomplete: "off",
    autocapitalize: "off",
    enterkeyhint: "search",
    maxlength: MAX_LETTERS, // a text in the address of the page can be longer
    value: text,
  });
  const submit = (event) => {
    event.preventDefault();
    const words = parseWords(field.value);
    if (read().view === "search") go(amend(words));
    else if (field.value.trim()) go(link("search", "", { ...keptFilters(), ...words }));
  };
  return h(
    "form",
    { class: "search-box", role: "search", onsubmit: submit },
    h("div", { class: "field" }, icon("search"), field, suggestions(field, signal)),
    picker("Search with a picture", searchWith, { drawing: "pictures", quiet: true }),
    button("search", "Search", null, { type: "submit", class: "main" }),
  );
}

/** The list of suggestions below the field. */
function suggestions(field, signal) {
  const list = h("ul", { id: "suggestions", role: "listbox", "aria-label": "Suggestions", hidden: true });
  let pause = 0;
  let active = -1; // index of the selected suggestion
  let latest = 0; // number of the last request

  const activate = (index) => {
    active = index;
    for (const [at, option] of [...list.children].entries()) option.setAttribute("aria-selected", at === index);
    if (index < 0) return field.removeAttribute("aria-activedescendant");
    field.setAttribute("aria-activedescendant", list.children[index].id);
    return list.children[index].scrollIntoView({ block: "nearest" });
  };
  const close = () => {
    clearTimeout(pause);
    latest += 1;
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    activate(-1);
  };
  const choose = (word) => {
    const typed = replacedBy(word, typedText(field));
    field.setRangeText(word, field.selectionStart - typed.length, field.selectionStart, "end");
    close();
  };
  const open = async () => {
    close();
    const typed = typedText(field);
    if (typed.length < LETTERS || typed.length > MAX_LETTERS) return;
    const request = latest;
    const { words } = await get("/words", { prefix: typed }, signal).catch(() => ({ words: [] })); // only suggestions
    const useful = words.filter((word) => !typed.endsWith(word));
    if (request !== latest || !useful.length || document.activeElement !== field) return;
    const option = (word, index) =>
      h("li", { id: `suggestion-${index}`, role: "option", onclick: () => choose(word) }, word);
    list.replaceChildren(...useful.map(option));
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    activate(-1);
  };
  const move = (by) => {
    if (list.hidden) return open();
    const places = list.children.length + 1; // one more: no suggestion
    return activate(((active + 1 + by + places) % places) - 1);
  };
  field.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(open, PAUSE_MS);
  });
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") move(1);
    else if (event.key === "ArrowUp") move(-1);
    else if (event.key === "Enter" && active >= 0) choose(list.children[active].textContent);
    else if (event.key === "Escape" && !list.hidden) close();
    else return;
    event.preventDefault();
  });
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the focus stays in the field
  return list;
}

/** The text before the cursor if it ends in a word, otherwise nothing. */
function typedText({ value, selectionStart: end }) {
  const text = value.slice(0, end).trimStart();
  return WORD.test(text) && !/^[\p{L}\p{N}]/u.test(value.slice(end)) ? text : "";
}

/** The end of the text that a suggestion replaces: the words that it starts with, or the last word. */
function replacedBy(word, text) {
  const starts = [...text.matchAll(/(?<![\p{L}\p{N}])[\p{L}\p{N}]/gu)].map(({ index }) => text.slice(index));
  return starts.find((start) => word.toLowerCase().startsWith(start.toLowerCase())) ?? WORD.exec(text)[0];
}
