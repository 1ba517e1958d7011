// Pictures that are there more than once, in three tiers: told apart, saved as a list, or taken out of the collection.
import { attempt, confirm, note } from "./aloud.js";
import { get, post } from "./api.js";
import { collection, may } from "./collection.js";
import { button, h } from "./dom.js";
import { exporter } from "./filters.js";
import { Lane } from "./lane.js";
import { follow } from "./progress.js";
import { amend, link } from "./router.js";
import { empty, lead } from "./states.js";
import { linkTile } from "./tile.js";
import { bytes, many, title } from "./words.js";

const TIERS = [
  ["identical", "Identical", "The same file, byte for byte, at several places."],
  ["same", "Same photo", "The same photo, saved again, made smaller or cropped."],
  ["alike", "Look alike", "Not the same, but hard to tell apart, like two shots of one moment."],
];
const SHOWN = 20; // groups at once

export async function show({ query }, signal) {
  const tier = query.get("tier") ?? "identical";
  const limit = Number(query.get("limit")) || SHOWN;
  await collection(signal);
  const { groups, total, job } = await get("/duplicates", { tier, offset: 0, limit }, signal);
  const tabs = TIERS.map(([name, words]) =>
    h("a", { href: amend({ tier: name, limit: null }), "aria-current": name === tier ? "true" : null }, words),
  );
  const about = TIERS.find(([name]) => name === tier)?.[2] ?? "";
  const marked = new Marked(signal);
  return h(
    "div",
    { class: "view" },
    lead("Duplicates", `${about} ${total ? many(total, "group") : ""}`, {
      tools: groups.length > 0 && exporter("/duplicates/export", { tier }, ["csv", "json"]),
    }),
    h("nav", { class: "tabs", "aria-label": "How alike" }, tabs),
    job && follow(job, groups.length ? "There are changes; looking again." : "Looking for duplicates…", signal),
    groups.length
      ? h(
          "div",
          { class: "groups" },
          groups.map((group) => card(group, marked, signal)),
        )
      : job
        ? null
        : empty(
            tier === "alike" ? "No two pictures look that much alike." : "None found: every picture is there once.",
          ),
    total > groups.length
      ? h("p", { class: "actions" }, h("a", { class: "button", href: amend({ limit: limit + SHOWN }) }, "Show more"))
      : null,
    marked.element,
  );
}

/** The pictures that were marked to be taken out, and the bar that does it. */
class Marked {
  constructor(signal) {
    this.ids = new Set();
    this.words = h("p", {});
    this.act = h("div", { class: "actions" }, button("no", "Take out of the collection", () => this.#ask(signal)));
    this.element = h("div", { class: "take-out", hidden: true }, this.words, this.act);
  }

  turn(id, on) {
    if (on) this.ids.add(id);
    else this.ids.delete(id);
    this.element.hidden = !this.ids.size;
    this.words.textContent = `${many(this.ids.size, "picture")} marked`;
  }

  #ask(signal) {
    const n = this.ids.size;
    const text =
      "Only the collection forgets: files stay where they are, nothing is deleted on the disk. Looking again at" +
      " a folder finds what is still in it. What was said of these pictures is kept.";
    confirm(`Take ${many(n, "picture")} out?`, text, "Take out", async () => {
      const job = await post("/jobs", { kind: "remove", items: [...this.ids] });
      this.element.replaceChildren(
        follow(job, `Taking ${many(n, "picture")} out…`, signal, ({ message }) => note(message)),
      );
      return true;
    });
  }
}

/** A picture of a group; where there are several, and we may, with a box to mark it. */
function tile(item, several, marked) {
  const words = `${item.width} × ${item.height}${item.bytes ? `, ${bytes(item.bytes)}` : ""}`;
  const shown = linkTile(item, link("item", item.id), { words });
  if (!several || !may("manage")) return shown;
  const mark = () => {
    marked.turn(item.id, box.checked);
    place.classList.toggle("marked", box.checked);
  };
  const box = h("input", { type: "checkbox", "aria-label": `Mark ${title(item)}`, onchange: mark });
  const place = h("div", { class: "tile" }, shown, h("label", { class: "tick" }, box, h("span", {}, "Mark")));
  return place;
}

function card(group, marked, signal) {
  const lane = new Lane(`${many(group.items.length, "picture")}, ${group.why ?? ""}`, { signal, kind: "strip" });
  lane.fill(group.items.map((item) => tile(item, group.items.length > 1, marked)));
  const dismiss = async () => {
    const done = await attempt(
      async () => (await post("/duplicates/dismiss", { items: group.items.map(({ id }) => id) }), true),
    );
    if (!done) return;
    note("Remembered: these are not duplicates.");
    place.remove();
  };
  const paths = [...new Set(group.items.flatMap((item) => item.paths ?? [item.path]))];
  const list = h(
    "details",
    { open: group.items.length === 1 },
    h("summary", {}, many(paths.length, "place")),
    h(
      "ul",
      { class: "paths", role: "list" },
      paths.map((path) => h("li", { class: "path" }, path)),
    ),
  );
  const tellApart = may("judge") && group.items.length > 1 && button("no", "Not duplicates", dismiss);
  const place = h(
    "section",
    { class: "group" },
    h("div", { class: "lane-head" }, h("h2", {}, group.why || many(group.items.length, "picture")), tellApart),
    lane.element,
    list,
  );
  return place;
}
