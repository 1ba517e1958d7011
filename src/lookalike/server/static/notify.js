// Notifications: text for screen readers, messages that disappear, and dialogs.
import { button, h } from "./dom.js";

/** Announce a sentence to screen readers. */
export function say(text) {
  const live = document.getElementById("live");
  live.textContent = "";
  requestAnimationFrame(() => (live.textContent = text));
}

/**
 * Show a message, as text or an element, with a hint for screen readers. It disappears after `ms` milliseconds, but not
 * under the pointer or the focus. Problems stay until they are closed.
 */
export function note(content, { problem = false, action = null, ms = 5000, hint = "" } = {}) {
  const text = content instanceof Node ? content : h("p", {}, content);
  const name = `Close this message: ${text.textContent}`;
  const close = button("no", "Close", () => card.remove(), { quiet: true, class: "plain", "aria-label": name });
  const card = h("div", { class: problem ? "note problem" : "note" }, text, action, close);
  document.getElementById("notes").append(card);
  say(`${text.textContent} ${hint}`);
  const expire = () => (card.matches(":hover, :focus-within") ? wait() : card.remove());
  const wait = () => setTimeout(expire, ms);
  if (!problem && ms < Infinity) wait();
  return card;
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

/** Run `work` with a button disabled, so that a double click runs it once. */
export async function whileDisabled(control, work) {
  control.disabled = true;
  try {
    return await work();
  } finally {
    control.disabled = false;
  }
}

/** Ask for confirmation before something is removed, with the focus on Cancel; `act` returns undefined if it failed. */
export function confirm(heading, text, words, act) {
  form(heading, h("p", {}, text), words, act, { class: "danger" }).querySelector(".cancel").focus();
}

/** Show a dialog with a form, its button and Cancel; `act` returns undefined if it failed. */
export function form(heading, content, words, act, props = { class: "main" }) {
  const submit = async (event) => {
    event.preventDefault();
    if ((await whileDisabled(send, () => attempt(act))) !== undefined) box.close();
  };
  const cancel = button(null, "Cancel", () => box.close(), { class: "cancel" });
  const send = button(null, words, null, { type: "submit", ...props });
  const box = dialog(heading, h("form", { onsubmit: submit }, content, h("p", { class: "actions" }, cancel, send)));
  return box;
}

/** Show a dialog that asks for a name, with elements `before` and `after` the field, and call `act` with the name. */
export function askName(heading, words, act, { label = "Name", value = "", list = null, before = null, after = null } = {}) {
  const field = h("input", { type: "text", required: true, maxlength: 200, autocomplete: "off", list, value });
  const name = h("label", {}, h("span", {}, label), field);
  const submit = async () => (field.value.trim() ? act(field.value.trim()) : undefined);
  const box = form(heading, [before, name, after], words, submit);
  field.focus();
  field.select();
  return box;
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
