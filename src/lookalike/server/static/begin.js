// Starting a session: from examples or from a class.
import { attempt } from "./aloud.js";
import { post } from "./api.js";
import { go, link } from "./router.js";

/** begin({examples, without, label, space, name}): to the new session. */
export async function begin(what) {
  const body = Object.fromEntries(
    Object.entries(what).filter(([, value]) => value && (!Array.isArray(value) || value.length)),
  );
  const session = await attempt(() => post("/sessions", body));
  if (session) go(link("session", session.id, { with: null, without: null }));
  return session;
}
