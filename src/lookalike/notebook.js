/* The page of SessionWidget (notebook.py): questions as tiles, results, and buttons. Nothing is loaded from outside. */

const NEXT = { "": "relevant", relevant: "irrelevant", irrelevant: "" };
const WORDS = { "": "not marked", relevant: "yes", irrelevant: "no" };

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** A picture with its name; both are text or data URIs, never HTML. */
function figure(tile) {
  const shown = tile.image ? make("img", { src: tile.image, alt: "" }) : make("span", { className: "missing", textContent: "cannot be read" });
  return [shown, make("span", { className: "name", textContent: tile.name })];
}

function render({ model, el }) {
  let marks = {};

  const title = make("div", { className: "title" });
  const questions = make("div", { className: "tiles" });
  const best = make("div", { className: "tiles small" });
  const status = make("div", { className: "status", role: "status" });
  const name = make("input", { type: "text", placeholder: "name of the class", value: model.get("name") });
  name.setAttribute("aria-label", "Name of the class");
  const buttons = [
    button("Next round", () => ({ action: "round", marks: chosen() })),
    button("Undo", () => ({ action: "undo" })),
    button("Save as class", () => ({ action: "finish", marks: chosen(), name: name.value })),
  ];
  const hint = make("div", { className: "hint", textContent: "Does it match? Click once for yes, twice for no." });
  const bar = make("div", { className: "bar" }, ...buttons.slice(0, 2), name, buttons[2]);
  el.classList.add("lookalike-session");
  el.append(title, hint, questions, bar, status, make("div", { className: "hint", textContent: "Best pictures" }), best);

  function button(text, message) {
    return make("button", {
      type: "button",
      textContent: text,
      onclick: () => {
        setBusy(true);
        model.send(message());
      },
    });
  }

  function setBusy(busy) {
    for (const one of [...buttons, name]) one.disabled = busy || model.get("finished");
    if (busy) status.textContent = "Searching…";
  }

  function chosen() {
    return Object.fromEntries(Object.entries(marks).filter(([, mark]) => mark));
  }

  function show(tile, mark) {
    const face = questions.querySelector(`[data-id="${tile.id}"]`);
    face.dataset.mark = mark;
    face.setAttribute("aria-pressed", mark === "relevant" ? "true" : mark === "irrelevant" ? "mixed" : "false");
    face.setAttribute("aria-label", `${tile.name}: ${WORDS[mark]}`);
  }

  function drawQuestions() {
    const tiles = model.get("questions");
    marks = Object.fromEntries(tiles.map((tile) => [tile.id, tile.mark in NEXT ? tile.mark : ""]));
    questions.replaceChildren(
      ...tiles.map((tile) => {
        const face = make("button", { type: "button", className: "tile" }, ...figure(tile));
        face.dataset.id = tile.id;
        face.onclick = () => {
          marks[tile.id] = NEXT[marks[tile.id]];
          show(tile, marks[tile.id]);
        };
        return face;
      }),
    );
    for (const tile of tiles) show(tile, marks[tile.id]);
  }

  function drawBest() {
    best.replaceChildren(
      ...model.get("best").map((tile) => {
        const face = make("div", { className: "tile" }, ...figure(tile));
        face.dataset.mark = tile.mark;
        return face;
      }),
    );
  }

  function drawText() {
    title.textContent = model.get("title");
    status.textContent = model.get("status");
    setBusy(false);
  }

  const changes = { questions: drawQuestions, best: drawBest, title: drawText, status: drawText, finished: drawText, answer: drawText };
  for (const [trait, draw] of Object.entries(changes)) model.on(`change:${trait}`, draw);
  drawQuestions();
  drawBest();
  drawText();
  return () => {
    for (const [trait, draw] of Object.entries(changes)) model.off(`change:${trait}`, draw);
  };
}

export default { render };
