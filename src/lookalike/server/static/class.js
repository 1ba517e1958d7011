// One class: its suggestions, to confirm or reject, and its pictures.
import { get, post } from "./api.js";
import { collection, forget, may } from "./collection.js";
import { button, h, icon } from "./dom.js";
import { exporter } from "./filters.js";
import { isEarly, likely, many, title } from "./format.js";
import { Grid } from "./grid.js";
import * as neighbours from "./grid_neighbours.js";
import { follow } from "./job_progress.js";
import { attempt, dialog, note, say } from "./notify.js";
import { PictureList } from "./picture_list.js";
import { tally } from "./pictures.js";
import { go, link } from "./router.js";
import { startSession } from "./start_session.js";
import { exampleTile, picture } from "./tile.js";
import { empty, lead } from "./view_parts.js";

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
    onkey: tally,
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
        may("manage") && more(name),
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
    button("search", "Suggest more", start),
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
    const at = row.targets.findIndex((target) => target.dataset.id === ids[0]);
    const done = await attempt(async () => {
      await post(`/classes/${verb}`, { name, items: ids });
      return true;
    });
    if (!done) return;
    forget();
    for (const id of ids) waiting.delete(id);
    if (verb === "confirm") joined(ids.length);
    say(`${verb === "confirm" ? "Confirmed" : "Rejected"}. ${waiting.size} left.`);
    draw();
    if (focus) row.focus(Math.min(at, row.targets.length - 1));
    if (!waiting.size) dispatchEvent(new HashChangeEvent("hashchange")); // reload the class, with more suggestions
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
  };
  draw();
  const all = may("judge") && button("yes", "Yes to all shown", () => answer("confirm", [...waiting.keys()]));
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
      all || "",
    ),
    row.element,
  );
  return place;
}

/** Rename, merge, delete. */
function more(name) {
  const ask =
    (heading, done, words, verb, make, warn = null) =>
    () => {
      const field =
        words &&
        h("input", {
          type: "text",
          value: words === "New name" ? name : "",
          required: true,
          autocomplete: "off",
          list: "class-names",
        });
      const submit = async (event) => {
        event.preventDefault();
        const to = field?.value.trim();
        const changed = await attempt(async () => (await post(`/classes/${verb}`, make(to)), true));
        if (!changed) return;
        forget();
        box.close();
        note(done);
        go(to ? link("class", to) : link("classes"));
      };
      const box = dialog(
        heading,
        h(
          "form",
          { onsubmit: submit },
          warn && h("p", {}, warn),
          field && h("label", {}, h("span", {}, words), field),
          h("p", { class: "actions" }, button(null, heading, null, { type: "submit", class: "main" })),
        ),
      );
    };
  const items = [
    ["Rename", ask("Rename", "Class renamed.", "New name", "rename", (to) => ({ name, to }))],
    [
      "Merge into another class",
      ask("Merge", "Classes merged.", "Target class", "merge", (into) => ({ names: [name], into })),
    ],
    [
      "Delete",
      ask(
        "Delete",
        "Class deleted.",
        null,
        "delete",
        () => ({ name }),
        `This deletes the class ${name}. Its pictures stay in the collection.`,
      ),
    ],
  ];
  return h(
    "details",
    { class: "menu" },
    h("summary", { class: "button" }, "More"),
    h(
      "ul",
      {},
      items.map(([words, act]) => h("li", {}, h("button", { type: "button", onclick: act }, words))),
    ),
  );
}
