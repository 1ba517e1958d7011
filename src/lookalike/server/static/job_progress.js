// The progress of jobs: a stream of events from the server, a chip in the header, and bars for single jobs.
import { address, get } from "./api.js";
import { forget } from "./collection.js";
import { h } from "./dom.js";
import { many, percent } from "./format.js";
import { link } from "./router.js";

const RUNNING = ["queued", "running"];
export const jobs = new Map(); // id → the last that was said of it
export const news = new EventTarget(); // "change" with the job in detail
export const chip = h("a", { class: "chip", href: "#/jobs", hidden: true });

let stream = null;

/** How far a job is, 0 to 1, or null where it is not known. */
export const share = ({ done, total }) => (total ? Math.min(1, done / total) : null);

export const running = ({ state }) => RUNNING.includes(state);

/** Listen, once; what is running already is asked for. A page that nobody sees does not: browsers open few connections. */
export function listen() {
  if (stream || document.hidden) return;
  stream = new EventSource(address("/events"));
  stream.onmessage = (event) => take(JSON.parse(event.data));
  stream.onerror = () => {
    if (stream?.readyState !== EventSource.CLOSED) return; // it comes back by itself
    stream = null; // refused: tried again with the next view
  };
  get("/jobs").then(
    (answer) => answer.jobs.forEach(take),
    () => {},
  ); // the stream tells of those that run
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return listen();
  stream?.close();
  stream = null;
  return undefined;
});

function take(said) {
  const id = said.job ?? said.id;
  const before = jobs.get(id);
  const job = { ...before, ...said, id };
  jobs.set(id, job);
  if (!running(job)) forget(); // there may be more pictures now
  if (!running(job) && said.job) get(`/jobs/${id}`).then(take, () => {}); // what came of it: the stream does not say
  draw();
  news.dispatchEvent(new CustomEvent("change", { detail: job }));
}

function draw() {
  const all = [...jobs.values()].filter(running);
  chip.hidden = !all.length;
  if (!all.length) return;
  const far = share(all[0]);
  chip.replaceChildren(
    h("span", { class: "spinner", "aria-hidden": "true" }),
    h("span", {}, far === null ? "Working" : percent(far)),
  );
  chip.href = link("jobs");
  chip.setAttribute("aria-label", `${many(all.length, "job")} at work${far === null ? "" : `, ${percent(far)}`}`);
}

/** A bar for one job; when it is done, `told` hears of it and the view is shown anew. */
export function follow(job, words, signal, told = () => {}) {
  const text = h("p", {}, words);
  const bar = h("progress", { max: 1, "aria-label": words });
  const place = h("div", { class: "follow" }, text, bar);
  const tell = (now) => {
    const far = share(now);
    if (far !== null) bar.value = far;
    if (now.state === "done") {
      told(now);
      dispatchEvent(new HashChangeEvent("hashchange"));
    } else if (!running(now))
      place.replaceChildren(h("p", {}, now.error?.message ?? now.message ?? "This was stopped."));
  };
  news.addEventListener("change", ({ detail }) => detail.id === job.id && tell(detail), { signal });
  const look = setInterval(async () => tell(await get(`/jobs/${job.id}`, {}, signal).catch(() => job)), 3000); // where the stream is cut
  signal.addEventListener("abort", () => clearInterval(look));
  return place;
}
