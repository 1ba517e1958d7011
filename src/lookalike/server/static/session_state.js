// The state of a session on the page: its marks and its last round. Marks are shown immediately and sent in order;
// the next round is requested after the server has received all of them.
import { post } from "./api.js";

const SENT = { yes: "relevant", no: "irrelevant", skip: "skip" };
const MARK_BY_KIND = { relevant: "yes", irrelevant: "no", skipped: "skip" };

export class SessionState extends EventTarget {
  constructor(session, body) {
    super();
    this.body = body; // the filter of the rounds
    this.sending = Promise.resolve();
    this.round = null;
    this.#load(session);
  }

  #load(session) {
    this.session = session;
    this.marks = new Map();
    for (const [kind, mark] of Object.entries(MARK_BY_KIND))
      for (const id of session[kind] ?? []) this.marks.set(id, mark);
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }

  get found() {
    return [...this.marks.values()].filter((mark) => mark === "yes").length;
  }

  /** Mark pictures as yes, no or skip, in one step. */
  mark(ids, mark) {
    const before = ids.map((id) => [id, this.marks.get(id)]);
    for (const id of ids) this.marks.set(id, mark);
    this.#changed();
    return this.#queue(
      () => post(`/sessions/${this.session.id}/marks`, { [SENT[mark]]: ids }),
      () => before.forEach(([id, old]) => (old ? this.marks.set(id, old) : this.marks.delete(id))),
    );
  }

  /** Undo the last step; returns the ids of its pictures. */
  undo() {
    let ids = [];
    return this.#queue(async () => {
      const { undone, session } = await post(`/sessions/${this.session.id}/undo`);
      ids = Object.keys(undone ?? {});
      this.#load(session);
      this.#changed();
    }).then(() => ids);
  }

  /** Run the next round; with `resume`, repeat the last one, whose questions stay until they are answered. */
  next(signal, resume = false) {
    return this.#queue(async () => {
      const asked = { k: 60, window: 9, filter: this.body, resume };
      this.round = await post(`/sessions/${this.session.id}/round`, asked, signal);
      this.session.rounds = this.round.number;
      this.#changed();
    });
  }

  finish(name) {
    return this.#queue(async () => {
      this.finished = await post(`/sessions/${this.session.id}/finish`, { name });
    }).then(() => this.finished);
  }

  /** Run requests one after the other. If one fails, call `revert` and pass the error to the caller. */
  #queue(work, revert = () => {}) {
    const turn = this.sending.then(work);
    this.sending = turn.catch(() => {
      revert();
      this.#changed();
    });
    return turn;
  }
}
