// Who are you? By a token, once; the browser keeps a cookie that scripts cannot read.
import { post } from "./api.js";
import { button, h } from "./dom.js";

/** Whether somebody signed in here: then there is something to sign out of. */
export function signed(now) {
  try {
    if (now) localStorage.setItem("lookalike.signed", "1");
    else if (now === false) localStorage.removeItem("lookalike.signed");
    return localStorage.getItem("lookalike.signed") !== null;
  } catch {
    return false; // no storage: closing the browser signs out
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
      signed(true);
      await again();
    } catch (refusal) {
      trouble.textContent = refusal.message;
      field.select();
    }
  };
  return h(
    "section",
    { class: "plate" },
    h("h1", {}, "Please say who you are"),
    h(
      "p",
      { id: "token-help" },
      "Whoever runs this collection can give you a token: lookalike token add NAME --role judge",
    ),
    h(
      "form",
      { class: "login", onsubmit: submit },
      h("label", {}, h("span", {}, "Token"), field),
      button(null, "Enter", null, { type: "submit", class: "main" }),
    ),
    trouble,
  );
}
