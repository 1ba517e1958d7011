// The login form: the user enters a token once; the server sets an HttpOnly cookie.
import { post } from "./api.js";
import { button, h } from "./dom.js";

/** Whether the user logged in from this browser; an argument stores a new value. */
export function loggedIn(now) {
  try {
    if (now) localStorage.setItem("lookalike.signed", "1");
    else if (now === false) localStorage.removeItem("lookalike.signed");
    return localStorage.getItem("lookalike.signed") !== null;
  } catch {
    return false; // no storage: “Log out” is not offered
  }
}

export function show(problem, again) {
  const trouble = h("p", { class: "trouble", role: "alert" });
  const field = h("input", {
    type: "password",
    name: "token",
    autocomplete: "current-password",
    required: true,
    "aria-describedby": "token-help",
  });
  const submit = async (event) => {
    event.preventDefault();
    trouble.textContent = "";
    try {
      await post("/login", { token: field.value.trim() });
      loggedIn(true);
      await again();
    } catch (refusal) {
      trouble.textContent = refusal.message;
      field.select();
    }
  };
  return h(
    "section",
    { class: "notice" },
    h("h1", {}, "Log in"),
    h(
      "p",
      { id: "token-help" },
      "Ask the administrator for a token. They can create one with: lookalike token add NAME --role judge",
    ),
    h(
      "form",
      { class: "login", onsubmit: submit },
      h("label", {}, h("span", {}, "Token"), field),
      button(null, "Log in", null, { type: "submit", class: "main" }),
    ),
    trouble,
  );
}
