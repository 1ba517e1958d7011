// All sessions: go on, or look at what was found.
import { get, remove } from "./api.js";
import { cardThumbnails } from "./card_thumbnails.js";
import { collection, may } from "./collection.js";
import { anchor, button, h } from "./dom.js";
import { many, moment } from "./format.js";
import { confirm, note } from "./notify.js";
import { link } from "./router.js";
import { empty, lead } from "./view_parts.js";

export async function show(_route, signal) {
  const { me } = await collection(signal);
  const sessions = await get("/sessions", {}, signal);
  const open = sessions.filter(({ finished }) => !finished);
  const done = sessions.filter(({ finished }) => finished);
  return h(
    "div",
    { class: "view" },
    lead("Sessions", "You answer yes or no; Lookalike learns what you mean and finds the rest."),
    sessions.length
      ? null
      : empty(
          "No session yet. Open a picture and choose “Start a session”.",
          anchor("pictures", "To the pictures", link("pictures"), { class: "button main" }),
        ),
    part("To go on with", open, me, signal),
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
  const mine = may("manage") || (may("judge") && author === me.name);
  const forget = () =>
    confirm("Delete this session?", `${answers} will be forgotten. The pictures stay.`, "Delete", async () => {
      await remove(`/sessions/${id}`);
      note("The session is deleted.");
      dispatchEvent(new HashChangeEvent("hashchange"));
      return true;
    });
  return h(
    "li",
    {},
    h(
      "a",
      { class: "card", href: link("session", id, { with: null, without: null }) },
      thumbnails,
      h("b", {}, name ?? "Without a name"),
      h("span", { class: "quiet" }, counts),
      h("span", { class: "quiet" }, `${author}, ${moment(started)}`),
    ),
    !finished && mine && button("no", `Delete the session ${name ?? "without a name"}`, forget, { quiet: true }),
  );
}
