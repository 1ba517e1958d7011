// The server's summary of the collection and of the current user, cached until something changes.
import { get } from "./api.js";

let known = null;
let fresh = false;

export async function collection(signal) {
  if (!fresh) known = await get("/collection", {}, signal);
  fresh = true;
  return known;
}

/** Mark the cached summary as stale. It is read again when next needed; until then, `may` uses the old one. */
export function forget() {
  fresh = false;
}

const RANKS = ["view", "judge", "manage"];

/** Whether the current user has this role or a higher one: "view", "judge" or "manage". */
export const may = (role) => RANKS.indexOf(known?.me?.role ?? "view") >= RANKS.indexOf(role);
