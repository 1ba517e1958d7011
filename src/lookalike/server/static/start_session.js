// Starts a feedback session from examples or from a class.
import { post } from "./api.js";
import { keptFilters } from "./filters.js";
import { attempt } from "./notify.js";
import { go, link, NO_EXAMPLES } from "./router.js";

let isStarting = false; // until the session is shown, so that a double click starts one session

/** Create a session from {examples, words, without, without_words, label, space, name}, and show it. */
export async function startSession(what) {
  if (isStarting) return;
  isStarting = true;
  const body = Object.fromEntries(
    Object.entries(what).filter(([, value]) => value && (!Array.isArray(value) || value.length)),
  );
  const session = await attempt(() => post("/sessions", body));
  const end = () => (isStarting = false);
  if (session) {
    document.addEventListener("shown", end, { once: true, capture: true });
    go(link("session", session.id, { ...keptFilters(), ...NO_EXAMPLES }));
  } else end();
}
