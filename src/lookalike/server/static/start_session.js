// Starts a feedback session from examples or from a class.
import { post } from "./api.js";
import { attempt } from "./notify.js";
import { go, link } from "./router.js";

/** Create a session from {examples, without, label, space, name}, and show it. */
export async function startSession(what) {
  const body = Object.fromEntries(
    Object.entries(what).filter(([, value]) => value && (!Array.isArray(value) || value.length)),
  );
  const session = await attempt(() => post("/sessions", body));
  if (session) go(link("session", session.id, { with: null, without: null }));
  return session;
}
