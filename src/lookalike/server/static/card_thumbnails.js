// Up to four thumbnails on a card, loaded when the card becomes visible.
import { thumbnail } from "./api.js";
import { h } from "./dom.js";

/** A thumbnail, which disappears if its picture was removed from the collection. */
const picture = (id) => h("img", { src: thumbnail(id, 128), alt: "", onerror: ({ target }) => target.remove() });

/** Return a function that creates an empty element for thumbnails; its argument `read` loads their ids. */
export function cardThumbnails(signal) {
  const readers = new WeakMap();
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
        seen.unobserve(target);
        readers
          .get(target)()
          .then(
            (ids) => target.append(...ids.slice(0, 4).map(picture)),
            () => {}, // the card's link works without thumbnails
          );
      }
    },
    { rootMargin: "200px" },
  );
  signal.addEventListener("abort", () => seen.disconnect());
  return (read) => {
    const element = h("span", { class: "card-thumbnails" });
    readers.set(element, read);
    seen.observe(element);
    return element;
  };
}
