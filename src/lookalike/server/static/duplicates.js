// Groups of duplicates in four tiers. They can be dismissed, exported, or removed from the collection.
import { get, post } from "./api.js";
import { collection, may } from "./collection.js";
import { anchor, button, h } from "./dom.js";
import { exporter } from "./filters.js";
import { bytes, count, many, percent, title } from "./format.js";
import { follow } from "./job_progress.js";
import { attempt, confirm } from "./notify.js";
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

export async function show({ query }, signal) {
  const limit = Number(query.get("limit")) || SHOWN;
  const [tiers] = await Promise.all([get("/duplicates/tiers", {}, signal), collection(signal)]);
  const counts = Object.fromEntries(tiers.map((one) => [one.tier, one.groups]));
  const tier = query.get("tier") ?? tiers.find((one) => one.groups)?.tier ?? "same";
  const { groups, total, job, without_detail } = await get("/duplicates", { tier, offset: 0, limit }, signal);
  counts[tier] = job && !total ? null : total;
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
    groups.length
      ? h(
          "div",
          { class: "groups" },
          groups.map((group) => card(group, marked, signal)),
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
    this.groups = []; // the pictures of each, and the warning shown when all of them are selected
    this.summary = h("p", {});
    this.act = h("div", { class: "actions" }, button("no", "Remove from the collection", () => this.#ask(signal)));
    this.element = h("div", { class: "take-out", hidden: true }, this.summary, this.act);
  }

  /** The warning of a group, shown while all of its pictures are selected. */
  watch(items) {
    const warning = h("p", { class: "trouble", role: "alert" });
    this.groups.push({ items, warning });
    return warning;
  }

  turn(id, on) {
    if (on) this.ids.add(id);
    else this.ids.delete(id);
    for (const { items, warning } of this.groups) {
      const all = items.length === 2 ? "Both" : `All ${items.length}`;
      warning.textContent = this.#allMarked(items) ? `${all} are selected: no copy would remain in the collection.` : "";
    }
    this.element.hidden = !this.ids.size;
    this.summary.textContent = `${many(this.ids.size, "picture")} selected. ${this.#lost()}`;
  }

  #allMarked(items) {
    return items.every(({ id }) => this.ids.has(id));
  }

  #lost() {
    const n = this.groups.filter(({ items }) => this.#allMarked(items)).length;
    return n ? `${many(n, "group")} would have no copies left. ` : "";
  }

  #ask(signal) {
    const n = this.ids.size;
    const items = this.groups.flatMap((group) => group.items).filter(({ id }) => this.ids.has(id));
    const text =
      `${names(items)}. ` +
      this.#lost() +
      "Only the collection changes: no files are deleted, and labels are kept." +
      " Files that are still in their folder are added again by the next check for changes.";
    confirm(`Remove ${many(n, "picture")} from the collection?`, text, "Remove", async () => {
      const job = await post("/jobs", { kind: "remove", items: [...this.ids] });
      const report = async ({ message }) => {
        const { result } = await get(`/jobs/${job.id}`).catch(() => ({}));
        noteUndo(message, result?.action);
      };
      this.element.replaceChildren(follow(job, `Removing ${many(n, "picture")}…`, signal, report));
      return true;
    });
  }
}

const NAMED = 4; // pictures that a message names

const names = (items) => {
  const rest = items.length - NAMED;
  return items.slice(0, NAMED).map(title).join(", ") + (rest > 0 ? ` and ${count(rest)} more` : "");
};

const pixels = ({ width, height }) => width * height;

/** The size of a picture compared with the largest of its group. */
function sizeComparison(item, { tier, items, keep }) {
  const best = items.find(({ id }) => id === keep);
  if (item === best) return tier === "same" ? "Largest: keep" : "Largest";
  if (pixels(item) < pixels(best)) return `${percent(pixels(item) / pixels(best))} of the pixels`;
  return item.bytes < best.bytes ? "Same size, smaller file" : "Same size";
}

/** A picture with its size. In a group of several, also the comparison and, for managers, a checkbox to select it. */
function tile(item, group, marked) {
  const size = [`${item.width} × ${item.height}`, bytes(item.bytes)];
  const several = group.items.length > 1;
  const about = several ? sizeComparison(item, group) : "";
  const box =
    several &&
    may("manage") &&
    h("input", {
      type: "checkbox",
      "aria-label": `Select ${title(item)}`,
      value: item.id,
      onchange: () => {
        marked.turn(item.id, box.checked);
        place.classList.toggle("marked", box.checked);
      },
    });
  const place = h(
    "div",
    { class: "tile" },
    linkTile(item, link("item", item.id), { words: [about, ...size].filter(Boolean).join(", ") }),
    h(
      "p",
      { class: "size" },
      about && h("b", {}, about),
      size.map((words) => h("span", {}, words)),
    ),
    box && h("label", { class: "tick" }, box, h("span", {}, "Select")),
  );
  return place;
}

/** A button that selects all pictures except the one to keep. */
function suggestion({ keep, items }, row) {
  const select = () => {
    for (const box of row.element.querySelectorAll("input")) if (box.checked === (box.value === keep)) box.click();
  };
  const words = "Select all but the largest";
  return button("duplicates", words, select, { "aria-label": `${words}: ${names(items)}` });
}

function card(group, marked, signal) {
  const row = new PictureList(`${many(group.items.length, "picture")}, ${group.why ?? ""}`, { signal, kind: "strip" });
  row.fill(group.items.map((item) => tile(item, group, marked)));
  const several = group.items.length > 1;
  const dismiss = async () => {
    const done = await attempt(() => post("/duplicates/dismiss", { items: group.items.map(({ id }) => id) }));
    if (!done) return;
    noteUndo(`Marked as not duplicates: ${names(group.items)}.`, done.action);
    for (const { id } of group.items) marked.turn(id, false); // hidden pictures must not stay selected
    place.remove();
  };
  const paths = [...new Set(group.items.flatMap((item) => item.paths ?? [item.path]))];
  const list = h(
    "details",
    { open: !several },
    h("summary", { "aria-label": `${many(paths.length, "path")}: ${names(group.items)}` }, many(paths.length, "path")),
    h(
      "ul",
      { class: "paths", role: "list" },
      paths.map((path) => h("li", { class: "path" }, path)),
    ),
  );
  const acts = several && [
    may("manage") && group.tier === "same" && suggestion(group, row),
    may("judge") && button("no", "Not duplicates", dismiss, { "aria-label": `Not duplicates: ${names(group.items)}` }),
  ];
  const place = h(
    "section",
    { class: "group" },
    h(
      "div",
      { class: "lane-head" },
      h("h2", {}, group.why || many(group.items.length, "picture")),
      acts && h("div", { class: "actions" }, acts),
    ),
    row.element,
    several && marked.watch(group.items),
    list,
  );
  return place;
}
