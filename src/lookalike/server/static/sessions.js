// All sessions: go on, or look at what was found.
import { get } from "./api.js";
import { collection } from "./collection.js";
import { anchor, h } from "./dom.js";
import { heaps } from "./heap.js";
import { link } from "./router.js";
import { empty } from "./states.js";
import { many, moment } from "./words.js";

export async function show(_route, signal) {
  await collection(signal);
  const sessions = await get("/sessions", {}, signal);
  const open = sessions.filter(({ finished }) => !finished);
  const done = sessions.filter(({ finished }) => finished);
  return h(
    "div",
    { class: "view" },
    h(
      "header",
      { class: "lead" },
      h(
        "div",
        {},
        h("h1", {}, "Sessions"),
        h("p", { class: "quiet" }, "You answer yes or no; Lookalike learns what you mean and finds the rest."),
      ),
    ),
    sessions.length
      ? null
      : empty(
          "No session yet. Open a picture and choose “Start a session”.",
          anchor("pictures", "To the pictures", link("pictures"), { class: "button main" }),
        ),
    part("To go on with", open, signal),
    part("Finished", done, signal),
  );
}

function part(heading, sessions, signal) {
  if (!sessions.length) return null;
  const heap = heaps(signal);
  return h(
    "section",
    {},
    h("h2", {}, heading),
    h(
      "ul",
      { class: "cards", role: "list" },
      sessions.map((session) => card(session, heap, signal)),
    ),
  );
}

function card({ id, name, marks, rounds, author, started }, heap, signal) {
  const pile = heap(async () => (await get(`/sessions/${id}`, {}, signal)).relevant);
  const words = `${many(rounds, "round")} · ${marks.relevant} yes, ${marks.irrelevant} no`;
  return h(
    "li",
    {},
    h(
      "a",
      { class: "card", href: link("session", id, { with: null, without: null }) },
      pile,
      h("b", {}, name ?? "Without a name"),
      h("span", { class: "quiet" }, words),
      h("span", { class: "quiet" }, `${author}, ${moment(started)}`),
    ),
  );
}
