// What looks like the examples in the tray.
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

const SHOWN = 200; // results asked for
const PLACED = 12; // of which so many say where: each is looked at again, half a second a picture
const WORDS = { deep: "the kind of picture", thing: "the very thing", color: "colours" };

export async function show({ query }, signal) {
  const { wanted, unwanted } = both(query);
  if (!wanted.length)
    return plate(
      "Search with pictures",
      "Drop or paste a picture anywhere on this page, or choose one of the collection as an example.",
      anchor("pictures", "To all pictures", link("pictures"), { class: "button main" }),
    );
  const about = await collection(signal);
  const where = query.get("where") === "1";
  const ask = {
    examples: wanted,
    without: unwanted,
    space: query.get("space") ?? undefined,
    k: SHOWN,
    filter: body(query),
  };
  const { results, space, seconds: took } = await post("/search", ask, signal);
  if (where) {
    const placed = await post("/search", { ...ask, k: PLACED, where: true }, signal);
    const boxes = new Map(placed.results.map(({ item, box }) => [item.id, box]));
    for (const result of results) result.box = boxes.get(result.item.id) ?? null;
  }
  const grid = new Grid({
    label: "Results, the most alike first",
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
    lead(wanted.length > 1 ? "Looks like these" : "Looks like this", [
      `The ${many(results.length, "picture")} most alike, in ${seconds(took)}`,
      where && `; the first ${PLACED} show where`,
    ]),
    h("div", { class: "line" }, bar(query, { signal }), whereabouts(where), likeness(about.spaces, space)),
    results.length ? grid.element : empty("Nothing fits the filters. Clear them to search all pictures."),
  );
}

/** In which way alike: one choice for each space of the collection. */
function likeness(spaces, chosen) {
  if (spaces.length < 2) return null;
  const options = spaces.map(({ name, about }) =>
    h(
      "option",
      { value: name, selected: name === chosen, title: about },
      WORDS[name] ? `${WORDS[name]} (${name})` : name,
    ),
  );
  return h(
    "label",
    { class: "choice" },
    h("span", {}, "Alike by"),
    h("select", { onchange: (event) => go(amend({ space: event.target.value })) }, options),
  );
}

function whereabouts(where) {
  const box = h("input", { type: "checkbox", onchange: () => go(amend({ where: where ? null : "1" })) });
  box.checked = where;
  return h("label", { class: "tick" }, box, h("span", {}, "Show where"));
}
