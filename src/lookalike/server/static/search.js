// Search results: the pictures most similar to the examples in the tray.
import { post } from "./api.js";
import { collection } from "./collection.js";
import { anchor, h } from "./dom.js";
import { both } from "./examples.js";
import { bar, body } from "./filters.js";
import { many, seconds } from "./format.js";
import { Grid } from "./grid.js";
import * as neighbours from "./grid_neighbours.js";
import { tally } from "./pictures.js";
import { amend, go, link } from "./router.js";
import { exampleTile } from "./tile.js";
import { empty, lead, plate } from "./view_parts.js";

const SHOWN = 200; // number of results
const PLACED = 12; // results with a matching part, which takes about half a second per picture
const WORDS = { deep: "the same kind of picture", thing: "the same object", color: "the same colours" };

export async function show({ query }, signal) {
  const { positive, negative } = both(query);
  if (!positive.length)
    return plate(
      "Search with pictures",
      "Drop or paste a picture anywhere on this page, or choose one from the collection.",
      anchor("pictures", "Show all pictures", link("pictures"), { class: "button main" }),
    );
  const about = await collection(signal);
  const where = query.get("where") === "1";
  const request = {
    examples: positive,
    without: negative,
    space: query.get("space") ?? undefined,
    k: SHOWN,
    filter: body(query),
  };
  const { results, space, seconds: took } = await post("/search", request, signal);
  if (where) {
    const placed = await post("/search", { ...request, k: PLACED, where: true }, signal);
    const boxes = new Map(placed.results.map(({ item, box }) => [item.id, box]));
    for (const result of results) result.box = boxes.get(result.item.id) ?? null;
  }
  const grid = new Grid({
    label: "Results, most similar first",
    signal,
    fetch: async (offset, limit) => ({ total: results.length, items: results.slice(offset, offset + limit) }),
    tile: ({ item, box }) => exampleTile(item, link("item", item.id), { words: item.labels?.join(", "), box }),
    onkey: tally,
  });
  await grid.open();
  neighbours.rememberGrid(grid);
  return h(
    "div",
    { class: "view" },
    lead(positive.length > 1 ? "Similar to these pictures" : "Similar to this picture", [
      `The ${many(results.length, "most similar picture")} (${seconds(took)})`,
      where && `; the first ${PLACED} show the matching part`,
    ]),
    h("div", { class: "line" }, bar(query, { signal }), matchingPart(where), similarity(about.spaces, space)),
    results.length ? grid.element : empty("No pictures match the filters. Clear them to search all pictures."),
  );
}

/** The choice of similarity: one option per space of the collection. */
function similarity(spaces, chosen) {
  if (spaces.length < 2) return null;
  const options = spaces.map(({ name, about }) =>
    h("option", { value: name, selected: name === chosen, title: about }, WORDS[name] ?? name),
  );
  return h(
    "label",
    { class: "choice" },
    h("span", {}, "Similarity"),
    h("select", { onchange: (event) => go(amend({ space: event.target.value })) }, options),
  );
}

function matchingPart(where) {
  const box = h("input", { type: "checkbox", onchange: () => go(amend({ where: where ? null : "1" })) });
  box.checked = where;
  return h("label", { class: "tick" }, box, h("span", {}, "Show matching part"));
}
