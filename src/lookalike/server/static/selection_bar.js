// The bar with the actions for the selected pictures.
import { address, get, post } from "./api.js";
import { classNames } from "./class_names.js";
import { forget, may } from "./collection.js";
import { button, h } from "./dom.js";
import { count, many } from "./format.js";
import { askName, attempt, confirm, dialog, note, whileDisabled } from "./notify.js";
import { go, link, reload } from "./router.js";
import { startSession } from "./start_session.js";
import { noteUndo } from "./undo.js";

const EXAMPLES = 100; // pictures that a session starts with, at most
const ASKED = 50; // pictures whose predictions are the suggested classes
const CHIPS = 8; // suggested classes

/** Show the bar of a selection until the user leaves the view. */
export function show(selection) {
  const { ids, grid, inClass, signal } = selection;
  if (selection.onchange || signal.aborted) return;
  const summary = h("p", { class: "selected" });
  const all = button(null, "", () => selection.all(), { class: "plain" });
  const compare = button("duplicates", "Compare", () => go(link("compare", "", { id: [...ids] })), {
    title: "Compare 2 to 4 pictures",
  });
  const judge = may("judge") && [
    button("classes", "Label", () => label(selection, "Label"), { class: "main" }),
    button("plus", "New class", () => label(selection, "New class")),
    inClass && button("minus", `Remove from ${inClass}`, () => remove(selection)),
    button("session", "Start a session", () => learn([...ids])),
  ];
  const bar = h(
    "section",
    { class: "select-bar", "aria-label": "Selected pictures" },
    button("no", "Clear the selection", () => selection.clear(), { quiet: true, class: "plain" }),
    summary,
    all,
    h(
      "div",
      { class: "scroll" },
      judge,
      compare,
      button("duplicates", "Copy paths", () => attempt(() => copyPaths(ids))),
      button("out", "Download", () => download(ids)),
    ),
  );
  selection.onchange = () => {
    if (!ids.size && bar.contains(document.activeElement)) grid.focus();
    bar.hidden = !ids.size;
    document.body.classList.toggle("selecting", ids.size > 0);
    compare.disabled = ids.size < 2 || ids.size > 4;
    summary.textContent = `${count(ids.size)} selected`;
    all.lastChild.textContent = `Select all ${count(grid.total)}`;
    all.hidden = ids.size >= grid.total;
  };
  signal.addEventListener("abort", () => {
    bar.remove();
    document.body.classList.remove("selecting");
  });
  document.getElementById("tray").after(bar);
  selection.onchange();
}

/** Change the labels of the selected pictures, report it, and show the view again. */
async function change(selection, verb, name, text) {
  const answer = await post(`/classes/${verb}`, { name, items: [...selection.ids] });
  selection.clear();
  forget();
  const words = `${text} ${answer.name}: ${many(answer.count, "picture")}.`;
  noteUndo(words, answer.action);
  reload();
  return true;
}

async function label(selection, words) {
  const examples = [...selection.ids].slice(0, ASKED).map((id) => ({ id }));
  const chips = h("div", { class: "chips" });
  const add = (name) => attempt(() => change(selection, "add", name, "Added to").then(() => box.close()));
  const heading = `${words === "Label" ? words : `${words} with`} ${many(selection.ids.size, "picture")}`;
  const box = askName(heading, words, add, { label: "Class name", list: "label-names", before: [chips, classNames("label-names")] });
  if (words !== "Label") return;
  const [classes, found] = await Promise.all([
    get("/classes").catch(() => []),
    post("/classify", { examples }).catch(() => []),
  ]);
  const votes = new Map();
  for (const one of found) if (one.label) votes.set(one.label, (votes.get(one.label) ?? 0) + 1);
  const rank = ({ name, pictures }) => (votes.get(name) ?? 0) * 1e9 + pictures;
  classes.sort((a, b) => rank(b) - rank(a));
  chips.append(
    ...classes.slice(0, CHIPS).map(({ name }) =>
      button(votes.has(name) ? "yes" : null, name, ({ currentTarget }) => whileDisabled(currentTarget, () => add(name)), {
        title: votes.has(name) ? `Suggested for ${many(votes.get(name), "picture")}` : null,
      }),
    ),
  );
}

function remove(selection) {
  const { ids, inClass } = selection;
  const act = () => change(selection, "remove", inClass, "Removed from");
  confirm(`Remove ${many(ids.size, "picture")} from ${inClass}?`, "They stay in the collection.", "Remove", act);
}

function learn(ids) {
  if (ids.length > EXAMPLES) note(`The session starts with the first ${EXAMPLES} of them.`);
  return startSession({ examples: ids.slice(0, EXAMPLES).map((id) => ({ id })) });
}

/** The URL of something about a selection. The server stores the ids first: a URL is too short for many of them. */
async function stored(ids, what, query) {
  const { selection } = await post("/selections", { items: [...ids] });
  return address(`/selections/${selection}/${what}`, query);
}

async function copyPaths(ids) {
  const text = await (await fetch(await stored(ids, "export", { format: "paths" }))).text();
  try {
    await navigator.clipboard.writeText(text);
    note(`Copied the paths of ${many(ids.size, "picture")}.`);
  } catch {
    dialog("Paths", h("textarea", { rows: 12, readonly: true, "aria-label": "Paths" }, text)); // copying is not allowed
  }
}

/** Offer to download these pictures, as files or as a list. */
export function download(ids) {
  const choice = (words, what, query) => {
    const save = async () => {
      h("a", { href: await stored(ids, what, query), download: "" }).click();
      box.close();
    };
    return button("out", words, () => attempt(save), { disabled: what === "zip" && ids.size > 10_000 });
  };
  const box = dialog(
    `Download ${many(ids.size, "picture")}`,
    h(
      "div",
      { class: "actions" },
      choice("Original files (zip)", "zip", { size: "original" }),
      choice("Screen size (zip)", "zip", { size: "screen" }),
      choice("Table (CSV)", "export", { format: "csv" }),
      choice("JSON", "export", { format: "json" }),
    ),
  );
}
