// Groups of duplicates in four tiers. They can be dismissed, exported, or removed from the collection.
import { get, post } from "./api.js";
import { collection, may } from "./collection.js";
import { comparison } from "./compare.js";
import { anchor, button, h } from "./dom.js";
import { exporter } from "./filters.js";
import { bytes, count, firstNames, many, title } from "./format.js";
import { follow } from "./job_progress.js";
import { keepRule } from "./keep_rule.js";
import { attempt, confirm, whileDisabled } from "./notify.js";
import { PictureList } from "./picture_list.js";
import { amend, link } from "./router.js";
import { linkTile } from "./tile.js";
import { noteUndo } from "./undo.js";
import { empty, lead } from "./view_parts.js";

const TIERS = [
  ["identical", "Identical", "The same file, byte for byte, in several places.", "No identical files found."],
  ["same", "Same photo", "The same photo, saved again, resized or cropped.", "No copies of the same photo found."],
  ["edited", "Edited copy", "The same photo, mirrored, slightly rotated, or with text or a logo on it.", "No edited copies found."],
  ["alike", "Similar", "Different photos that look almost the same, such as two shots of the same scene.", "No similar pictures found."],
];
const SHOWN = 20; // groups per page
const AT_ONCE = 1000; // pictures that a job removes, at most
const MAX_NAMES = 4; // pictures that a message names

export async function show({ query }, signal) {
  const limit = Number(query.get("limit")) || SHOWN;
  const [tiers] = await Promise.all([get("/duplicates/tiers", {}, signal), collection(signal)]);
  const counts = Object.fromEntries(tiers.map((one) => [one.tier, one.n_groups]));
  const tier = query.get("tier") ?? tiers.find((one) => one.n_groups)?.tier ?? "same";
  const { groups, total, job, without_detail } = await get("/duplicates", { tier, offset: 0, limit }, signal);
  counts[tier] = job && !total ? null : total;
  const counting = tier === "identical" && counts.same === null && (await get("/duplicates", { tier: "same", limit: 1 }, signal)).job;
  const tabs = TIERS.map(([name, words]) =>
    h(
      "a",
      { href: amend({ tier: name, limit: null }), "aria-current": name === tier ? "true" : null },
      words,
      counts[name] !== null && h("span", { class: "count" }, ` ${count(counts[name])}`),
    ),
  );
  const about = TIERS.find(([name]) => name === tier)?.[2] ?? "";
  const marked = new Marked(signal);
  const rule = tier === "same" && may("manage") && total > 0 && keepRule(marked);
  return h(
    "div",
    { class: "view" },
    lead("Duplicates", `${about} ${total ? many(total, "group") : ""}`, {
      tools: groups.length > 0 && exporter("/duplicates/export", { tier }, ["csv", "json"]),
    }),
    h("nav", { class: "tabs", "aria-label": "Type of duplicate" }, tabs),
    without_detail > 0 &&
      h(
        "p",
        { class: "quiet" },
        `Not compared: ${many(without_detail, "picture")} with too little detail, such as nearly black ones. ` +
          "Of these, only identical files are duplicates.",
      ),
    job &&
      follow(job, groups.length ? "Pictures have changed. Updating the groups…" : "Looking for duplicates…", signal),
    counting && follow(counting, "Looking for copies of the same photo…", signal),
    rule && rule.element,
    groups.length
      ? h(
          "div",
          { class: "groups" },
          groups.map((group) => card(group, marked, rule, signal)),
        )
      : job
        ? null
        : nothing(tier, counts),
    total > groups.length
      ? h("p", { class: "actions" }, h("a", { class: "button", href: amend({ limit: limit + SHOWN }) }, "Show more"))
      : null,
    marked.element,
  );
}

/** The text of an empty tier, with links to the tiers that have groups or were not searched yet. */
function nothing(tier, counts) {
  const others = TIERS.filter(([name]) => name !== tier && counts[name] !== 0);
  const found = others.filter(([name]) => counts[name]);
  const next = found.length ? " There are others:" : others.length ? " Look for others:" : "";
  return empty(
    TIERS.find(([name]) => name === tier)[3] + next,
    ...(found.length ? found : others).map(([name, words]) =>
      anchor(null, counts[name] ? `${words}: ${many(counts[name], "group")}` : words, amend({ tier: name, limit: null })),
    ),
  );
}

/** The pictures selected for removal, and the bar with the button that removes them. */
class Marked {
  constructor(signal) {
    this.ids = new Set();
    this.groups = []; // the checkboxes of each
    this.titles = new Map(); // of the pictures that are shown, by id
    this.summary = h("p", {});
    this.act = h("div", { class: "actions" }, button("no", "Remove from the collection", () => this.#ask(signal)));
    this.element = h("div", { class: "take-out", hidden: true }, this.summary, this.act);
  }

  /** Select these pictures, including those that are not shown, instead of all others or of those `among` some. */
  select(ids, among = null) {
    for (const id of among ?? [...this.ids]) this.ids.delete(id);
    for (const id of ids) this.ids.add(id);
    this.draw();
  }

  turn(id, on) {
    if (on) this.ids.add(id);
    else this.ids.delete(id);
    this.draw();
  }

  /** Show what is selected. The last picture of a group cannot be selected. */
  draw() {
    for (const boxes of this.groups) {
      const open = boxes.filter((box) => {
        box.checked = this.ids.has(box.value);
        box.closest(".tile").classList.toggle("marked", box.checked);
        box.disabled = false;
        box.parentElement.lastChild.textContent = "Select";
        return !box.checked;
      });
      if (open.length > 1 || !open[0]) continue;
      open[0].disabled = true;
      open[0].parentElement.lastChild.textContent = "Stays: last copy";
    }
    this.element.hidden = !this.ids.size;
    this.summary.textContent = `${many(this.ids.size, "picture")} selected.`;
  }

  #ask(signal) {
    const n = this.ids.size;
    const titles = [...this.titles].filter(([id]) => this.ids.has(id)).map(([, name]) => name);
    const text =
      `${firstNames(titles, MAX_NAMES, n)}. ` +
      "Only the collection changes: no files are deleted, and labels are kept." +
      " Files that are still in their folder are added again by the next check for changes.";
    confirm(`Remove ${many(n, "picture")} from the collection?`, text, "Remove", async () => {
      const items = [...this.ids];
      const jobs = [];
      while (items.length) jobs.push(await post("/jobs", { kind: "remove", items: items.splice(0, AT_ONCE) }));
      const report = async () => {
        for (const { id } of jobs) {
          const { message, result } = await get(`/jobs/${id}`);
          noteUndo(message, result?.action);
        }
      };
      const words = `Removing ${many(n, "picture")}…`;
      this.element.replaceChildren(follow(jobs.at(-1), words, signal, () => void attempt(report)));
      return true;
    });
  }
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A picture with its size. In a group of several, also what it is and, for managers, a checkbox to select it. */
function tile(item, place, group, marked) {
  const size = [`${item.width} × ${item.height}`, bytes(item.bytes)];
  const several = group.items.length > 1;
  const relation = group.relations[place];
  const about = several ? capital(relation.caption) : "";
  const box =
    several &&
    may("manage") &&
    h("input", {
      type: "checkbox",
      "aria-label": `Select ${title(item)}`,
      value: item.id,
      onchange: () => marked.turn(item.id, box.checked),
    });
  return h(
    "div",
    { class: "tile" },
    linkTile(item, link("item", item.id), { words: [about, ...size].filter(Boolean).join(", ") }),
    h(
      "p",
      { class: "size" },
      about && h("b", {}, about),
      size.map((words) => h("span", {}, words)),
    ),
    h(
      "div",
      { class: "picks" },
      box && h("label", { class: "tick" }, box, h("span", {}, "Select")),
      place > 0 && h("a", { class: "tick", href: comparison([group.items[0], item], relation), "aria-label": `Compare ${title(item)}` }, "Compare"),
    ),
  );
}

function card(group, marked, rule, signal) {
  const titles = firstNames(group.items.map(title), MAX_NAMES);
  const row = new PictureList(`${many(group.items.length, "picture")}, ${group.why ?? ""}`, { signal, kind: "strip" });
  row.fill(group.items.map((item, place) => tile(item, place, group, marked)));
  const several = group.items.length > 1;
  for (const item of group.items) marked.titles.set(item.id, title(item));
  if (several) marked.groups.push([...row.element.querySelectorAll("input")]);
  const dismiss = async ({ currentTarget }) => {
    const send = () => post("/duplicates/dismiss", { items: group.items.map(({ id }) => id) });
    const done = await whileDisabled(currentTarget, () => attempt(send));
    if (!done) return;
    noteUndo(`Marked as not duplicates: ${titles}.`, done.action);
    for (const { id } of group.items) marked.turn(id, false); // hidden pictures must not stay selected
    place.remove();
  };
  const paths = [...new Set(group.items.flatMap((item) => item.paths ?? [item.path]))];
  const list = h(
    "details",
    { open: !several },
    h("summary", { "aria-label": `${many(paths.length, "path")}: ${titles}` }, many(paths.length, "path")),
    h(
      "ul",
      { class: "paths", role: "list" },
      paths.map((path) => h("li", { class: "path" }, path)),
    ),
  );
  const action = (drawing, words, act) => button(drawing, words, act, { "aria-label": `${words}: ${titles}` });
  const acts = several && [
    rule && action("duplicates", "Select the copies", () => rule.select(group.items.map(({ id }) => id))),
    group.items.length > 2 &&
      anchor("duplicates", "Compare", comparison(group.items.slice(0, 4)), { "aria-label": `Compare ${titles}` }),
    may("judge") && action("no", "Not duplicates", dismiss),
  ];
  const place = h(
    "section",
    { class: "group" },
    h(
      "div",
      { class: "lane-head" },
      group.tier === "alike"
        ? h("h2", { title: group.why }, many(group.items.length, "similar picture"))
        : h("h2", {}, group.why || many(group.items.length, "picture")),
      acts && h("div", { class: "actions" }, acts),
    ),
    row.element,
    list,
  );
  return place;
}
