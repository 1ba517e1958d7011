// The map: every picture is a point, and similar pictures are close together.
import { get } from "./api.js";
import { collection } from "./collection.js";
import { button, choice, h } from "./dom.js";
import { count, many, SIMILARITIES } from "./format.js";
import { follow, jobEvents, running } from "./job_progress.js";
import { keys } from "./keyboard.js";
import { MapCanvas, OTHER, ZOOM } from "./map_canvas.js";
import { readMap } from "./map_data.js";
import { amend, go } from "./router.js";
import { empty, lead } from "./view_parts.js";

const AGAIN_MS = 60_000; // the server updates a map at most once a minute
const NAMED = OTHER - 1; // classes with a colour of their own

export async function show({ query }, signal) {
  const about = await collection(signal);
  const space = query.get("space");
  const read = () => Promise.all([get("/map", { space }, signal), readMap(space, signal)]);
  const [state, points] = about.items ? await read() : [{}, { n: 0 }];
  if (!points.n)
    return h(
      "div",
      { class: "view" },
      lead("Map", "Similar pictures are close together."),
      state.job
        ? follow(state.job, "Computing the map. This is only necessary once.", signal)
        : empty("There are no pictures to show yet."),
    );
  const chart = new MapCanvas(points, signal);
  const labels = query.getAll("label").filter((name) => points.classes.includes(name));
  const named = [...new Set([...labels, ...points.classes])].slice(0, NAMED);
  const lit = new Set(labels.map((name) => named.indexOf(name) + 1));
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Classes" });
  const summary = h("p", { class: "quiet" });
  const progress = h("div", { hidden: true });
  const paint = ({ total }, found) => {
    const { n } = found;
    summary.textContent = `${many(n, "picture")}${total > n ? ` of ${count(total)}` : ""}. Similar ones are close together.`;
    chart.paint(named, lit, found);
    legend.replaceChildren(...entries(chart));
  };
  const check = () => get("/map", { space }, signal).then(watch, () => {}); // the old map stays
  const watch = ({ job }) => {
    if (!job || !progress.hidden) return;
    if (!running(job)) return setTimeout(() => signal.aborted || check(), AGAIN_MS);
    const done = () => {
      progress.hidden = true;
      progress.replaceChildren();
      read().then((answers) => paint(...answers) || watch(answers[0]), () => {});
      return false;
    };
    progress.replaceChildren(follow(job, "Pictures have changed. Updating the map…", signal, done));
    progress.hidden = false;
  };
  const notice = ({ detail }) => detail.kind !== "map" && !running(detail) && check();
  jobEvents.addEventListener("change", notice, { signal });
  paint(state, points);
  watch(state);
  const lasso = button("lasso", "Lasso", () => lasso.setAttribute("aria-pressed", (chart.lasso = !chart.lasso)), {
    "aria-pressed": "false",
    title: "Draw around pictures to select them; or hold Shift and drag",
  });
  const names = about.spaces.map(({ name }) => [name, SIMILARITIES[name] ?? name]);
  const spaces = choice("Similarity", names, points.space, (name) => go(amend({ space: name })));
  const tools = h(
    "div",
    { class: "actions" },
    about.spaces.length > 1 && spaces,
    lasso,
    button("yes", "Select visible", () => chart.selectInside()),
  );
  keys({ "+": () => chart.zoom(ZOOM), "-": () => chart.zoom(1 / ZOOM), 0: () => chart.reset() }, signal);
  const zooms = [
    button("plus", "Zoom in", () => chart.zoom(ZOOM), { quiet: true }),
    button("minus", "Zoom out", () => chart.zoom(1 / ZOOM), { quiet: true }),
    button("box", "Show the whole map", () => chart.reset(), { quiet: true }),
  ];
  chart.element.append(h("div", { class: "pager" }, zooms));
  return h("div", { class: "view map-view" }, lead("Map", summary, { tools }), progress, legend, chart.element);
}

/** The classes with their colours. Clicked ones are shown, the others are hidden. */
function entries(chart) {
  const { named, lit, points } = chart;
  const sizes = new Uint32Array(OTHER + 1);
  for (const number of chart.numbers) sizes[number % 10] += 1;
  const others = points.classes.filter((name) => !named.includes(name));
  const entry = (number, words) => {
    const dot = h("i");
    dot.style.background = `var(--class-${number})`;
    const click = () => {
      if (!lit.delete(number)) lit.add(number);
      chart.paint(named, lit);
      button.setAttribute("aria-pressed", lit.has(number));
      const label = named.filter((_, at) => lit.has(at + 1));
      history.replaceState(history.state, "", amend({ label }));
    };
    const props = { type: "button", "aria-pressed": `${lit.has(number)}`, onclick: click };
    const button = sizes[number] > 0 && h("button", props, dot, h("span", {}, words), h("small", {}, count(sizes[number])));
    return button;
  };
  return [
    ...named.map((name, at) => entry(at + 1, name)),
    entry(OTHER, many(others.length, "other class", "other classes")),
    entry(0, "no class"),
    others.length > 0 &&
      choice(null, ["Another class…", ...others].map((name) => [name, name]), null, (name) => go(amend({ label: [...lit].map((at) => named[at - 1]).concat(name) }))),
  ].filter(Boolean);
}
