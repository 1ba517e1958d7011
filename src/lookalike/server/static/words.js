// Numbers, sizes and times as a person says them.

const NUMBER = new Intl.NumberFormat("en");

export const count = (n) => NUMBER.format(n);

/** 1 picture, 2 pictures. */
export const many = (n, one, several = `${one}s`) => `${count(n)} ${n === 1 ? one : several}`;

export const percent = (share) => `${Math.round(share * 100)} %`;

/** How sure a guess is, never more than can be known: a model knows nothing of what it was not shown. */
export const likely = (share) => (share > 0.99 ? "over 99 %" : percent(share));

const FEW = 50; // pictures with a class: with fewer, a share says more about them than about a picture
const KINDS = 3; // classes: between two, whatever is not one must be the other

/** Whether so little was said that a share means nothing. */
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

/** A moment, given as seconds since 1970 or as text that a Date reads. */
export function moment(when) {
  if (when === null || when === undefined) return "";
  const date = new Date(typeof when === "number" ? when * 1000 : when);
  return Number.isNaN(date.getTime())
    ? String(when)
    : date.toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
}

/** The last part of a path. */
export const last = (path) => (path ?? "").split("/").pop();

/** What a picture is called on the page. */
export const title = (item) => item.name || last(item.path) || item.id;

/** How sure an estimate is, from how far apart its ends are. */
export function sureness({ low, high }) {
  const spread = (high + 1) / (low + 1);
  return spread < 1.5 ? "Quite sure" : spread < 3 ? "Fairly sure" : "A rough guess";
}
