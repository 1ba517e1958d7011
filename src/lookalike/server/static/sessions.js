// The lists of saved searches and of sessions: unfinished ones to continue or delete, and finished ones.
import { get, remove } from "./api.js";
import { cardThumbnails } from "./card_thumbnails.js";
import { collection, may } from "./collection.js";
import { anchor, button, h } from "./dom.js";
import { many, moment } from "./format.js";
import { confirm, note } from "./notify.js";
import { link, NO_EXAMPLES, reload } from "./router.js";
import { savedSearches } from "./saved.js";
import { empty, lead } from "./view_parts.js";

export async function show(_route, signal) {
  const { me } = await collection(signal);
  const [sessions, saved] = await Promise.all(["/sessions", "/saved"].map((path) => get(path, {}, signal)));
  const open = sessions.filter(({ finished }) => !finished);
  const done = sessions.filter(({ finished }) => finished);
  return h(
    "div",
    { class: "view" },
    lead("Sessions", "Answer yes or no for a few pictures; Lookalike learns what you are looking for and finds more."),
    sessions.length || saved.length
      ? null
      : empty(
          "No sessions yet. Open a picture and choose “Start a session”.",
          anchor("pictures", "Show all pictures", link("pictures"), { class: "button main" }),
        ),
    savedSearches(saved, signal),
    part("Unfinished", open, me, signal),
    part("Finished", done, me, signal),
  );
}

function part(heading, sessions, me, signal) {
  if (!sessions.length) return null;
  const makeThumbnails = cardThumbnails(signal);
  return h(
    "section",
    {},
    h("h2", {}, heading),
    h(
      "ul",
      { class: "cards", role: "list" },
      sessions.map((session) => card(session, makeThumbnails, me, signal)),
    ),
  );
}

function card({ id, name, marks, rounds, author, started, finished }, makeThumbnails, me, signal) {
  const thumbnails = makeThumbnails(async () => (await get(`/sessions/${id}`, {}, signal)).relevant);
  const counts = `${many(rounds, "round")} · ${marks.relevant} yes, ${marks.irrelevant} no`;
  const answers = many(marks.relevant + marks.irrelevant + marks.skip, "answer");
  const title = `the session ${name ?? "(untitled)"}`;
  const mine = may("manage") || (may("judge") && author === me.name);
  const origin = `${author}, ${moment(started)}`;
  const warning = `${origin}. This cannot be undone. The pictures stay in the collection.`;
  const forget = () =>
    confirm(`Delete ${title} with ${answers}?`, warning, "Delete", async () => {
      await remove(`/sessions/${id}`);
      note("Session deleted.");
      reload();
      return true;
    });
  return h(
    "li",
    {},
    h(
      "a",
      { class: "card", href: link("session", id, NO_EXAMPLES) },
      thumbnails,
      h("b", {}, name ?? "Untitled"),
      h("span", { class: "quiet" }, counts),
      h("span", { class: "quiet" }, origin),
      h("span", { class: "unseen" }, id), // sessions can have the same name
    ),
    !finished && mine && button("no", `Delete ${title}, ${id}`, forget, { quiet: true }),
  );
}
