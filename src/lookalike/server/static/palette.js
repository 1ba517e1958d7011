// The command palette on Ctrl+K: go to a view, class, session, saved search or folder, run an action, or search.
import { get, post } from "./api.js";
import { collection, may } from "./collection.js";
import { h } from "./dom.js";
import { parseWords } from "./examples.js";
import { last, many } from "./format.js";
import { showKeys } from "./keyboard.js";
import { attempt, dialog } from "./notify.js";
import { go, link, NO_EXAMPLES } from "./router.js";
import { switchTheme } from "./theme_switch.js";

const SHOWN = 30; // entries
const NAME = "Go to"; // of the dialog and its field

const JOBS = [
  ["Check for changes", "refresh", "manage"],
  ["Suggest classes", "classify", "judge"],
  ["Evaluate the classes", "evaluate", "judge"],
];

/** Entries of the lists that cannot be loaded are left out. */
const load = (path) => get(path).catch(() => []);

/** All entries: {kind, name, note, run}. */
async function entries(places) {
  const paths = ["/classes", "/sessions", "/saved", "/folders?nested=true"];
  const [classes, sessions, searches, { folders = [] }] = await Promise.all(paths.map(load));
  await collection(); // for the role
  const to = (kind, name, hash, note = "") => ({ kind, name, note, run: () => go(hash) });
  const job = ([name, kind]) => ({
    kind: "Action",
    name,
    note: "",
    run: () => attempt(async () => (await post("/jobs", { kind }), go(link("jobs")))),
  });
  return [
    ...[...places, ["history", "History"]].map(([view, name]) => to("View", name, link(view))),
    ...classes.map(({ name, pictures }) => to("Class", name, link("class", name), many(pictures, "picture"))),
    ...sessions.map(({ id, name, label }) => to("Session", label ?? name ?? "Untitled session", link("session", id))),
    ...searches.map(({ id, name }) => to("Saved", name, link("saved", id, NO_EXAMPLES))),
    ...folders.map(({ path, n }) => to("Folder", path, link("pictures", "", { folder: path }), many(n, "picture"))),
    ...JOBS.filter(([, , role]) => may(role)).map(job),
    { kind: "Action", name: "Switch between light and dark", note: "", run: switchTheme },
    { kind: "Action", name: "Show keyboard shortcuts", note: "", run: showKeys },
  ];
}

/** The entries that contain every typed word, those whose name, or its last part, starts with the text first; then a search. */
function matching(all, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter(({ kind, name }) => words.every((word) => `${kind} ${name}`.toLowerCase().includes(word)));
  const starts = ({ name }) => [name, last(name)].some((one) => one.toLowerCase().startsWith(words.join(" ")));
  found.sort((a, b) => starts(b) - starts(a));
  const search = { kind: "Search", name: `“${text}”`, note: "", run: () => go(link("search", "", parseWords(text))) };
  return [...found.slice(0, SHOWN), ...(words.length ? [search] : [])];
}

/** Open the palette; `places` are pairs of a view and its name. */
export async function openPalette(places) {
  if (document.querySelector("dialog[open]")) return;
  let [all, shown, active, moved] = [[], [], 0, false];
  const list = h("ul", { id: "palette", role: "listbox", "aria-label": "Matches" });
  const field = h("input", {
    type: "text",
    role: "combobox",
    "aria-label": NAME,
    "aria-controls": "palette",
    "aria-expanded": "true",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "A view, class, session, saved search, folder or action",
  });
  const run = ({ run: act }) => {
    box.close();
    act();
  };
  const activate = (index) => {
    active = index;
    for (const [at, option] of [...list.children].entries()) option.setAttribute("aria-selected", at === index);
    field.setAttribute("aria-activedescendant", shown.length ? `entry-${index}` : "");
    list.children[index]?.scrollIntoView({ block: "nearest" });
  };
  const option = (entry, index) =>
    h(
      "li",
      { id: `entry-${index}`, role: "option", onclick: () => run(entry) },
      h("span", { class: "quiet" }, entry.kind),
      h("b", {}, entry.name),
      h("span", { class: "quiet" }, entry.note),
    );
  const draw = () => {
    const kept = moved ? shown[active] : undefined;
    shown = matching(all, field.value.trim());
    list.replaceChildren(...shown.map(option));
    activate(Math.max(0, shown.findIndex(({ kind, name }) => kind === kept?.kind && name === kept.name)));
  };
  field.addEventListener("input", () => {
    moved = false;
    draw();
  });
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) {
      moved = true; // entries that are loaded later do not change the choice
      activate((active + step + shown.length) % shown.length);
    } else if (event.key === "Enter" && shown[active]) run(shown[active]);
    else return;
    event.preventDefault();
  });
  const box = dialog(NAME, field, list);
  box.classList.add("palette");
  field.focus();
  all = await entries(places);
  draw();
}
