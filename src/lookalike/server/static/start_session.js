// Starts a feedback session from examples or from a class.
import { post } from "./api.js";
import { keptFilters } from "./filters.js";
import { attempt } from "./notify.js";
import { go, link, NO_EXAMPLES } from "./router.js";

/** Create a session from {examples, words, without, without_words, label, space, name}, and show it. */
export async function startSession(what) {
  const body = Object.fromEntries(
    Object.entries(what).filter(([, value]) => value && (!Array.isArray(value) || value.length)),
  );
  const session = await attempt(() => post("/sessions", body));
  if (session) go(link("session", session.id, { ...keptFilters(), ...NO_EXAMPLES }));
  return session;
}
