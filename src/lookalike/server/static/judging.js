// A session's state on the page: what was marked, what the last round showed. Marks show at once and are sent in order;
// the server has every click before the next round is asked for.
import { post } from "./api.js";

const SENT = { yes: "relevant", no: "irrelevant", skip: "skip" };
const SAID = { relevant: "yes", irrelevant: "no", skipped: "skip" };

export class Judging extends EventTarget {
  constructor(session, body) {
    super();
    this.body = body; // the filter of the rounds
    this.sending = Promise.resolve();
    this.slot = `lookalike.round.${session.id}.${JSON.stringify(body)}`;
    this.round = kept(this.slot);
    this.#take(session);
  }

  #take(session) {
    this.session = session;
    this.marks = new Map();
    for (const [list, mark] of Object.entries(SAID)) for (const id of session[list] ?? []) this.marks.set(id, mark);
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }

  get found() {
    return [...this.marks.values()].filter((mark) => mark === "yes").length;
  }

  /** Say yes, no or skip of some pictures: one step of undo. */
  mark(ids, mark) {
    const before = ids.map((id) => [id, this.marks.get(id)]);
    for (const id of ids) this.marks.set(id, mark);
    this.#changed();
    return this.#queue(
      () => post(`/sessions/${this.session.id}/marks`, { [SENT[mark]]: ids }),
      () => before.forEach(([id, old]) => (old ? this.marks.set(id, old) : this.marks.delete(id))),
    );
  }

  /** Take back the last step; the ids it was about. */
  undo() {
    let ids = [];
    return this.#queue(async () => {
      const { undone, session } = await post(`/sessions/${this.session.id}/undo`);
      ids = Object.keys(undone ?? {});
      this.#take(session);
      this.#changed();
    }).then(() => ids);
  }

  /** Learn from what was said, and ask about more. */
  next(signal) {
    return this.#queue(async () => {
      const round = await post(`/sessions/${this.session.id}/round`, { k: 60, window: 9, filter: this.body }, signal);
      this.round = round;
      this.session.rounds = round.number;
      keep(this.slot, round);
      this.#changed();
    });
  }

  finish(name) {
    return this.#queue(async () => {
      this.finished = await post(`/sessions/${this.session.id}/finish`, { name });
      sessionStorage.removeItem(this.slot);
    }).then(() => this.finished);
  }

  /** One after the other; what failed is put back, and the failure goes to whoever asked. */
  #queue(work, revert = () => {}) {
    const turn = this.sending.then(work);
    this.sending = turn.catch(() => {
      revert();
      this.#changed();
    });
    return turn;
  }
}

// The last round stays in this tab: going back to a session, or loading it again, asks for no new one.
function kept(slot) {
  try {
    return JSON.parse(sessionStorage.getItem(slot));
  } catch {
    return null;
  }
}

function keep(slot, round) {
  try {
    sessionStorage.setItem(slot, JSON.stringify(round));
  } catch {
    // full or not allowed: a new round is asked for then
  }
}
