// What the server is working on, live: a stream of events, a chip in the header, and whoever else listens.
import { address, get } from "./api.js";
import { forget } from "./collection.js";
import { h } from "./dom.js";
import { link } from "./router.js";
import { percent } from "./words.js";

export const RUNNING = ["queued", "waiting", "running", "stopping"];
export const jobs = new Map(); // id → the last that was said of it
export const news = new EventTarget(); // "change" with the job in detail
export const chip = h("a", { class: "chip", href: "#/jobs", hidden: true });

let stream = null;

/** How far a job is, 0 to 1, or null where it is not known. */
export const share = ({ done, total }) => (total ? Math.min(1, done / total) : null);

/** Listen, once; what is running already is asked for. */
export function listen() {
  if (stream) return;
  stream = new EventSource(address("/events"));
  stream.onmessage = (event) => take(JSON.parse(event.data));
  stream.addEventListener("job", (event) => take(JSON.parse(event.data)));
  stream.onerror = () => {
    if (stream?.readyState !== EventSource.CLOSED) return; // it comes back by itself
    stream = null; // refused: tried again with the next view
  };
  get("/jobs").then((answer) => (answer.jobs ?? answer).forEach(take), () => {});
}

function take(said) {
  const id = said.job ?? said.id;
  if (id === undefined) return;
  const before = jobs.get(id);
  const job = { ...before, ...said, id };
  jobs.set(id, job);
  if (before && RUNNING.includes(before.state) && !RUNNING.includes(job.state)) forget(); // there may be more pictures now
  draw();
  news.dispatchEvent(new CustomEvent("change", { detail: job }));
}

function draw() {
  const running = [...jobs.values()].filter(({ state }) => RUNNING.includes(state));
  chip.hidden = !running.length;
  if (!running.length) return;
  const far = share(running[0]);
  chip.replaceChildren(h("span", { class: "spinner", "aria-hidden": "true" }), h("span", {}, far === null ? "Working" : percent(far)));
  chip.href = link("jobs");
  chip.setAttribute("aria-label", `${running.length} at work, ${far === null ? "" : percent(far)}`);
}
