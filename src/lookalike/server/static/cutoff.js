// The cut-off of a search: a histogram of the scores, and a slider that leaves out results with a higher score.
import { histogram } from "./charts.js";
import { button, h } from "./dom.js";
import { many } from "./format.js";
import { say } from "./notify.js";
import { amend } from "./router.js";

const STEPS = 200; // positions of the slider
const DIGITS = 4; // as on the command line

/** The cut-off in the address; null without one. */
export function cutoffIn(query) {
  const value = Number.parseFloat(query.get("within"));
  return value >= 0 ? value : null;
}

/** How many of the scores, ascending, are within the cut-off. */
export const inside = (scores, cutoff) => (cutoff === null ? scores.length : scores.filter((one) => one <= cutoff).length);

/** The histogram with its slider; `onchange(n)` is called when n results are left. The address is updated. */
export function cutoffChart(scores, cutoff, onchange) {
  const [low, high] = [scores[0], scores.at(-1)];
  if (scores.length < 2 || low === high) return null;
  const value = (step) => low + (step / STEPS) * (high - low);
  const slider = h("input", {
    type: "range",
    min: 0,
    max: STEPS,
    "aria-label": "Highest score",
    value: cutoff === null ? STEPS : Math.round(((cutoff - low) / (high - low)) * STEPS),
  });
  const text = h("p", { class: "quiet" });
  const all = button(null, "Show all", () => apply(null));
  const place = h("div", {});
  const draw = () => {
    const n = inside(scores, cutoff);
    place.replaceChildren(histogram(scores, cutoff ?? high, DIGITS));
    text.textContent = cutoff === null ? "All results." : `${n} of ${many(scores.length, "result")}: score up to ${cutoff.toFixed(DIGITS)}.`;
    slider.setAttribute("aria-valuetext", text.textContent);
    all.disabled = cutoff === null;
  };
  const apply = (chosen) => {
    cutoff = chosen;
    if (chosen === null) slider.value = STEPS;
    draw();
    const within = chosen === null ? null : chosen.toFixed(DIGITS + 2);
    history.replaceState(history.state, "", amend({ within }));
    onchange(inside(scores, cutoff));
    say(text.textContent);
  };
  const read = () => (Number(slider.value) === STEPS ? null : value(Number(slider.value)));
  slider.addEventListener("input", () => {
    cutoff = read();
    draw();
  });
  slider.addEventListener("change", () => apply(read()));
  draw();
  const line = h("div", { class: "actions" }, text, all);
  return h("details", { class: "story", open: cutoff !== null }, h("summary", {}, "Scores and cut-off"), place, slider, line);
}
