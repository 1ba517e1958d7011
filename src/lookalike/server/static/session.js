// The view of a feedback session: the pictures to mark and the best so far.
import { get, thumbnail } from "./api.js";
import { classNames } from "./class_names.js";
import { collection, forget, may } from "./collection.js";
import { button, h, icon } from "./dom.js";
import { bar, filter, filtered } from "./filters.js";
import { many, seconds, title } from "./format.js";
import { keys } from "./keyboard.js";
import { markTile } from "./mark_tile.js";
import { attempt, say } from "./notify.js";
import { PictureList } from "./picture_list.js";
import { showReadOnly } from "./read_only_session.js";
import { go, link } from "./router.js";
import { gauge, history } from "./session_progress.js";
import { SessionState } from "./session_state.js";
import { MARKS } from "./tile.js";
import { noteUndo } from "./undo.js";
import { empty, lead, waiting } from "./view_parts.js";
import { why } from "./why.js";

const KEYS = [
  ["y", "yes"],
  ["n", "no"],
  ["space", "skip"],
  ["u", "undo"],
  ["enter", "next round"],
];

const keyHints = () => KEYS.map(([key, what]) => [h("kbd", {}, key), ` ${what} `]);
const LESS = 20; // pictures shown below the line

export async function show({ arg: id, query }, signal) {
  const [session, about] = await Promise.all([get(`/sessions/${id}`, {}, signal), collection(signal)]);
  const mine = may("manage") || (may("judge") && session.author === about.me.name);
  const state = new SessionState(session, filter(query));
  if (session.finished || !mine) return showReadOnly(state, mine, signal);
  return new SessionView(state, query, signal).element;
}

class SessionView {
  constructor(state, query, signal) {
    Object.assign(this, { state, query, signal, tiles: new Map(), likely: [] });
    const onkey = (event, tile) => this.#key(event, tile);
    this.questions = new PictureList("Pictures to mark", { signal, onkey, kind: "judge" });
    this.best = new PictureList("Best so far", { signal, onkey, kind: "best" });
    this.others = new PictureList("Less likely", { signal, onkey, kind: "best" });
    this.questions.follow(this.best);
    this.best.follow(this.others);
    this.divide = h("h3", { class: "divide", hidden: true }, "Less likely");
    this.allButton = button("yes", "", () => this.all(), {
      title: "Mark all unmarked pictures above the line as yes",
    });
    this.gauge = h("div", { class: "gauge" });
    this.hints = h("div", { class: "words" });
    this.timer = h("p", { class: "quiet timer" });
    this.story = h("details", { class: "story" }, h("summary", {}, "Answers so far"), h("div", {}));
    this.story.addEventListener("toggle", () => this.#showHistory());
    this.undoButton = button("undo", "Undo", () => this.undo());
    this.nextButton = button("next", "Next round", () => this.next(), { class: "main" });
    this.restButtons = ["yes", "no"].map((kind) =>
      button(kind, `${MARKS[kind]} to the rest`, () => this.rest(kind), {
        title: `Mark all unmarked pictures as ${kind}`,
      }),
    );
    this.none = empty("There are no more questions. Save the result as a class, or mark some of the best so far.");
    this.failed = empty("There are no pictures to mark. Start a new session with other examples.");
    this.failed.hidden = true;
    this.busy = h("div", { class: "busy", hidden: true }, waiting("Learning from your answers…"));
    this.nameButton = button("classes", "Save as class", null, { type: "submit" });
    this.element = layout(this);
    state.addEventListener("change", () => this.#draw(), { signal });
    keys(
      {
        u: () => this.undo(),
        "Ctrl+z": () => this.undo(),
        Enter: () => this.next(),
        ArrowDown: () => this.questions.focus(),
        ArrowRight: () => this.questions.focus(),
      },
      signal,
    );
    this.element.addEventListener("shown", () => this.next(true), { once: true });
    this.#fill();
  }

  /** Fill the lists with the pictures of the round. */
  #fill() {
    const { round } = this.state;
    this.tiles.clear();
    const tile = (item, asked) => {
      const made = markTile(this, item, asked);
      this.tiles.set(item.id, [...(this.tiles.get(item.id) ?? []), made]);
      return made.element;
    };
    const questions = round?.questions ?? [];
    this.questions.fill(
      round ? questions.map((item) => tile(item, true)) : Array.from({ length: 9 }, () => h("span", { class: "pic" })),
    );
    const ranked = round?.best ?? [];
    // Without negative marks, the sign of a score means little.
    const hasNegatives = round?.number > 1 && [...this.state.marks.values()].includes("no");
    this.likely = hasNegatives ? ranked.filter(({ score }) => score < 0).map(({ item }) => item.id) : [];
    const cut = this.likely.length || ranked.length;
    this.best.fill(ranked.slice(0, cut).map(({ item }) => tile(item, false)));
    this.others.fill(ranked.slice(cut, cut + LESS).map(({ item }) => tile(item, false)));
    this.divide.hidden = cut === ranked.length;
    this.none.hidden = !round || questions.length > 0;
    this.#draw();
  }

  #draw() {
    const { state } = this;
    const { round, marks } = state;
    for (const tile of [...this.tiles.values()].flat()) tile.draw();
    const open = (round?.questions ?? []).filter(({ id }) => !marks.has(id)).length;
    for (const one of this.restButtons) one.disabled = !open;
    this.undoButton.disabled = marks.size === 0;
    this.nameButton.disabled = !state.found;
    const sure = this.#unmarked();
    this.allButton.hidden = sure.length < 2;
    this.allButton.lastChild.textContent = `Yes to these ${sure.length}`;
    gauge(this.gauge, state);
    if (round) this.timer.textContent = `Round ${round.number}, ${seconds(total(round.seconds))}`;
    const hints = [
      round?.stop && h("p", { class: "stop" }, icon("yes"), h("span", {}, round.stop)),
      ...(round?.notes ?? []).map((text) => h("p", { class: "quiet" }, text)),
    ];
    this.hints.replaceChildren(...hints.filter(Boolean));
    if (this.story.open) this.#showHistory();
  }

  async #showHistory() {
    if (!this.story.open) return;
    await this.state.sending;
    const log = await attempt(() => get(`/sessions/${this.state.session.id}/log`, {}, this.signal));
    if (log) this.story.lastChild.replaceChildren(history(log, this.state));
  }

  #key(event, target) {
    const { id } = target.dataset;
    const row = [this.questions, this.best, this.others].find(({ targets }) => targets.includes(target));
    const kinds = { y: "yes", n: "no", " ": "skip" };
    if (event.key in kinds) {
      this.mark(id, kinds[event.key]);
      const later = row.targets.slice(row.targets.indexOf(target) + 1);
      (
        later.find((one) => !this.state.marks.has(one.dataset.id)) ??
        (row === this.questions ? this.nextButton : later[0])
      )?.focus();
    } else if (event.key === "w") this.why(this.#item(id));
    else if (event.key === "o") go(link("item", id));
    else if (event.key === "u") this.undo();
    else if (event.key === "Enter") this.next();
    else return false;
    return true;
  }

  #item(id) {
    const { questions, best } = this.state.round;
    return questions.find((item) => item.id === id) ?? best.find(({ item }) => item.id === id).item;
  }

  mark(id, kind) {
    return attempt(() => this.state.mark([id], kind));
  }

  rest(kind) {
    const ids = this.state.round.questions.map(({ id }) => id).filter((id) => !this.state.marks.has(id));
    this.nextButton.focus({ preventScroll: true });
    return attempt(() => this.state.mark(ids, kind));
  }

  #unmarked() {
    return this.likely.filter((id) => !this.state.marks.has(id));
  }

  all() {
    const ids = this.#unmarked();
    this.nextButton.focus({ preventScroll: true });
    return attempt(() => this.state.mark(ids, "yes"));
  }

  async undo() {
    const ids = await attempt(() => this.state.undo());
    if (!ids) return;
    say(ids.length ? `Undid the marks on ${many(ids.length, "picture")}.` : "There is nothing to undo.");
    this.questions.targets.find((target) => target.dataset.id === ids[0])?.focus();
  }

  async next(resume = false) {
    if (this.playing) return;
    this.playing = true;
    this.nextButton.disabled = true;
    const late = setTimeout(() => (this.busy.hidden = false), 300);
    const done = await attempt(async () => {
      await this.state.next(this.signal, resume);
      return true;
    });
    clearTimeout(late);
    this.playing = false;
    this.busy.hidden = true;
    this.nextButton.disabled = false;
    this.failed.hidden = Boolean(this.state.round); // for example, all examples were removed from the collection
    if (!this.state.round) this.questions.fill([]);
    if (!done) return;
    this.#fill();
    this.questions.focus();
    const { round } = this.state;
    say(`Round ${round.number}. ${many(round.questions.length, "picture")} to mark. ${this.gauge.textContent}`);
    if (this.questions.element.getBoundingClientRect().top < 0) scrollTo({ top: 0 });
  }

  async finish(name) {
    if (!name || this.finishing) return;
    this.finishing = true; // until the user has left the view, so that a double click finishes once
    const finished = await attempt(() => this.state.finish(name));
    this.finishing = Boolean(finished);
    if (!finished) return;
    forget();
    const text = `Added ${many(finished.labelled, "picture")} to the class ${finished.label}.`;
    const to = link("class", finished.label);
    noteUndo(text, finished.action, { from: link("session", this.state.session.id), to });
    go(to);
  }

  why(item) {
    return why(this.state.session.id, item, this.signal);
  }
}

const total = (parts) => Object.values(parts).reduce((sum, part) => sum + part, 0);

const SHOWN = 4; // examples that are shown

/** The examples that the session started from, as small pictures. */
function startedFrom({ examples }) {
  const known = examples.filter(({ item, words }) => item || words);
  const rest = examples.length - Math.min(known.length, SHOWN);
  const one = ({ item, words, positive }) => {
    if (words) return h("li", {}, positive ? `“${words}”` : `not “${words}”`);
    const name = `${positive ? "Positive" : "Negative"} example: ${title(item)}`;
    const img = h("img", { src: thumbnail(item.id, 128), alt: name, width: 44, height: 44 });
    return h("li", { class: positive ? "yes" : "no" }, h("a", { href: link("item", item.id), title: name }, img));
  };
  return h(
    "ul",
    { class: "started-from", role: "list", "aria-label": "Started from" },
    known.slice(0, SHOWN).map(one),
    rest > 0 && h("li", { class: "quiet" }, known.length ? `+ ${rest}` : "Started from another picture"),
  );
}

/** The questions on the left, the best so far on the right. */
function layout(view) {
  const { session } = view.state;
  const name = session.label ?? session.name ?? "";
  const field = h("input", {
    type: "text",
    name: "name",
    value: name,
    placeholder: "Class name",
    "aria-label": "Class name",
    autocomplete: "off",
    list: "class-names",
    required: true,
    maxlength: 200,
  });
  const finish = (event) => {
    event.preventDefault();
    view.finish(field.value.trim());
  };
  return h(
    "div",
    { class: "view session-view" },
    lead(name || "Untitled session", startedFrom(session), {
      up: "sessions",
      tools: [view.gauge, h("form", { class: "inline name", onsubmit: finish }, field, classNames("class-names"), view.nameButton)],
    }),
    h(
      "div",
      { class: "lanes" },
      h(
        "section",
        { class: "asking" },
        h("div", { class: "lane-head" }, h("h2", {}, "Mark these pictures"), view.timer),
        view.questions.element,
        view.none,
        view.failed,
        view.busy,
        h("div", { class: "acts" }, view.undoButton, view.restButtons, view.nextButton),
        h("p", { class: "quiet hint" }, "Click a picture for yes; click it again for no. ", keyHints()),
        view.hints,
        h(
          "details",
          { class: "story", open: filtered(view.query) },
          h("summary", {}, "Filter the pictures"),
          bar(view.query, { signal: view.signal }),
        ),
      ),
      h(
        "section",
        { class: "ranking" },
        h("div", { class: "lane-head" }, h("h2", {}, "Best so far"), view.allButton),
        view.best.element,
        view.divide,
        view.others.element,
        view.story,
      ),
    ),
  );
}
