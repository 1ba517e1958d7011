// What the server says about the collection and who we are, read once and again when something was added.
import { get } from "./api.js";

let known = null;
let fresh = false;

export async function collection(signal) {
  if (!fresh) known = await get("/collection", {}, signal);
  fresh = true;
  return known;
}

/** Something has changed: it is read again when it is next needed. Who we are stays known until then. */
export function forget() {
  fresh = false;
}

const RANKS = ["view", "judge", "manage"];

/** Whether we may: role is "view", "judge" or "manage". */
export const may = (role) => RANKS.indexOf(known?.me?.role ?? "view") >= RANKS.indexOf(role);
