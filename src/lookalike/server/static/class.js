// One class: its suggestions, to confirm or reject, and its pictures.
import { get, post } from "./api.js";
import { classNames } from "./class_names.js";
import { collection, forget, may } from "./collection.js";
import { button, h, icon } from "./dom.js";
import { exporter } from "./filters.js";
import { isEarly, likely, many, title } from "./format.js";
import { Grid } from "./grid.js";
import * as neighbours from "./grid_neighbours.js";
import { follow } from "./job_progress.js";
import { attempt, confirm, form, note } from "./notify.js";
import { PictureList } from "./picture_list.js";
import { addExampleByKey } from "./pictures.js";
import { go, link, reload } from "./router.js";
import { startSession } from "./start_session.js";
import { exampleTile, picture } from "./tile.js";
import { noteUndo } from "./undo.js";
import { empty, lead, menu } from "./view_parts.js";

const SHOWN = 24; // suggestions per page

export async function show({ arg: name }, signal) {
  const [whole, about] = await Promise.all([
    get("/classes/one", { name, offset: 0, limit: SHOWN }, signal),
    collection(signal),
  ]);
  const grid = new Grid({
    label: `Pictures of ${name}`,
    signal,
    fetch: (offset, limit) => get("/items", { offset, limit, label: name }, signal),
    ids: async () => (await get("/items/ids", { label: name }, signal)).ids,
    inClass: name,
    tile: (item) => exampleTile(item, link("item", item.id)),
    onkey: addExampleByKey,
  });
  const total = await grid.open();
  neighbours.rememberGrid(grid);
  const kinds = whole.parents?.length ? `, a kind of ${whole.parents.join(", ")}` : "";
  const size = h("p", { class: "quiet" }, `${many(total, "picture")}${kinds}`);
  let members = total;
  const joined = (n) => (size.textContent = `${many((members += n), "picture")}${kinds}`);
  return h(
    "div",
    { class: "view" },
    lead(name, size, {
      up: "classes",
      tools: h(
        "div",
        { class: "actions" },
        may("judge") && total
          ? button("session", "Find more", () => startSession({ label: name, name }), { class: "main" })
          : null,
        exporter("/export", { label: name }),
        may("manage") && more(name, () => members),
      ),
    }),
    suggestions(name, whole.predicted, isEarly(about), signal, joined) ??
      (total && may("judge") ? suggestMore(signal) : null),
    h("h2", {}, "In this class"),
    total
      ? grid.element
      : empty("This class has no pictures yet. Select some on another page and choose Label, or start a session."),
  );
}

/** A button that computes suggestions, shown if the class has none. */
function suggestMore(signal) {
  const place = h("div", { class: "actions" });
  const start = () =>
    attempt(async () => {
      const job = await post("/jobs", { kind: "classify" });
      const report = ({ message }) => note(`Checked all pictures without a class. ${message}`);
      place.replaceChildren(follow(job, "Checking all pictures without a class…", signal, report));
    });
  place.append(
    button("search", "Suggest pictures", start),
    h("p", { class: "quiet" }, "Suggests pictures that may belong to your classes."),
  );
  return place;
}

/** The suggestions, each confirmed or rejected by click or key; every answer is sent immediately. */
function suggestions(name, predicted, early, signal, joined) {
  if (!predicted.length) return null;
  const waiting = new Map(predicted.map((one) => [one.item.id, one.item]));
  const row = new PictureList("Suggestions to confirm or reject", {
    signal,
    kind: "suggested",
    onkey: (event, target) => {
      const verb = { y: "confirm", n: "reject" }[event.key];
      if (event.key === "Enter") go(link("item", target.dataset.id));
      else if (verb) answer(verb, [target.dataset.id], true);
      else return false;
      return true;
    },
  });
  const place = h("section", { class: "suggestions" });
  const answer = async (verb, ids, focus = false) => {
    const items = ids.map((id) => waiting.get(id)).filter(Boolean); // without those of an earlier click
    if (!items.length) return;
    const at = row.targets.findIndex((target) => target.dataset.id === ids[0]);
    for (const { id } of items) waiting.delete(id);
    draw();
    if (focus) row.focus(Math.min(at, row.targets.length - 1));
    const done = await attempt(() => post(`/classes/${verb}`, { name, items: items.map(({ id }) => id) }));
    if (!done) {
      for (const item of items) waiting.set(item.id, item);
      return draw();
    }
    forget();
    if (verb === "confirm") joined(done.count);
    const what = items.length === 1 ? title(items[0]) : many(done.count, "picture");
    const left = waiting.size ? ` ${waiting.size} left.` : "";
    noteUndo(`${verb === "confirm" ? "Confirmed" : "Rejected"} ${what}.${left}`, done.action);
    return waiting.size || reload(); // with more suggestions
  };
  const tile = ({ item, probability }) => {
    const pic = h(
      "button",
      {
        type: "button",
        class: "pic",
        tabindex: "-1",
        dataset: { focus: "", id: item.id },
        "aria-label": `${title(item)}, ${early ? "a suggestion" : `${likely(probability)} likely`}`,
        onclick: () => go(link("item", item.id)),
      },
      picture(item),
      !early && h("span", { class: "sure" }, likely(probability)),
    );
    const reply = (verb, drawing, words) =>
      h(
        "button",
        {
          type: "button",
          class: drawing,
          tabindex: "-1",
          "aria-label": `${words}: ${title(item)}`,
          onclick: () => answer(verb, [item.id], true),
        },
        icon(drawing),
        words,
      );
    return h(
      "div",
      { class: "tile" },
      pic,
      may("judge") && h("div", { class: "answers" }, reply("confirm", "yes", "Yes"), reply("reject", "no", "No")),
    );
  };
  const draw = () => {
    row.fill(predicted.filter(({ item }) => waiting.has(item.id)).map(tile));
    all.lastChild.textContent = `Yes to all ${waiting.size} shown`;
  };
  const all = button("yes", "", () => answer("confirm", [...waiting.keys()]));
  draw();
  place.append(
    h(
      "div",
      { class: "lane-head" },
      h("h2", {}, "Do these belong here too?"),
      h(
        "p",
        { class: "quiet" },
        early ? "Few examples so far: rough suggestions, most likely first." : "Most likely first.",
        h("span", { class: "for-keys" }, " Keys: ", h("kbd", {}, "y"), " ", h("kbd", {}, "n")),
      ),
      may("judge") && all,
    ),
    row.element,
  );
  return place;
}

/** The menu to rename, merge and delete the class; `size` returns its number of pictures. */
function more(name, size) {
  const change = async (verb, body, text, to) => {
    const { action } = await post(`/classes/${verb}`, body);
    forget();
    noteUndo(text, action, { from: link("class", name), to });
    go(to);
    return true;
  };
  const field = (words, value, props = {}) =>
    h(
      "label",
      {},
      h("span", {}, words),
      h("input", { type: "text", name: "to", value, required: true, autocomplete: "off", maxlength: 200, ...props }),
    );
  const rename = () => {
    const content = field("New name", name);
    const act = () => {
      const to = content.lastChild.value.trim();
      return change("rename", { name, to }, `Renamed the class ${name} to ${to}.`, link("class", to));
    };
    form(`Rename the class ${name}`, content, "Rename", act);
    content.lastChild.select();
  };
  const merge = () => {
    const content = field("Target class", "", { list: "targets" });
    const act = () => {
      const into = content.lastChild.value.trim();
      return change("merge", { names: [name], into }, `Merged ${name} into ${into}.`, link("class", into));
    };
    const warning = `This moves ${many(size(), "picture")} to the target class, and deletes the class ${name}.`;
    form(`Merge the class ${name}`, [h("p", {}, warning), content, classNames("targets", name)], "Merge", act, { class: "danger" });
    content.lastChild.focus();
  };
  const erase = () =>
    confirm(`Delete the class ${name} with ${many(size(), "label")}?`, "Its pictures stay in the collection.", "Delete", () =>
      change("delete", { name }, `Deleted the class ${name}.`, link("classes")),
    );
  const items = [
    ["Rename", rename],
    ["Merge into another class", merge],
    ["Delete", erase],
  ];
  return menu("Edit class", items.map(([words, act]) => h("button", { type: "button", onclick: act }, words)));
}
