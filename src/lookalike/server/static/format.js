// Format numbers, sizes, times and names as text.

const NUMBER = new Intl.NumberFormat("en");

export const count = (n) => NUMBER.format(n);

/** 1 picture, 2 pictures. */
export const many = (n, one, several = `${one}s`) => `${count(n)} ${n === 1 ? one : several}`;

export const percent = (share) => `${Math.round(share * 100)} %`;

/** A probability, as the command line writes it: never 0 or 100 %, because it is an estimate. */
export const likely = (share) => (share > 0.99 ? "over 99 %" : share < 0.01 ? "under 1 %" : percent(share));

const FEW = 50; // labelled pictures: with fewer, probabilities are unreliable
const KINDS = 3; // classes: with only two, a picture unlike one class is assigned to the other

/** Whether there are too few labels to show probabilities. */
export const isEarly = ({ classes, labelled }) => classes < KINDS || labelled < FEW;

export function bytes(n) {
  if (n < 1000) return many(n, "byte");
  if (n < 1e6) return `${Math.round(n / 1e3)} kB`;
  return n < 1e9 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e9).toFixed(1)} GB`;
}

export function seconds(s) {
  if (s < 0.1) return "under 0.1 s";
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  return s < 5400 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`;
}

/** Date and time, from POSIX seconds or from text that Date parses. */
export function moment(when) {
  if (when === null || when === undefined) return "";
  const date = new Date(typeof when === "number" ? when * 1000 : when);
  return Number.isNaN(date.getTime())
    ? String(when)
    : date.toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
}

/** The last part of a path. */
export const last = (path) => (path ?? "").split("/").pop();

/** The first of these names, and the number of others. */
export function firstNames(names, shown, total = names.length) {
  const listed = names.slice(0, shown);
  return listed.join(", ") + (total > listed.length ? ` and ${count(total - listed.length)} more` : "");
}

/** The name of a picture on the page. */
export const title = (item) => item.name || last(item.path) || item.id;

/** What pictures have in common that are similar in a space, by its name. */
export const SIMILARITIES = { deep: "the same kind of picture", thing: "the same object", color: "the same colours" };

/** How precise an estimate is, by the ratio of its bounds. */
export function sureness({ low, high }) {
  const spread = (high + 1) / (low + 1);
  return spread < 1.5 ? "Good estimate" : spread < 3 ? "Fair estimate" : "Rough estimate";
}
