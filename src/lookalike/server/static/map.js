// The map: every picture is a point, and similar pictures are close together.
import { get } from "./api.js";
import { collection } from "./collection.js";
import { button, h } from "./dom.js";
import { count, many } from "./format.js";
import { follow } from "./job_progress.js";
import { MapCanvas } from "./map_canvas.js";
import { readMap } from "./map_data.js";
import { amend, go } from "./router.js";
import { empty, lead } from "./view_parts.js";

export async function show({ query }, signal) {
  const about = await collection(signal);
  const space = query.get("space");
  const head = (text, ...tools) => lead("Map", text, { tools: h("div", { class: "actions" }, tools) });
  const [state, points] = await Promise.all([get("/map", { space }, signal), readMap(space, signal)]);
  const numbers = Array.from({ length: points.n }, (_, i) => i);
  const data = { ...state, ids: numbers.map(points.id), x: points.x, y: points.y, labels: numbers.map(points.label) };
  const progress =
    data.job &&
    follow(
      data.job,
      data.ids.length
        ? "Pictures have changed. Updating the map…"
        : "Computing the map. This takes a moment, but only the first time.",
      signal,
    );
  if (!data.ids.length)
    return h(
      "div",
      { class: "view" },
      head("Similar pictures are close together."),
      progress ?? empty("There are no pictures to show yet."),
    );
  const chart = new MapCanvas(data, signal);
  const names = [...new Set(data.labels.flat().filter(Boolean))].sort();
  const pick =
    names.length > 1 &&
    choice("Class", [["", "all"], ...names.map((name) => [name, name])], query.get("label") ?? "", (label) => {
      history.replaceState(history.state, "", amend({ label: label || null }));
      chart.highlight(label);
    });
  const spaces =
    about.spaces.length > 1 &&
    choice(
      "Similarity",
      about.spaces.map(({ name }) => [name, name]),
      data.space,
      (name) => go(amend({ space: name })),
    );
  chart.highlight(query.get("label") ?? "");
  const shown = many(data.ids.length, "picture");
  return h(
    "div",
    { class: "view" },
    head(
      `${shown}${data.total > data.ids.length ? ` of ${count(data.total)}` : ""}. Similar ones are close together. Click one to open it.`,
      pick,
      spaces,
      h(
        "div",
        { class: "pager" },
        button("plus", "Zoom in", () => chart.zoom(1.6), { quiet: true }),
        button("minus", "Zoom out", () => chart.zoom(1 / 1.6), { quiet: true }),
      ),
    ),
    progress,
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
