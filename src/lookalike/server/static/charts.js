// Charts: bars, a curve and a histogram. Each has a text that says the same to screen readers.
import { h } from "./dom.js";
import { many } from "./format.js";

const [WIDTH, HEIGHT, PAD] = [520, 150, 8];

/** An SVG element. */
function draw(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A chart with a caption and the names of its axes: [left end, name, right end] of the horizontal one. */
function chart(text, axis, top, ...shapes) {
  const box = `0 0 ${WIDTH} ${HEIGHT}`;
  const image = draw("svg", { viewBox: box, role: "img", "aria-label": text, preserveAspectRatio: "none" }, ...shapes);
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", { class: "quiet" }, top),
    image,
    h("div", { class: "axis quiet", "aria-hidden": "true" }, axis.map((words) => h("span", {}, words))),
  );
}

/** Horizontal bars: rows of {name, href, value, more, text}. `more` is drawn hatched, after the value. */
export function bars(label, rows) {
  const most = Math.max(1, ...rows.map(({ value, more }) => value + more));
  const row = ({ name, href, value, more, text }) => {
    const bar = h("span", { class: "track" }, h("span", { class: "fill" }), h("span", { class: "more" }));
    bar.style.setProperty("--value", `${(100 * value) / most}%`);
    bar.style.setProperty("--more", `${(100 * more) / most}%`);
    return h("li", {}, h("a", { href }, name), bar, h("span", { class: "quiet" }, text));
  };
  return h("ul", { class: "bars", role: "list", "aria-label": label }, rows.map(row));
}

/** How many matches each mark has found: a list of booleans, in order. The dotted line is a match per mark. */
export function foundCurve(marks) {
  const total = marks.length;
  const x = (n) => PAD + (n / total) * (WIDTH - 2 * PAD);
  const y = (n) => HEIGHT - PAD - (n / total) * (HEIGHT - 2 * PAD);
  let found = 0;
  const points = [`${x(0)},${y(0)}`];
  marks.forEach((match, i) => {
    points.push(`${x(i + 1)},${y(found)}`);
    if (match) found += 1;
    points.push(`${x(i + 1)},${y(found)}`);
  });
  return chart(
    `${found} of ${many(total, "marked picture")} ${found === 1 ? "is a match" : "are matches"}.`,
    ["0", "marked pictures", total],
    `${many(found, "match", "matches")} in ${many(total, "mark")}; the dotted line is a match for every mark`,
    draw("path", { class: "guide", d: `M${x(0)},${y(0)}L${x(total)},${y(total)}` }),
    draw("polyline", { class: "curve", points: points.join(" ") }),
  );
}

/** Histogram of scores, ascending; those above the cut-off are pale. */
export function histogram(scores, cutoff, digits) {
  const [low, high] = [scores[0], scores.at(-1)];
  const bins = Array(Math.min(40, Math.ceil(Math.sqrt(scores.length) * 2))).fill(0);
  const place = (score) => (high > low ? (score - low) / (high - low) : 0);
  for (const score of scores) bins[Math.min(bins.length - 1, Math.floor(place(score) * bins.length))] += 1;
  const [step, most] = [(WIDTH - 2 * PAD) / bins.length, Math.max(...bins)];
  const bar = (n, i) => {
    const tall = (n / most) * (HEIGHT - 2 * PAD);
    const place = { x: PAD + i * step + 0.5, y: HEIGHT - PAD - tall, width: step - 1, height: tall };
    const inside = low + (i / bins.length) * (high - low) <= cutoff;
    return draw("rect", { ...place, class: inside ? "inside" : "outside" });
  };
  const at = PAD + Math.min(1, place(cutoff)) * (WIDTH - 2 * PAD);
  const kept = scores.filter((score) => score <= cutoff).length;
  return chart(
    `${kept} of ${scores.length} results have a score of at most ${cutoff.toFixed(digits)}.`,
    [low.toFixed(digits), "score (0 is best)", high.toFixed(digits)],
    "Number of results by score",
    ...bins.map(bar),
    draw("path", { class: "cut", d: `M${at},0V${HEIGHT}` }),
  );
}
