// The timeline: a heading for each month in the grid, and a slider next to it that jumps to a month.
import { get } from "./api.js";
import { h } from "./dom.js";

const YEAR_GAP = 4; // percent between the years on the slider, at least

/** The sections of a grid in the order "taken": one per month, newest first. */
export async function monthSections(what, signal) {
  const { months } = await get("/timeline", what, signal);
  const format = new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" });
  const named = (month) => (month ? format.format(new Date(`${month}-01T00:00Z`)) : "Unknown date");
  return months.map(({ month, n }) => ({ title: named(month), year: month?.slice(0, 4), n }));
}

/** The grid, with the slider on its right; its top is the newest month. */
export function withSlider(grid, signal) {
  const last = grid.total && grid.sections ? grid.sections.length - 1 : 0;
  const field = h("input", { type: "range", max: last, value: 0, "aria-label": "Timeline", "aria-orientation": "vertical" });
  const bubble = h("output", {});
  const slider = h("div", { class: "slider", hidden: !last }, years(grid.sections ?? []), field, bubble);
  const head = () => Math.max(0, document.getElementById("top").getBoundingClientRect().bottom);
  const draw = () => {
    if (!grid.blocks || !slider.isConnected) return;
    const { top } = grid.element.getBoundingClientRect();
    slider.style.setProperty("--head", `${head()}px`);
    slider.style.setProperty("--from", `${Math.max(head(), top)}px`);
    // The last months can be on one screen: there, the slider keeps the value that was chosen.
    if (!slider.matches(":focus-within")) field.value = grid.blocks.indexOf(grid.block("top", head() - top + 1));
    bubble.style.top = `${(field.value / last) * 100}%`;
    bubble.textContent = grid.blocks[field.value].title;
    field.setAttribute("aria-valuetext", bubble.textContent);
  };
  const jump = () => {
    const { top } = grid.blocks[field.value];
    scrollBy({ top: grid.element.getBoundingClientRect().top + top - head(), behavior: "instant" });
    draw();
  };
  field.addEventListener("input", jump);
  field.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12 }[event.key]; // browsers disagree on the direction
    if (!by) return;
    event.preventDefault();
    field.value = Number(field.value) + by;
    jump();
  });
  addEventListener("scroll", draw, { passive: true, signal });
  return h("div", { class: "timeline" }, grid.element, slider);
}

/** The years, at the height of their last month. */
function years(sections) {
  let below = -YEAR_GAP;
  const labels = sections.map(({ year }, index) => {
    const height = (index / (sections.length - 1)) * 100;
    if (!year || year === sections[index - 1]?.year || height < below + YEAR_GAP) return null;
    below = height;
    const label = h("span", {}, year);
    label.style.top = `${height}%`;
    return label;
  });
  return h("div", { "aria-hidden": "true" }, labels);
}
