// A session: two lanes, best so far and please judge these. Click or press a key; it learns what is meant.
import { attempt, note, say } from "./aloud.js";
import { get } from "./api.js";
import { collection, forget, may } from "./collection.js";
import { anchor, button, h, icon } from "./dom.js";
import { bar, body, filtered } from "./filters.js";
import { Judging } from "./judging.js";
import { keys } from "./keys.js";
import { Lane } from "./lane.js";
import { go, link } from "./router.js";
import { gauge, history } from "./standing.js";
import { empty, waiting } from "./states.js";
import { MARKS, badge, picture, spoken } from "./tile.js";
import { why } from "./why.js";
import { many, seconds } from "./words.js";

const LESS = 20; // pictures shown below the line

export async function show({ arg: id, query }, signal) {
  const [session, about] = await Promise.all([get(`/sessions/${id}`, {}, signal), collection(signal)]);
  const mine = may("manage") || (may("judge") && session.author === about.me.name);
  const state = new Judging(session, body(query));
  if (session.finished || !mine) return past(state, mine, signal);
  return new Desk(state, query, signal).element;
}

class Desk {
  constructor(state, query, signal) {
    Object.assign(this, { state, query, signal, tiles: new Map(), likely: [] });
    const onkey = (event, tile) => this.#key(event, tile);
    this.questions = new Lane("Please judge these", { signal, onkey, kind: "judge" });
    this.best = new Lane("Best so far", { signal, onkey, kind: "best" });
    this.others = new Lane("Less likely", { signal, onkey, kind: "best" });
    this.questions.follow(this.best);
    this.best.follow(this.others);
    this.divide = h("h3", { class: "divide", hidden: true }, "Less likely");
    this.allButton = button("yes", "", () => this.all(), { title: "All above the line that you have not judged: yes" });
    this.gauge = h("div", { class: "gauge" });
    this.words = h("div", { class: "words" });
    this.timer = h("p", { class: "quiet timer" });
    this.story = h("details", { class: "story" }, h("summary", {}, "What was said so far"), h("div", {}));
    this.story.addEventListener("toggle", () => this.#tell());
    this.undoButton = button("undo", "Undo", () => this.undo());
    this.nextButton = button("next", "Next round", () => this.next(), { class: "main" });
    this.restButton = button("no", "No to the rest", () => this.rest(), { title: "All that are not judged yet: no" });
    this.busy = h("div", { class: "busy", hidden: true }, waiting("Learning from your answers…"));
    this.element = this.#lay();
    state.addEventListener("change", () => this.#draw(), { signal });
    keys({ u: () => this.undo(), Enter: () => this.next(), ArrowDown: () => this.questions.focus(), ArrowRight: () => this.questions.focus() }, signal);
    this.element.addEventListener("shown", () => (state.round ? this.questions.focus() : this.next()), { once: true });
    this.#fill();
  }

  #lay() {
    const { session } = this.state;
    const name = session.label ?? session.name ?? "";
    const field = h("input", { type: "text", name: "name", value: name, placeholder: "What is it called?", "aria-label": "Name of the class", autocomplete: "off", required: true, maxlength: 200 });
    this.nameButton = button("classes", "Make it a class", null, { type: "submit" });
    const submit = (event) => {
      event.preventDefault();
      this.finish(field.value.trim());
    };
    return h(
      "div",
      { class: "view desk" },
      h(
        "header",
        { class: "lead" },
        h("div", {}, h("p", { class: "crumb" }, h("a", { href: link("sessions") }, "Sessions")), h("h1", {}, name || "What are you looking for?")),
        this.gauge,
        h("form", { class: "inline name", onsubmit: submit }, field, this.nameButton),
      ),
      h(
        "div",
        { class: "lanes" },
        h("section", { class: "asking" }, h("div", { class: "lane-head" }, h("h2", {}, "Please judge these"), this.timer), this.questions.element, this.busy, h("div", { class: "acts" }, this.undoButton, this.restButton, this.nextButton), h("p", { class: "quiet hint" }, "Click a picture for yes, once more for no. Keys: ", h("kbd", {}, "y"), " ", h("kbd", {}, "n"), " ", h("kbd", {}, "space"), " skip, ", h("kbd", {}, "u"), " undo, ", h("kbd", {}, "enter"), " next round."), this.words, h("details", { class: "story", open: filtered(this.query) }, h("summary", {}, "Look only among some pictures"), bar(this.query, { signal: this.signal }))),
        h("section", { class: "standing" }, h("div", { class: "lane-head" }, h("h2", {}, "Best so far"), this.allButton), this.best.element, this.divide, this.others.element, this.story),
      ),
    );
  }

  /** Both lanes from the round. */
  #fill() {
    const { round } = this.state;
    this.tiles.clear();
    const tile = (item, asked) => {
      const made = this.#tile(item, asked);
      this.tiles.set(item.id, [...(this.tiles.get(item.id) ?? []), made]);
      return made.element;
    };
    const asked = round?.questions ?? [];
    this.questions.fill(round ? asked.map((item) => tile(item, true)) : Array.from({ length: 9 }, () => h("span", { class: "pic" })));
    const ranked = round?.best ?? [];
    const told = round?.number > 1 && [...this.state.marks.values()].includes("no"); // before, the line means little
    this.likely = told ? ranked.filter(({ score }) => score < 0).map(({ item }) => item.id) : []; // the wanted side
    const cut = this.likely.length || ranked.length;
    this.best.fill(ranked.slice(0, cut).map(({ item }) => tile(item, false)));
    this.others.fill(ranked.slice(cut, cut + LESS).map(({ item }) => tile(item, false)));
    this.divide.hidden = cut === ranked.length;
    if (round && !asked.length) this.questions.element.after((this.none = empty("There is nothing left to ask. Give it a name, or go on with the pictures on the other side.")));
    else this.none?.remove();
    this.#draw();
  }

  #tile(item, asked) {
    const mark = (kind) => this.mark(item.id, kind);
    const turn = () => mark(this.state.marks.get(item.id) === "yes" ? "no" : "yes");
    const pic = h("button", { type: "button", class: "pic", tabindex: "-1", dataset: { focus: "", id: item.id }, onclick: turn, onkeyup: (event) => event.key === " " && event.preventDefault() }, picture(item, asked ? 384 : 256));
    const about = button("why", `Why ${item.name}?`, () => this.why(item), { quiet: true, class: "about", tabindex: "-1" });
    const answers = asked && ["yes", "no"].map((kind) => h("button", { type: "button", class: kind, tabindex: "-1", "aria-label": `${MARKS[kind]}: ${item.name}`, onclick: () => mark(kind) }, icon(kind), MARKS[kind]));
    const element = h("div", { class: "tile" }, pic, about, asked && h("div", { class: "answers" }, answers));
    const draw = () => {
      const said = this.state.marks.get(item.id) ?? null;
      if (element.dataset.mark === (said ?? "none")) return;
      element.dataset.mark = said ?? "none";
      pic.setAttribute("aria-label", spoken(item, said));
      pic.querySelector(".badge")?.remove();
      if (said) pic.append(badge(said));
      for (const one of answers || []) one.setAttribute("aria-pressed", one.classList.contains(said));
    };
    return { element, draw };
  }

  #draw() {
    const { state } = this;
    const { round, marks } = state;
    for (const tile of [...this.tiles.values()].flat()) tile.draw();
    const open = (round?.questions ?? []).filter(({ id }) => !marks.has(id)).length;
    this.restButton.disabled = !open;
    this.undoButton.disabled = marks.size === 0;
    this.nameButton.disabled = !state.found;
    const sure = this.#unjudged();
    this.allButton.hidden = sure.length < 2;
    this.allButton.lastChild.textContent = `Yes to these ${sure.length}`;
    gauge(this.gauge, state);
    if (round) this.timer.textContent = `Round ${round.number}, ${seconds(total(round.seconds))}`;
    const hints = [round?.stop && h("p", { class: "stop" }, icon("yes"), h("span", {}, round.stop)), ...(round?.notes ?? []).map((text) => h("p", { class: "quiet" }, text))];
    this.words.replaceChildren(...hints.filter(Boolean));
    if (this.story.open) this.#tell();
  }

  async #tell() {
    if (!this.story.open) return;
    await this.state.sending;
    const log = await attempt(() => get(`/sessions/${this.state.session.id}/log`, {}, this.signal));
    if (log) this.story.lastChild.replaceChildren(history(log, this.state));
  }

  #key(event, target) {
    const { id } = target.dataset;
    const lane = this.questions.targets.includes(target) ? this.questions : this.best;
    const kinds = { y: "yes", n: "no", " ": "skip" };
    if (event.key in kinds) {
      this.mark(id, kinds[event.key]);
      const later = lane.targets.slice(lane.targets.indexOf(target) + 1);
      (later.find((one) => !this.state.marks.has(one.dataset.id)) ?? (lane === this.questions ? this.nextButton : later[0]))?.focus();
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

  rest() {
    const ids = this.state.round.questions.map(({ id }) => id).filter((id) => !this.state.marks.has(id));
    this.nextButton.focus({ preventScroll: true });
    return attempt(() => this.state.mark(ids, "no"));
  }

  #unjudged() {
    return this.likely.filter((id) => !this.state.marks.has(id));
  }

  all() {
    const ids = this.#unjudged();
    this.nextButton.focus({ preventScroll: true });
    return attempt(() => this.state.mark(ids, "yes"));
  }

  async undo() {
    const ids = await attempt(() => this.state.undo());
    if (!ids) return;
    say(ids.length ? `Undone: ${many(ids.length, "picture")}` : "There is nothing to undo.");
    this.questions.targets.find((target) => target.dataset.id === ids[0])?.focus();
  }

  async next() {
    if (this.playing) return;
    this.playing = true;
    this.nextButton.disabled = true;
    const late = setTimeout(() => (this.busy.hidden = false), 300);
    const done = await attempt(async () => {
      await this.state.next(this.signal);
      return true;
    });
    clearTimeout(late);
    this.playing = false;
    this.busy.hidden = true;
    this.nextButton.disabled = false;
    if (!done) return;
    this.#fill();
    this.questions.focus();
    const { round } = this.state;
    say(`Round ${round.number}. ${many(round.questions.length, "picture")} to judge. ${this.gauge.textContent}`);
    if (this.questions.element.getBoundingClientRect().top < 0) scrollTo({ top: 0 });
  }

  async finish(name) {
    if (!name) return;
    const finished = await attempt(() => this.state.finish(name));
    if (!finished) return;
    forget();
    note(`${many(finished.labelled ?? this.state.found, "picture")} put into the class ${finished.label ?? name}.`);
    go(link("class", finished.label ?? name));
  }

  why(item) {
    return why(this.state.session.id, item, this.signal);
  }
}

const total = (parts) => (typeof parts === "number" ? parts : (parts.total ?? Object.values(parts).reduce((sum, part) => sum + part, 0)));

/** A session that takes no marks: finished, or somebody else's. */
async function past(state, mine, signal) {
  const { session } = state;
  const { best } = await get(`/sessions/${session.id}/best`, { k: 60 }, signal);
  const lane = new Lane("Best", { signal, kind: "best" });
  lane.fill(best.map(({ item }) => {
    const mark = state.marks.get(item.id);
    return h("a", { class: "pic", href: link("item", item.id), tabindex: "-1", dataset: { focus: "", id: item.id }, "aria-label": spoken(item, mark) }, picture(item), badge(mark));
  }));
  const name = session.label ?? session.name;
  const text = session.finished ? `Finished after ${many(session.rounds, "round")}: ${many(session.relevant.length, "picture")} yes, ${session.irrelevant.length} no.` : `This is a session of ${session.author}: you may look.`;
  const more = session.finished && name && mine ? anchor("classes", `To the class ${name}`, link("class", name), { class: "button main" }) : null;
  return h("div", { class: "view" }, h("header", { class: "lead" }, h("div", {}, h("p", { class: "crumb" }, h("a", { href: link("sessions") }, "Sessions")), h("h1", {}, name || "Session"), h("p", { class: "quiet" }, text)), more), h("h2", {}, "The most likely now"), lane.element);
}
