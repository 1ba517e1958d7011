// The page: its header, and the view that the address selects.
import { say } from "./notify.js";
import { Problem, UNREACHABLE } from "./api.js";
import { collection } from "./collection.js";
import { anchor, button, h, icon } from "./dom.js";
import { listen as listenKeys, showKeys, typing } from "./keyboard.js";
import { link, listen, onlyExamplesDiffer, read, saveScroll, updateLinks } from "./router.js";
import { failed, notice, waiting } from "./view_parts.js";
import { themeSwitch } from "./theme_switch.js";
import * as tray from "./tray.js";
import * as upload from "./upload.js";
import * as undo from "./undo.js";
import * as work from "./job_progress.js";
import * as pictures from "./pictures.js";

// The start page is part of the first load; the other views are imported when first opened.
const VIEWS = {
  pictures: () => pictures,
  item: () => import("./item.js"),
  search: () => import("./search.js"),
  sessions: () => import("./sessions.js"),
  session: () => import("./session.js"),
  saved: () => import("./saved.js"),
  classes: () => import("./classes.js"),
  class: () => import("./class.js"),
  duplicates: () => import("./duplicates.js"),
  compare: () => import("./compare.js"),
  map: () => import("./map.js"),
  jobs: () => import("./jobs.js"),
  history: () => import("./history.js"),
  login: () => import("./login.js"),
};
const PLACES = [
  ["pictures", "Pictures", "pictures", ["pictures", "item", "search"]],
  ["sessions", "Sessions", "session", ["sessions", "session", "saved"]],
  ["classes", "Classes", "classes", ["classes", "class"]],
  ["duplicates", "Duplicates", "duplicates", ["duplicates"]],
  ["map", "Map", "map", ["map"]],
  ["jobs", "Jobs", "jobs", ["jobs"]],
];
const main = document.getElementById("main");
const top = document.getElementById("top");
const brand = h(
  "a",
  { class: "brand", href: "#/" },
  h("img", { src: "/icon.svg", alt: "", width: 28, height: 28 }),
  h("span", {}, "Lookalike"),
);
let current = new AbortController(); // aborts when the user leaves the view
let first = true;
let shown = null; // the address of the current view
let moves = 0; // number of views shown so far

function header(route) {
  const links = PLACES.map(([view, words, drawing, views]) =>
    h(
      "a",
      { href: link(view), "aria-current": views.includes(route.view) ? "page" : null },
      icon(drawing),
      h("span", {}, words),
    ),
  );
  top.replaceChildren(
    brand,
    h("nav", { "aria-label": "Views" }, links),
    h(
      "div",
      { class: "tools" },
      work.chip,
      h(
        "a",
        {
          class: "button plain",
          href: link("history"),
          title: "History",
          "aria-current": route.view === "history" ? "page" : null,
        },
        icon("history"),
        h("span", { class: "unseen" }, "History"),
      ),
      themeSwitch,
      button("why", "Keyboard shortcuts", showKeys, { quiet: true, class: "plain" }),
    ),
  );
}

/** The module of a view; null if the name is unknown. */
async function load(name) {
  if (!Object.hasOwn(VIEWS, name)) return null;
  try {
    return await VIEWS[name]();
  } catch {
    throw new Problem("unreachable", UNREACHABLE);
  }
}

/** The place of the focus in a grid, for a new version of the view: only the user moves the focus. */
function focusedTile() {
  const cell = document.activeElement.closest("main [role=grid] [role=gridcell]");
  if (!cell) return null;
  const index = Number(cell.dataset.index ?? [...cell.parentElement.children].indexOf(cell));
  return { grid: cell.closest("[role=grid]").ariaLabel, id: cell.querySelector("[data-focus]")?.dataset.id, index };
}

/** Whether the focus is in a view or a dialog or, if the view was only reloaded, on any control. */
function isUsed(view, isReload) {
  const { activeElement: focus } = document;
  return view.contains(focus) || document.querySelector("dialog[open]") !== null || (isReload && focus !== document.body);
}

/** Show the view of the current address. The old view stays until the new one is ready or loading takes too long. */
async function render(scroll, old = "") {
  const sameView = old && onlyExamplesDiffer(old);
  if (sameView && read().view !== "search") {
    updateLinks(document, old);
    tray.show(read());
    return saveScroll();
  }
  const isReload = location.hash === shown; // after a change, such as an undo
  shown = location.hash;
  current.abort();
  current = new AbortController();
  moves += 1;
  const { signal } = current;
  const route = read();
  document.body.dataset.view = route.view;
  header(route);
  const loading = !sameView && !isReload && setTimeout(() => main.replaceChildren(waiting()), first ? 0 : 300);
  let element;
  try {
    upload.setLimits((await collection(signal)).limits);
    tray.show(route);
    work.listen();
    const view = route.view === "login" ? null : await load(route.view);
    element = view
      ? await view.show(route, signal)
      : notice(
          "Not found",
          "There is no page at this address. The link may be incomplete.",
          anchor(null, "Show all pictures", "#/"),
        );
  } catch (problem) {
    if (signal.aborted || problem.name === "AbortError") return;
    element =
      problem.status === 401
        ? (await load("login")).show(problem, render)
        : failed(problem, () => render(scroll), signal);
    if (!problem.status && problem.kind === undefined) console.error(problem);
  } finally {
    clearTimeout(loading);
  }
  if (signal.aborted) return;
  const focused = (sameView || isReload) && focusedTile();
  const y = scroll ?? (sameView ? scrollY : 0);
  main.replaceChildren(element);
  // Grids must know their height before the page scrolls.
  for (const grid of element.querySelectorAll(".grid")) grid.dispatchEvent(new Event("measure"));
  scrollTo({ top: y, behavior: "instant" });
  dispatchEvent(new Event("scroll")); // the browser sends none if the old view was at the same position
  const heading = element.querySelector("h1")?.textContent;
  document.title = heading && heading !== "Lookalike" ? `${heading} – Lookalike` : "Lookalike";
  const grid = focused ? [...element.querySelectorAll("[role=grid]")].find((one) => one.ariaLabel === focused.grid) : null;
  grid?.dispatchEvent(new CustomEvent("refocus", { detail: focused }));
  if (first) first = false;
  else if (!sameView && !isUsed(element, isReload)) main.focus({ preventScroll: true });
  element.dispatchEvent(new CustomEvent("shown"));
  if (heading) say([heading, element.querySelector(".lead p.quiet")?.textContent].filter(Boolean).join(". "));
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || typing(event) || !["item", "compare"].includes(read().view)) return;
  if (moves > 1) history.back();
  else location.hash = link("pictures"); // the visit started here
});
addEventListener("keydown", async (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  event.preventDefault(); // the browser's own search
  const { openPalette } = await import("./palette.js");
  openPalette(PLACES);
});
listenKeys();
undo.listen();
upload.listen();
listen(render);
