// Notifications: text for screen readers, messages that disappear, and dialogs.
import { button, h } from "./dom.js";

/** Announce a sentence to screen readers. */
export function say(text) {
  const live = document.getElementById("live");
  live.textContent = "";
  requestAnimationFrame(() => (live.textContent = text));
}

/** Show a message that disappears; problems stay until they are closed. */
export function note(text, { problem = false, action = null } = {}) {
  const close = button("no", "Close this message", () => card.remove(), { quiet: true, class: "plain" });
  const card = h("div", { class: problem ? "note problem" : "note" }, h("p", {}, text), action, close);
  document.getElementById("notes").append(card);
  say(text);
  if (!problem) setTimeout(() => card.remove(), 5000);
}

/** Run `work`; an error becomes a message, and the result is undefined. */
export async function attempt(work) {
  try {
    return await work();
  } catch (problem) {
    if (problem.name !== "AbortError") note(problem.message, { problem: true });
    return undefined;
  }
}

/** Ask for confirmation before an action that cannot be undone; `act` returns undefined if it failed. */
export function confirm(heading, text, words, act) {
  const submit = async (event) => {
    event.preventDefault();
    if ((await attempt(act)) !== undefined) box.close();
  };
  const yes = button(null, words, null, { type: "submit", class: "main" });
  const no = button(null, "Cancel", () => box.close());
  const box = dialog(heading, h("form", { onsubmit: submit }, h("p", {}, text), h("p", { class: "actions" }, yes, no)));
}

/** Show a dialog; Escape and a click outside close it. */
export function dialog(heading, ...content) {
  const box = h(
    "dialog",
    { class: "dialog", "aria-labelledby": "dialog-title" },
    h(
      "header",
      {},
      h("h2", { id: "dialog-title" }, heading),
      button("no", "Close", () => box.close(), { quiet: true, class: "plain" }),
    ),
    ...content,
  );
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => event.target === box && box.close());
  addEventListener("hashchange", () => box.close(), { once: true });
  document.body.append(box);
  box.showModal();
  return box;
}
