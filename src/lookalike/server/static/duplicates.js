// Pictures that are there more than once, in three tiers.
import { attempt, note } from "./aloud.js";
import { get, post } from "./api.js";
import { collection, may } from "./collection.js";
import { button, h } from "./dom.js";
import { Lane } from "./lane.js";
import { follow } from "./progress.js";
import { amend, link } from "./router.js";
import { empty } from "./states.js";
import { linkTile } from "./tile.js";
import { bytes, many } from "./words.js";

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
  return h(
    "div",
    { class: "view" },
    h(
      "header",
      { class: "lead" },
      h(
        "div",
        {},
        h("h1", {}, "Duplicates"),
        h("p", { class: "quiet" }, `${about} ${total ? many(total, "group") : ""}`),
      ),
    ),
    h("nav", { class: "tabs", "aria-label": "How alike" }, tabs),
    job && follow(job, groups.length ? "There are changes; looking again." : "Looking for duplicates…", signal),
    groups.length
      ? h(
          "div",
          { class: "groups" },
          groups.map((group) => card(group, signal)),
        )
      : job
        ? null
        : empty(
            tier === "alike" ? "No two pictures look that much alike." : "None found: every picture is there once.",
          ),
    total > groups.length
      ? h("p", { class: "actions" }, h("a", { class: "button", href: amend({ limit: limit + SHOWN }) }, "Show more"))
      : null,
  );
}

function card(group, signal) {
  const lane = new Lane(`${many(group.items.length, "picture")}, ${group.why ?? ""}`, { signal, kind: "strip" });
  lane.fill(
    group.items.map((item) =>
      linkTile(item, link("item", item.id), {
        words: `${item.width} × ${item.height}${item.bytes ? `, ${bytes(item.bytes)}` : ""}`,
      }),
    ),
  );
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
