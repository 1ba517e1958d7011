// Jobs: add a folder or upload pictures, check for changes, suggest classes; the list of jobs with their progress.
import { get, post, remove, send } from "./api.js";
import { collection, may } from "./collection.js";
import { button, h } from "./dom.js";
import { count, firstNames, last, many, percent, seconds } from "./format.js";
import { jobs, jobEvents, running, share } from "./job_progress.js";
import { loggedIn } from "./login.js";
import { attempt, note } from "./notify.js";
import { picker } from "./upload.js";
import { empty, lead } from "./view_parts.js";

const KINDS = {
  add: "Adding pictures",
  refresh: "Checking for changes",
  remove: "Removing pictures",
  undo: "Bringing removed pictures back",
  fit: "Fitting models",
  map: "Computing the map",
  classify: "Suggesting classes",
  evaluate: "Evaluating classes",
  duplicates: "Looking for duplicates",
  backup: "Creating a backup",
};
const STATES = { queued: "queued", running: "running", done: "finished", failed: "failed", cancelled: "stopped" };
const ROLES = { view: "can view and search", judge: "can mark and label pictures", manage: "full access" };
const OUTCOMES = { added: "new", copied: "already in the collection", changed: "changed" };
const opened = new Set(); // jobs with open details: every change redraws the cards
const MAX_NAMES = 5; // file names in a message
const BATCH = 50; // files per request

export async function show(_route, signal) {
  const about = await collection(signal);
  const list = h("div", { class: "jobs" });
  const draw = () => {
    const all = [...jobs.values()].sort((a, b) => running(b) - running(a) || Number(b.id) - Number(a.id));
    list.replaceChildren(...(all.length ? all.map(card) : [empty("No jobs yet.")]));
  };
  jobEvents.addEventListener("change", draw, { signal });
  draw();
  return h(
    "div",
    { class: "view narrow" },
    lead("Jobs", "Long-running tasks. They continue if you leave this page."),
    may("manage") ? starters(about) : null,
    about.not_indexed ? notIndexed(await get("/not-indexed", {}, signal)) : null,
    h("h2", {}, "Running and finished"),
    list,
    user(about),
  );
}

/** The files that are not in the collection: the number of each type that is not read, and those with an error. */
function notIndexed({ summary, skipped, n_skipped: n }) {
  const more = n > skipped.length && h("li", {}, `and ${count(n - skipped.length)} more`);
  const lines = skipped.map(({ path, reason }) => h("li", { class: "path" }, h("b", {}, path), ` ${reason}`));
  return h(
    "section",
    { class: "not-indexed" },
    h("h2", {}, "Not indexed"),
    summary && h("p", {}, summary),
    n > 0 &&
      h(
        "details",
        { class: "story" },
        h("summary", {}, `${many(n, "file")} that cannot be read`),
        h("ul", { class: "paths", role: "list" }, lines, more),
      ),
  );
}

function user({ me, version }) {
  const logOut = () => attempt(async () => (await post("/logout"), loggedIn(false), location.reload()));
  return h(
    "p",
    { class: "quiet actions" },
    `You are ${me.name} (${ROLES[me.role]}). Lookalike ${version}.`,
    loggedIn() && button(null, "Log out", logOut),
  );
}

function starters({ roots, limits }) {
  const start = (body) => attempt(async () => (await post("/jobs", body), note("Started."), true));
  const field = h("input", {
    type: "text",
    name: "folder",
    placeholder: roots[0] ?? "/home/me/Pictures",
    list: "roots",
    required: true,
    "aria-label": "Folder on the server",
    autocomplete: "off",
    value: roots.length === 1 ? roots[0] : "",
  });
  const submit = (event) => {
    event.preventDefault();
    start({ kind: "add", folder: field.value.trim() });
  };
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Upload" });
  const status = h("p", { class: "quiet", role: "status" });
  const upload = (chosen) =>
    attempt(async () => {
      const files = [...chosen].filter((file) => file.type.startsWith("image/") || !file.type);
      const others = chosen.length - files.length;
      status.textContent = "";
      if (!files.length) return note("None of these files is a picture. Nothing was uploaded.", { problem: true });
      bar.hidden = false;
      try {
        const all = batches(files, limits.upload_bytes);
        const uploaded = [];
        for (const [number, batch] of all.entries()) {
          const progress = (far) => (bar.value = (number + far) / all.length);
          uploaded.push(...(await send("/uploads/files", "files", batch, progress)).files);
        }
        const known = uploaded.filter((file) => file.known).map(({ name }) => name);
        const more = [
          known.length && ` Already in the collection: ${firstNames(known, MAX_NAMES)}.`,
          others && ` Skipped ${many(others, "file")} that ${others === 1 ? "is not a picture" : "are not pictures"}.`,
        ];
        status.textContent = `${many(files.length, "picture")} uploaded; adding them to the collection.${more.filter(Boolean).join("")}`;
        return undefined;
      } finally {
        bar.hidden = true;
      }
    });
  return h(
    "section",
    { class: "starters" },
    h("h2", {}, "Add pictures"),
    roots.length
      ? h(
          "form",
          { class: "inline", onsubmit: submit },
          field,
          h(
            "datalist",
            { id: "roots" },
            roots.map((root) => h("option", { value: root })),
          ),
          button("plus", "Add folder", null, { type: "submit", class: "main" }),
        )
      : h(
          "p",
          { class: "quiet" },
          "To add folders here, start the server with --root FOLDER. You can also run: lookalike add FOLDER",
        ),
    h(
      "div",
      { class: "actions" },
      picker("Add pictures from this device", upload),
      button("refresh", "Check for changes", () => start({ kind: "refresh" })),
      button("classes", "Suggest classes", () => start({ kind: "classify" }), {
        title: "For all pictures without a class",
      }),
    ),
    bar,
    status,
  );
}

/** The outcome for each file of an add: new, already in the collection, changed, or skipped, with the reason. */
function fileOutcomes(job) {
  const { files = {}, skipped = {} } = job.result ?? {};
  const lines = [
    ...Object.entries(files).map(([path, outcome]) => [path, OUTCOMES[outcome] ?? outcome]),
    ...Object.entries(skipped).map(([path, reason]) => [path, `skipped: ${reason}`]),
  ];
  if (!lines.length) return null;
  const toggle = ({ target }) => (target.open ? opened.add(job.id) : opened.delete(job.id));
  return h(
    "details",
    { class: "story", open: opened.has(job.id), ontoggle: toggle },
    h("summary", {}, `Details (${many(lines.length, "file")})`),
    h(
      "ul",
      { class: "paths", role: "list" },
      lines.map(([path, outcome]) => h("li", { class: "path" }, h("b", {}, plain(path)), ` ${outcome}`)),
    ),
  );
}

/** The name of a file, without the id that the server puts before the names of uploads. */
const plain = (path) => last(path).replace(/^[0-7][0-9a-f]{15}-/, "");

/** Split files into batches within the limits of one request. */
function batches(files, bytes) {
  const all = [[]];
  let size = 0;
  for (const file of files) {
    if (all.at(-1).length === BATCH || (size + file.size > bytes * 0.9 && all.at(-1).length)) {
      all.push([]);
      size = 0;
    }
    all.at(-1).push(file);
    size += file.size;
  }
  return all;
}

function card(job) {
  const far = share(job);
  const active = running(job);
  const name = KINDS[job.kind] ?? job.kind ?? "Job";
  const summary = [
    STATES[job.state] ?? job.state,
    active && job.stage,
    job.total ? `${count(job.done)} of ${count(job.total)}` : null,
    active && job.eta_s ? `about ${seconds(job.eta_s)} left` : null,
  ]
    .filter(Boolean)
    .join(" · ");
  const bar = active
    ? h("progress", { max: 1, value: far ?? null, "aria-label": `${name}, ${far === null ? "running" : percent(far)}` })
    : null;
  const stop =
    active && may("manage")
      ? button("no", "Stop", () => attempt(() => remove(`/jobs/${job.id}`)), { class: "plain" })
      : null;
  return h(
    "article",
    { class: `job ${job.state}` },
    h(
      "div",
      {},
      h("h3", {}, name),
      h("p", { class: "quiet" }, summary),
      job.error || job.message ? h("p", {}, job.error?.message ?? job.message) : null,
      fileOutcomes(job),
    ),
    stop,
    bar,
  );
}
