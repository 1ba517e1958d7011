// Undo: a message with an Undo button after each change, Ctrl+Z, and the job that brings removed pictures back.
import { allAnswered, post } from "./api.js";
import { forget } from "./collection.js";
import { anchor, button } from "./dom.js";
import { follow } from "./job_progress.js";
import { keys } from "./keyboard.js";
import { note } from "./notify.js";
import { go, link, reload } from "./router.js";

const SHOWN_MS = 12_000; // time to undo a change from its message
const changes = []; // the changes of this visit that are not undone, newest last
let sending = Promise.resolve(); // the last request to undo
let idle = null; // the message that there is nothing to undo
let card = null; // the message of the last change; the next one replaces it

const history = () => anchor(null, "History", link("history"), { class: "button plain" });

/**
 * Report a change, with a button that undoes it. If the change leads to another view, `from` and `to` are the addresses
 * before and after it.
 */
export function noteUndo(text, action, { from, to } = {}) {
  if (action) done(text, { action, from, to });
  else note(text);
}

function done(text, change) {
  changes.push(change);
  offer(text, "Undo", () => undo(change));
}

function offer(text, words, act) {
  card?.remove();
  const hint = words === "Undo" ? "Ctrl+Z undoes it." : "";
  card = note(text, { action: button("undo", words, act), ms: SHOWN_MS, hint });
}

/** Undo a change of this visit or of the history, and show the view again. */
export async function undo(change) {
  const at = changes.indexOf(change);
  if (at >= 0) changes.splice(at, 1); // the next Ctrl+Z undoes the change before, even if this one cannot be undone
  const answer = await send(change.action);
  if (!answer) return;
  if (answer.job) return bringBack(answer.job);
  offer(`${answer.text}.`, "Redo", () => redo(change, answer.action));
  show(change.to, change.from);
}

/** Undo the undo of a change. */
export async function redo(change, action) {
  const answer = await send(action);
  if (!answer) return;
  done(`${answer.text}.`, change);
  show(change.from, change.to);
}

/** Undo an action on the server, after those requested before. */
async function send(action) {
  card?.remove();
  try {
    const answer = await (sending = sending.catch(() => {}).then(() => post(`/actions/${action}/undo`)));
    forget();
    return answer;
  } catch ({ message, status }) {
    note(message, { problem: true, action: status === 409 && history() });
    return null;
  }
}

/** Leave an address that the change removed; show any other again. */
function show(removed, address) {
  if (removed && location.hash === removed) go(address);
  else reload();
}

function bringBack(job) {
  const watching = new AbortController();
  const report = ({ message }) => {
    watching.abort();
    progress.remove();
    note(message);
  };
  const progress = note(follow(job, "Bringing the pictures back…", watching.signal, report), { ms: Infinity });
  card = progress;
}

function offerNothing() {
  idle?.remove();
  idle = note("Nothing to undo since you opened the page.", { action: history() });
}

export function listen() {
  keys({
    "Ctrl+z": async () => {
      await allAnswered(); // the last change can still be on its way
      if (changes.length) undo(changes.at(-1));
      else offerNothing();
    },
  });
}
