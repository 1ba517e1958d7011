// How a session is laid out: the questions on one side, the best so far on the other.
import { h } from "./dom.js";
import { bar, filtered } from "./filters.js";
import { lead } from "./states.js";

const KEYS = [
  ["y", "yes"],
  ["n", "no"],
  ["space", "skip"],
  ["u", "undo"],
  ["enter", "next round"],
];

const hints = () => KEYS.map(([key, what]) => [h("kbd", {}, key), ` ${what} `]);

/** The elements of a desk in their places. */
export function lay(desk) {
  const { session } = desk.state;
  const name = session.label ?? session.name ?? "";
  const field = h("input", {
    type: "text",
    name: "name",
    value: name,
    placeholder: "Name it",
    "aria-label": "Name of the class",
    autocomplete: "off",
    required: true,
    maxlength: 200,
  });
  const finish = (event) => {
    event.preventDefault();
    desk.finish(field.value.trim());
  };
  return h(
    "div",
    { class: "view desk" },
    lead(name || "What are you looking for?", null, {
      up: "sessions",
      tools: [desk.gauge, h("form", { class: "inline name", onsubmit: finish }, field, desk.nameButton)],
    }),
    h(
      "div",
      { class: "lanes" },
      h(
        "section",
        { class: "asking" },
        h("div", { class: "lane-head" }, h("h2", {}, "Please judge these"), desk.timer),
        desk.questions.element,
        desk.none,
        desk.busy,
        h("div", { class: "acts" }, desk.undoButton, desk.restButton, desk.nextButton),
        h("p", { class: "quiet hint" }, "Click a picture for yes, once more for no. ", hints()),
        desk.words,
        h(
          "details",
          { class: "story", open: filtered(desk.query) },
          h("summary", {}, "Look only among some pictures"),
          bar(desk.query, { signal: desk.signal }),
        ),
      ),
      h(
        "section",
        { class: "standing" },
        h("div", { class: "lane-head" }, h("h2", {}, "Best so far"), desk.allButton),
        desk.best.element,
        desk.divide,
        desk.others.element,
        desk.story,
      ),
    ),
  );
}
