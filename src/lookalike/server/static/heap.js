// A pile of up to four pictures on a card, read when the card comes into sight.
import { thumbnail } from "./api.js";
import { h } from "./dom.js";

/** heaps(signal): a function that makes an empty pile; `read` gives the ids to put there. */
export function heaps(signal) {
  const readers = new WeakMap();
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
        seen.unobserve(target);
        readers
          .get(target)()
          .then(
            (ids) => target.append(...ids.slice(0, 4).map((id) => h("img", { src: thumbnail(id, 128), alt: "" }))),
            () => {}, // a card without pictures still leads where it leads
          );
      }
    },
    { rootMargin: "200px" },
  );
  signal.addEventListener("abort", () => seen.disconnect());
  return (read) => {
    const pile = h("span", { class: "heap" });
    readers.set(pile, read);
    seen.observe(pile);
    return pile;
  };
}
