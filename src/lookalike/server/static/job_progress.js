// Job progress: the server's event stream, a chip in the header, and bars for single jobs.
import { address, get } from "./api.js";
import { forget } from "./collection.js";
import { h } from "./dom.js";
import { many, percent } from "./format.js";
import { link, reload } from "./router.js";

const RUNNING = ["queued", "running"];
export const jobs = new Map(); // id → its last known state
export const jobEvents = new EventTarget(); // "change" events, with the job as detail
export const chip = h("a", { class: "chip", href: "#/jobs", hidden: true });

let stream = null;

/** The progress of a job, 0 to 1, or null if unknown. */
export const share = ({ done, total }) => (total ? Math.min(1, done / total) : null);

export const running = ({ state }) => RUNNING.includes(state);

/** Open the event stream and list the jobs. Hidden tabs do not listen: browsers limit connections per server. */
export function listen() {
  if (stream || document.hidden) return;
  stream = new EventSource(address("/events"));
  stream.onmessage = (event) => update(JSON.parse(event.data));
  stream.onerror = () => {
    if (stream?.readyState !== EventSource.CLOSED) return; // the browser reconnects
    stream = null; // rejected: the next view tries again
  };
  get("/jobs").then(
    (response) => response.jobs.forEach(update),
    () => {},
  ); // running jobs also arrive on the stream
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return listen();
  stream?.close();
  stream = null;
  return undefined;
});

function update(event) {
  const id = event.job ?? event.id;
  const before = jobs.get(id);
  const job = { ...before, ...event, id };
  jobs.set(id, job);
  if (!running(job)) forget(); // the collection may have changed
  if (!running(job) && event.job) get(`/jobs/${id}`).then(update, () => {}); // events do not contain the result
  draw();
  jobEvents.dispatchEvent(new CustomEvent("change", { detail: job }));
}

function draw() {
  const all = [...jobs.values()].filter(running);
  chip.hidden = !all.length;
  if (!all.length) return;
  const far = share(all[0]);
  chip.replaceChildren(
    h("span", { class: "spinner", "aria-hidden": "true" }),
    h("span", {}, far === null ? "Running" : percent(far)),
  );
  chip.href = link("jobs");
  chip.setAttribute("aria-label", `${many(all.length, "job")} running${far === null ? "" : `, ${percent(far)}`}`);
}

/** A progress bar for one job. When it has finished, `ondone` is called, and the view is reloaded unless it returns false. */
export function follow(job, words, signal, ondone = () => {}) {
  const text = h("p", {}, words);
  const bar = h("progress", { max: 1, "aria-label": words });
  const place = h("div", { class: "follow" }, text, bar);
  let isDone = false; // the end of a job is reported more than once: by the stream, with the result, and by the poll
  const show = (now) => {
    const far = share(now);
    if (far !== null) bar.value = far;
    if (!running(now)) clearInterval(poll);
    const step = [now.stage, far !== null && percent(far)].filter(Boolean).join(", ");
    text.textContent = step ? `${words} Now: ${step}.` : words;
    if (now.state === "done") {
      if (isDone) return;
      isDone = true;
      if (ondone(now) !== false) reload();
    } else if (!running(now))
      place.replaceChildren(h("p", {}, now.error?.message ?? now.message ?? "Stopped."));
  };
  jobEvents.addEventListener("change", ({ detail }) => detail.id === job.id && show(detail), { signal });
  // Poll as well, in case the stream is cut.
  const poll = setInterval(async () => show(await get(`/jobs/${job.id}`, {}, signal).catch(() => job)), 3000);
  signal.addEventListener("abort", () => clearInterval(poll));
  return place;
}
