// The map: every picture a point, alike ones near each other. Drag, zoom, click into it; arrows and Enter do the same.
import { get } from "./api.js";
import { collection } from "./collection.js";
import { button, h } from "./dom.js";
import { count, many } from "./format.js";
import { follow } from "./job_progress.js";
import { MapCanvas } from "./map_canvas.js";
import { amend, go } from "./router.js";
import { empty, lead } from "./view_parts.js";

export async function show({ query }, signal) {
  const about = await collection(signal);
  const space = query.get("space");
  const head = (text, ...tools) => lead("Map", text, { tools: h("div", { class: "actions" }, tools) });
  const data = await get("/map", { space }, signal);
  const coming =
    data.job &&
    follow(
      data.job,
      data.ids.length
        ? "There are changes; the map is being drawn anew."
        : "The map is being drawn. This takes a moment, once.",
      signal,
    );
  if (!data.ids.length)
    return h(
      "div",
      { class: "view" },
      head("Alike pictures near each other."),
      coming ?? empty("There are no pictures to draw yet."),
    );
  const chart = new MapCanvas(data, signal);
  const names = [...new Set(data.labels.flat().filter(Boolean))].sort();
  const pick =
    names.length > 1 &&
    choice("Show", [["", "all"], ...names.map((name) => [name, name])], query.get("label") ?? "", (label) => {
      history.replaceState(history.state, "", amend({ label: label || null }));
      chart.highlight(label);
    });
  const ways =
    about.spaces.length > 1 &&
    choice(
      "Alike by",
      about.spaces.map(({ name }) => [name, name]),
      data.space,
      (name) => go(amend({ space: name })),
    );
  chart.highlight(query.get("label") ?? "");
  return h(
    "div",
    { class: "view" },
    head(
      `${many(data.ids.length, "picture")}${data.total > data.ids.length ? ` of ${count(data.total)}` : ""}; alike ones are near each other. Click one to open it.`,
      pick,
      ways,
      h(
        "div",
        { class: "pager" },
        button("plus", "Closer", () => chart.zoom(1.6), { quiet: true }),
        button("minus", "Farther", () => chart.zoom(1 / 1.6), { quiet: true }),
      ),
    ),
    coming,
    chart.element,
  );
}

function choice(words, options, chosen, onchoose) {
  return h(
    "label",
    { class: "choice" },
    h("span", {}, words),
    h(
      "select",
      { onchange: (event) => onchoose(event.target.value) },
      options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
    ),
  );
}
