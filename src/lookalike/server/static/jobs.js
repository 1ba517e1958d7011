// Long work: add a folder or pictures, look again for changes, with progress as it happens.
import { post, remove, send } from "./api.js";
import { collection, may } from "./collection.js";
import { button, h } from "./dom.js";
import { count, last, many, percent, seconds } from "./format.js";
import { jobs, news, running, share } from "./job_progress.js";
import { signed } from "./login.js";
import { attempt, note } from "./notify.js";
import { picker } from "./upload.js";
import { empty, lead } from "./view_parts.js";

const KINDS = {
  add: "Adding pictures",
  refresh: "Looking again",
  remove: "Taking pictures out",
  fit: "Learning",
  map: "Drawing the map",
  classify: "Suggesting classes",
  duplicates: "Looking for duplicates",
  backup: "Making a backup",
};
const STATES = { queued: "waiting", running: "running", done: "done", failed: "failed", cancelled: "stopped" };
const ROLES = { view: "may look and search", judge: "may judge and name", manage: "may do everything" };
const OUTCOMES = { added: "new", copied: "known already", changed: "changed" };
const opened = new Set(); // jobs whose files are shown: cards are drawn anew with every change
const MAX_NAMES = 5; // names in a message
const AT_ONCE = 50; // files in one request

export async function show(_route, signal) {
  const about = await collection(signal);
  const list = h("div", { class: "jobs" });
  const draw = () => {
    const all = [...jobs.values()].sort((a, b) => running(b) - running(a) || Number(b.id) - Number(a.id));
    list.replaceChildren(...(all.length ? all.map(card) : [empty("Nothing is being done.")]));
  };
  news.addEventListener("change", draw, { signal });
  draw();
  return h(
    "div",
    { class: "view narrow" },
    lead("Jobs", "Work that takes longer. It goes on when you leave this page."),
    may("manage") ? starters(about) : null,
    h("h2", {}, "At work and done"),
    list,
    person(about),
  );
}

function person({ me, version }) {
  const leave = () => attempt(async () => (await post("/logout"), signed(false), location.reload()));
  return h(
    "p",
    { class: "quiet actions" },
    `You are ${me.name} (${ROLES[me.role]}). Lookalike ${version}.`,
    signed() && button(null, "Sign out", leave),
  );
}

function starters({ roots, limits }) {
  const start = (body) => attempt(async () => (await post("/jobs", body), note("Begun."), true));
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
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Sending" });
  const status = h("p", { class: "quiet", role: "status" });
  const upload = (chosen) =>
    attempt(async () => {
      const files = [...chosen].filter((file) => file.type.startsWith("image/") || !file.type);
      const left = chosen.length - files.length;
      status.textContent = "";
      if (!files.length) return note("None of these files is a picture: nothing was sent.", { problem: true });
      bar.hidden = false;
      try {
        const all = batches(files, limits.upload_bytes);
        const kept = [];
        for (const [number, batch] of all.entries()) {
          const answer = await send("/uploads/files", "files", batch, (far) => (bar.value = (number + far) / all.length));
          kept.push(...answer.files);
        }
        const known = kept.filter((file) => file.known).map(({ name }) => name);
        const more = [
          known.length && ` Known already: ${firstNames(known)}.`,
          left && ` ${many(left, "file is", "files are")} no picture and left out.`,
        ];
        status.textContent = `${many(files.length, "picture")} sent, to be added.${more.filter(Boolean).join("")}`;
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
          "Folders can be added here when the server was started with --root FOLDER; or with: lookalike add FOLDER",
        ),
    h(
      "div",
      { class: "actions" },
      picker("Add pictures from this device", upload),
      button("undo", "Look again for changes", () => start({ kind: "refresh" })),
      button("classes", "Suggest classes", () => start({ kind: "classify" }), {
        title: "For all pictures that have no class yet",
      }),
    ),
    bar,
    status,
  );
}

/** A few names, and how many more. */
function firstNames(names) {
  const rest = names.length - MAX_NAMES;
  return names.slice(0, MAX_NAMES).join(", ") + (rest > 0 ? ` and ${count(rest)} more` : "");
}

/** What became of the files of an add: new ones, known ones, and those that were skipped, with the reason. */
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
    h("summary", {}, `What became of ${lines.length === 1 ? "the file" : `${count(lines.length)} files`}`),
    h(
      "ul",
      { class: "paths", role: "list" },
      lines.map(([path, outcome]) => h("li", { class: "path" }, h("b", {}, plain(path)), ` ${outcome}`)),
    ),
  );
}

/** The name of a file; what was sent has our id before it, which nobody needs to see. */
const plain = (path) => last(path).replace(/^[0-7][0-9a-f]{15}-/, "");

/** Files in groups that one request may carry. */
function batches(files, bytes) {
  const all = [[]];
  let size = 0;
  for (const file of files) {
    if (all.at(-1).length === AT_ONCE || (size + file.size > bytes * 0.9 && all.at(-1).length)) {
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
  const name = KINDS[job.kind] ?? job.kind ?? "Work";
  const summary = [
    STATES[job.state] ?? job.state,
    active && job.stage,
    job.total ? `${count(job.done)} of ${count(job.total)}` : null,
    active && job.eta_s ? `about ${seconds(job.eta_s)} left` : null,
  ]
    .filter(Boolean)
    .join(" · ");
  const bar = active
    ? h("progress", { max: 1, value: far ?? null, "aria-label": `${name}, ${far === null ? "at work" : percent(far)}` })
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
