// Session progress: the number of pictures found, the estimated total, and the history of marks.
import { foundCurve } from "./charts.js";
import { thumbnail } from "./api.js";
import { h, icon } from "./dom.js";
import { count, many, moment, sureness } from "./format.js";
import { MARKS } from "./tile.js";

const MARK_BY_KIND = { relevant: "yes", irrelevant: "no", skip: "skip", skipped: "skip" };
const FOUND = { relevant: true, irrelevant: false }; // whether a mark is a match

const REACH = 1.4; // the band ends here, as a multiple of the likely number, even if the estimate is higher

/** Show "You have found 12 of about 25 like this": a bar that is full at 25, and a band for the range of the estimate. */
export function gauge(place, state) {
  const { found, round } = state;
  const estimate = round?.estimate;
  if (!estimate) {
    place.replaceChildren(
      h("p", {}, "You have found ", h("b", {}, count(found)), " so far"),
      h("p", { class: "quiet" }, "Answer a few more to get an estimate of how many there are."),
    );
    return;
  }
  const [value, low, high] = [estimate.value, estimate.low, estimate.high].map((n) => Math.max(found, Math.round(n)));
  const bar = h(
    "div",
    {
      class: "bar",
      role: "meter",
      "aria-label": "Found",
      "aria-valuemin": 0,
      "aria-valuemax": Math.max(value, 1),
      "aria-valuenow": found,
      "aria-valuetext": `${found} of about ${value}`,
    },
    h("span", { class: "range" }),
    h("span", { class: "track" }, h("span", { class: "fill" })),
  );
  const most = Math.max(1, Math.min(high, REACH * value)); // at the right end
  const shares = { found: found / Math.max(value, 1), likely: value / most, low: low / most };
  for (const [name, share] of Object.entries(shares)) bar.style.setProperty(`--${name}`, `${100 * share}%`);
  bar.classList.toggle("open", high > most);
  const range = low === high ? `${count(low)} in total` : `${count(low)} to ${count(high)} in total`;
  place.replaceChildren(
    h("p", {}, "You have found ", h("b", {}, count(found)), " of about ", h("b", {}, count(value)), " like this"),
    bar,
    h("p", { class: "quiet" }, `${sureness({ low, high })}: ${range}`),
  );
}

/** The matches per mark as a curve, and the log as a list, newest first, with one line per step. */
export function history(log, { session }) {
  const events = (log.events ?? log).filter((event) => event.kind !== "shown" && event.kind !== "show");
  const steps = [];
  for (const event of events) {
    const last = steps.at(-1);
    if (last && last.kind === event.kind && last.round === event.round && last.at === event.at)
      last.ids.push(event.item);
    else steps.push({ ...event, ids: [event.item] });
  }
  if (!steps.length) return h("p", { class: "quiet" }, "Nothing yet.");
  const line = (step) => {
    const mark = MARK_BY_KIND[step.kind];
    const label = mark ? [icon(mark), MARKS[mark]] : [icon("undo"), step.kind === "undo" ? "Undone" : step.kind];
    const pictures = step.ids
      .filter(Boolean)
      .slice(0, 6)
      .map((id) => h("img", { src: thumbnail(id, 64), alt: "", width: 44, height: 33, loading: "lazy" }));
    const who = step.author && step.author !== session.author ? `, ${step.author}` : "";
    return h(
      "li",
      {},
      h("span", { class: `mark-name ${mark ?? ""}` }, label),
      pictures,
      h(
        "span",
        { class: "quiet" },
        `${step.ids.length > 1 ? `${many(step.ids.length, "picture")}, ` : ""}round ${step.round ?? 0}, ${moment(step.at)}${who}`,
      ),
    );
  };
  const marks = events.filter(({ kind, round, undone }) => round > 0 && !undone && kind in FOUND);
  return h(
    "div",
    {},
    marks.length > 1 && foundCurve(marks.map(({ kind }) => FOUND[kind])),
    h("ol", { class: "log", role: "list" }, steps.reverse().slice(0, 100).map(line)),
  );
}
