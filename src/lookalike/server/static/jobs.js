// Long work: add a folder or pictures, look again for changes, with progress as it happens.
import { attempt, note } from "./aloud.js";
import { post, remove, send } from "./api.js";
import { collection, may } from "./collection.js";
import { button, h } from "./dom.js";
import { RUNNING, jobs, news, share } from "./progress.js";
import { empty } from "./states.js";
import { picker } from "./upload.js";
import { count, percent, seconds } from "./words.js";

const KINDS = { add: "Adding pictures", refresh: "Looking again", fit: "Learning", map: "Drawing the map", classify: "Suggesting classes", duplicates: "Looking for duplicates" };
const STATES = { queued: "waiting", waiting: "waiting", running: "running", stopping: "stopping", done: "done", finished: "done", failed: "failed", cancelled: "stopped", stopped: "stopped", lost: "interrupted" };

export async function show(_route, signal) {
  const about = await collection(signal);
  const list = h("div", { class: "jobs" });
  const draw = () => {
    const all = [...jobs.values()].sort((a, b) => String(b.id).localeCompare(String(a.id), "en", { numeric: true }));
    all.sort((a, b) => RUNNING.includes(b.state) - RUNNING.includes(a.state));
    list.replaceChildren(...(all.length ? all.map(card) : [empty("Nothing is being done, and nothing was done since the server started.")]));
  };
  news.addEventListener("change", draw, { signal });
  draw();
  return h("div", { class: "view narrow" }, h("header", { class: "lead" }, h("div", {}, h("h1", {}, "Jobs"), h("p", { class: "quiet" }, "Work that takes longer. It goes on when you leave this page."))), may("manage") ? starters(about) : null, h("h2", {}, "At work and done"), list);
}

function starters({ roots = [] }) {
  const start = (body) => attempt(async () => (await post("/jobs", body), note("Begun."), true));
  const field = h("input", { type: "text", name: "folder", placeholder: roots[0] ?? "/home/me/Pictures", list: "roots", required: true, "aria-label": "Folder on the server", autocomplete: "off", value: roots.length === 1 ? roots[0] : "" });
  const submit = (event) => {
    event.preventDefault();
    start({ kind: "add", folder: field.value.trim() });
  };
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Sending" });
  const upload = (files) =>
    attempt(async () => {
      bar.hidden = false;
      try {
        await send("/uploads/files", "files", files, (far) => (bar.value = far));
        note(`${count(files.length)} sent; they are being added.`);
      } finally {
        bar.hidden = true;
      }
    });
  return h(
    "section",
    { class: "starters" },
    h("h2", {}, "Add pictures"),
    roots.length
      ? h("form", { class: "inline", onsubmit: submit }, field, h("datalist", { id: "roots" }, roots.map((root) => h("option", { value: root }))), button("plus", "Add folder", null, { type: "submit", class: "main" }))
      : h("p", { class: "quiet" }, "Folders can be added here when the server was started with --root FOLDER; or with: lookalike add FOLDER"),
    h("div", { class: "actions" }, picker("Add pictures from this device", upload), button("undo", "Look again for changes", () => start({ kind: "refresh" })), button("classes", "Suggest classes", () => start({ kind: "classify" }), { title: "For all pictures that have no class yet" })),
    bar,
  );
}

function card(job) {
  const far = share(job);
  const running = RUNNING.includes(job.state);
  const name = KINDS[job.kind] ?? job.kind ?? "Work";
  const words = [STATES[job.state] ?? job.state, running && job.stage, job.total ? `${count(job.done)} of ${count(job.total)}` : null, running && job.eta_s ? `about ${seconds(job.eta_s)} left` : null].filter(Boolean).join(" · ");
  const bar = running ? h("progress", { max: 1, value: far ?? null, "aria-label": `${name}, ${far === null ? "running" : percent(far)}` }) : null;
  const stop = running && may("manage") ? button("no", "Stop", () => attempt(() => remove(`/jobs/${job.id}`)), { class: "plain" }) : null;
  return h("article", { class: `job ${job.state}` }, h("div", {}, h("h3", {}, name), h("p", { class: "quiet" }, words), job.message ? h("p", {}, job.message) : null), stop, bar);
}
