// The view of one picture: search with it or a part of it, start a session, and see its classes, what the network
// recognizes, details and similar pictures.
import { get, image, post, SCREEN } from "./api.js";
import { BoxSelector } from "./box_selector.js";
import { classNames } from "./class_names.js";
import { collection, may } from "./collection.js";
import { button, h } from "./dom.js";
import { format } from "./examples.js";
import { facts } from "./facts.js";
import { isEarly, likely, title } from "./format.js";
import { listWith, neighbour } from "./grid_neighbours.js";
import { keys } from "./keyboard.js";
import { attempt } from "./notify.js";
import { PictureList } from "./picture_list.js";
import { amend, go, link, NO_EXAMPLES, replace } from "./router.js";
import { startSession } from "./start_session.js";
import { linkTile } from "./tile.js";
import { put } from "./tray.js";
import { noteUndo } from "./undo.js";
import { openViewer } from "./viewer.js";

const SIMILAR = 12;
const KINDS = 5; // kinds shown, at most
const LEAST = 0.05; // their probability, at least

export async function show({ arg: id, query }, signal) {
  const about = await collection(signal);
  const [item, kinds] = await Promise.all([
    get(`/items/${id}`, {}, signal),
    get(`/items/${id}/kinds`, {}, signal).catch(() => []), // the view works without them
  ]);
  let part = query.get("box")?.split(",").map(Number) ?? null;
  const example = () => (part ? { id, box: part } : { id });
  const search = () => go(link("search", "", { ...NO_EXAMPLES, with: format(example()) }));
  const learn = () => startSession({ examples: [example()] });
  const searchButton = button("search", "Search with this", search, { class: "main" });
  const choose = button("box", "Select a part", () => box.start());
  const hint = h("p", { class: "quiet hint" }, "Drag on the picture to select a part of it.");

  const shown = h("img", {
    src: image(id, SCREEN),
    alt: title(item),
    draggable: "false",
    width: item.width,
    height: item.height,
  });
  const sheet = h("div", { class: "sheet" }, shown);
  sheet.style.setProperty("--shape", item.width / item.height);
  const box = new BoxSelector(
    sheet,
    (chosen) => {
      part = chosen;
      searchButton.lastChild.textContent = part ? "Search with this part" : "Search with this";
      history.replaceState(
        history.state,
        "",
        amend({ box: part?.map((share) => +share.toFixed(3)).join(",") ?? null }),
      );
    },
    part,
  );

  const enlarge = () => openViewer(...listWith(id));
  sheet.addEventListener("dblclick", enlarge);
  sheet.addEventListener("click", (event) => {
    if (event.pointerType === "touch" && !sheet.classList.contains("choosing")) enlarge();
  });
  const step = (by) => {
    const next = neighbour(id, by);
    if (next) replace(link("item", next.id));
  };
  keys(
    {
      s: search,
      t: learn,
      b: () => box.start(),
      f: enlarge,
      "+": () => put(example(), "with"),
      "-": () => put(example(), "without"),
      ArrowLeft: () => step(-1),
      ArrowRight: () => step(1),
    },
    signal,
  );
  const full = button("full", "Full screen", enlarge, { quiet: true });
  const pager = [
    ["back", "Previous picture", -1],
    ["next", "Next picture", 1],
  ].map(([drawing, words, by]) => button(drawing, words, () => step(by), { quiet: true, disabled: !neighbour(id, by) }));

  return h(
    "div",
    { class: "view large" },
    h("div", { class: "stage" }, sheet, hint),
    h(
      "div",
      { class: "side" },
      h("div", { class: "lead" }, h("h1", { title: title(item) }, title(item)), h("div", { class: "pager" }, full, pager)),
      h(
        "div",
        { class: "doing" },
        searchButton,
        may("judge") &&
          button("session", "Start a session", learn, {
            title: "Answer yes or no; Lookalike learns what you are looking for",
          }),
        choose,
        button("plus", "Add as positive", () => put(example(), "with"), { title: "Add to your positive examples" }),
        button("minus", "Add as negative", () => put(example(), "without"), {
          title: "Add to your negative examples",
        }),
      ),
      h("section", {}, h("h2", {}, "Classes"), classes(item, isEarly(about))),
      recognized(kinds),
      h("section", {}, h("h2", {}, "About"), facts(item)),
    ),
    similar(item, signal),
  );
}

function classes(item, early) {
  const list = h("ul", { class: "chips", role: "list" });
  const draw = () => {
    const chip = (name) =>
      h(
        "li",
        {},
        h("a", { href: link("class", name) }, name),
        may("judge") &&
          button("no", `Remove from ${name}`, () => change("remove", name), { quiet: true, class: "plain" }),
      );
    list.replaceChildren(...item.labels.map(chip));
    if (!item.labels.length) list.append(h("li", { class: "quiet" }, "None"));
  };
  const change = (verb, name) =>
    attempt(async () => {
      const { action } = await post(`/classes/${verb}`, { name, items: [item.id] });
      item.labels =
        verb === "remove" ? item.labels.filter((one) => one !== name) : [...new Set([...item.labels, name])];
      suggestion.replaceChildren();
      noteUndo(`${verb === "remove" ? "Removed from" : "Added to"} ${name}.`, action);
      draw();
    });
  const suggestion = h("div", { class: "suggestion" });
  if (item.predicted && !item.labels.length) {
    const { label, probability } = item.predicted;
    const sure = early ? "few examples so far" : likely(probability);
    suggestion.append(h("p", {}, "Suggestion: ", h("a", { href: link("class", label) }, label), ` (${sure})`));
    if (may("judge"))
      suggestion.append(
        h(
          "div",
          { class: "inline" },
          button("yes", "Yes", () => change("add", label)),
          button("no", "No", () =>
            attempt(async () => {
              const { action } = await post("/classes/reject", { name: label, items: [item.id] });
              suggestion.replaceChildren();
              noteUndo(`Rejected ${label}.`, action);
            }),
          ),
        ),
      );
  }
  draw();
  if (!may("judge")) return h("div", {}, list, suggestion);
  const field = h("input", {
    type: "text",
    name: "class",
    "aria-label": "Add to a class",
    placeholder: "Add to a class",
    autocomplete: "off",
    list: "class-names",
    maxlength: 200,
  });
  const submit = (event) => {
    event.preventDefault();
    if (field.value.trim()) change("add", field.value.trim()).then(() => (field.value = ""));
  };
  return h(
    "div",
    {},
    list,
    suggestion,
    h(
      "form",
      { class: "inline", onsubmit: submit },
      field,
      classNames("class-names"),
      button("plus", "Add", null, { type: "submit" }),
    ),
  );
}

/** The likeliest kinds of the picture, as links that search for them. */
function recognized(kinds) {
  const shown = kinds.filter(({ probability }) => probability >= LEAST).slice(0, KINDS);
  if (!shown.length) return null;
  const chip = ({ name, probability }) =>
    h(
      "li",
      {},
      h(
        "a",
        { href: link("search", "", { ...NO_EXAMPLES, words: name }), title: `Search for ${name}` },
        `${name} ${likely(probability)}`,
      ),
    );
  return h("section", {}, h("h2", {}, "Recognized"), h("ul", { class: "chips", role: "list" }, shown.map(chip)));
}

/** A strip of similar pictures, with placeholders until the search returns. */
function similar(item, signal) {
  const row = new PictureList("Similar pictures", { signal, kind: "strip" });
  const strip = h("section", { class: "similar" }, h("h2", {}, "Similar pictures"), row.element);
  row.fill(Array.from({ length: SIMILAR }, () => h("span", { class: "pic" })));
  post("/search", { examples: [{ id: item.id }], k: SIMILAR + 1 }, signal).then(
    ({ results }) =>
      row.fill(
        results
          .filter((one) => one.item.id !== item.id)
          .slice(0, SIMILAR)
          .map((one) => linkTile(one.item, link("item", one.item.id, { box: null }))),
      ),
    () => strip.remove(), // the view works without it
  );
  return strip;
}
