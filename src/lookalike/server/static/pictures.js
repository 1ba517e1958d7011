// The start page: a summary of the collection, the search box, and all pictures in a grid.
import { get } from "./api.js";
import { collection, may } from "./collection.js";
import { anchor, h } from "./dom.js";
import { bar, exporter, filter, filtered, withFacets } from "./filters.js";
import { count, many } from "./format.js";
import { Grid } from "./grid.js";
import * as neighbours from "./grid_neighbours.js";
import { link } from "./router.js";
import { searchBox } from "./search_box.js";
import { exampleTile } from "./tile.js";
import { sizer } from "./tile_size.js";
import { put } from "./tray.js";
import { empty, lead } from "./view_parts.js";

export async function show({ query }, signal) {
  const about = await collection(signal);
  const what = filter(query);
  const timeline = query.get("order") === "taken" ? await import("./timeline.js") : null;
  const sections = timeline && (await timeline.monthSections(what, signal));
  const grid = new Grid({
    label: "Pictures",
    signal,
    sections,
    fetch: (offset, limit) => get("/items", { offset, limit, order: query.get("order"), ...what }, signal),
    ids: async () => (await get("/items/ids", { order: query.get("order"), ...what }, signal)).ids,
    tile: (item) => exampleTile(item, link("item", item.id), { words: item.labels?.join(", ") }),
    onkey: addExampleByKey,
  });
  const total = await grid.open();
  neighbours.rememberGrid(grid);
  const narrowed = filtered(query);
  const heading = narrowed
    ? query.get("label")
      ? `Class ${query.get("label")}`
      : query.get("path")
        ? `“${query.get("path")}”`
        : "Filtered pictures"
    : about.name || "Pictures";
  return h(
    "div",
    { class: "view" },
    about.items ? searchBox("", signal) : null,
    lead(heading, narrowed ? `${count(total)} of ${many(about.items, "picture")}` : summary(about), {
      tools:
        !narrowed &&
        about.items > 0 &&
        may("manage") &&
        anchor("plus", "Add pictures", link("jobs"), { class: "button" }),
    }),
    about.items > 0 &&
      h("div", { class: "line" }, bar(query, { order: true, signal }), sizer(grid), exporter("/export", what)),
    await withFacets(
      total ? (timeline?.withSlider(grid, signal) ?? grid.element) : nothing(about, query),
      query,
      signal,
    ),
  );
}

/** Add the focused picture to the tray when + or - is pressed. */
export function addExampleByKey(event, item) {
  if (event.key !== "+" && event.key !== "-") return false;
  put({ id: (item.item ?? item).id }, event.key === "+" ? "with" : "without");
  return true;
}

function summary({ items, classes, labelled, not_indexed: others, saved }) {
  const parts = [
    many(items, "picture"),
    classes ? many(classes, "class", "classes") : null,
    labelled ? many(labelled, "label") : null,
  ];
  const text = parts.filter(Boolean).join(" · ");
  const links = [
    saved > 0 && h("a", { href: link("sessions") }, many(saved, "saved search", "saved searches")),
    others > 0 && h("a", { href: link("jobs") }, `${many(others, "file")} not indexed`),
  ];
  return h("p", { class: "quiet" }, text, links.filter(Boolean).map((one) => [" · ", one]));
}

function nothing(about, query) {
  const path = query.get("path");
  if (about.items && path)
    return empty(
      `No pictures match. The filter compares names only: “${path}” is not part of a folder or file name, or other` +
        " filters exclude those pictures.",
      anchor("search", `Search for “${path}”`, link("search", "", { words: path }), { class: "button main" }),
    );
  if (about.items) return empty("No pictures match. Clear the filters to see all pictures.");
  if (may("manage"))
    return empty(
      "This collection is empty. Add a folder, or upload pictures.",
      anchor("plus", "Add pictures", link("jobs"), { class: "button main" }),
    );
  return empty("This collection is empty. The administrator can add pictures with: lookalike add FOLDER");
}
