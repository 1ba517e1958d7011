// What the server says about the collection and who we are, read once and again when something was added.
import { get } from "./api.js";

let known = null;

export async function collection(signal) {
  known ??= await get("/collection", {}, signal);
  return known;
}

export function forget() {
  known = null;
}

const RANKS = ["view", "judge", "manage"];

/** Whether we may: role is "view", "judge" or "manage". */
export const may = (role) => RANKS.indexOf(known?.me?.role ?? "view") >= RANKS.indexOf(role);
