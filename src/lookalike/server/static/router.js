// The address holds the state: `#/view/argument?query`. Examples are kept when the view changes; see examples.js.

/** A query that removes all examples. */
export const NO_EXAMPLES = { with: null, without: null, words: null, without_words: null };

/** Parse the address into {view, arg, query}. */
export function read(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view, ...rest] = path.split("/");
  return { view: view || "pictures", arg: safely(rest.join("/")), query: new URLSearchParams(query) };
}

function safely(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray % in the address
  }
}

/** The address of a view. Query values can be lists; null removes a name. Current examples are kept unless given. */
export function link(view, arg = "", query = {}) {
  const here = read().query;
  const text = new URLSearchParams();
  for (const name of Object.keys(NO_EXAMPLES)) if (!(name in query)) for (const value of here.getAll(name)) text.append(name, value);
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== null && one !== undefined && one !== "") text.append(name, one);
  }
  const home = view === "pictures" ? "" : view;
  const path = arg ? `${home}/${encodeURIComponent(arg)}` : home;
  const search = text.toString().replaceAll("%2C", ",").replaceAll("%40", "@");
  return `#/${path}${search ? `?${search}` : ""}`;
}

/** The address of the current view with parts of its query changed. */
export function amend(query) {
  const { view, arg, query: here } = read();
  const merged = {};
  for (const name of new Set(here.keys())) merged[name] = here.getAll(name);
  return link(view, arg, { ...merged, ...query });
}

export function go(hash) {
  location.hash = hash;
}

/** Go to an address without adding an entry to the history. */
export function replace(hash) {
  history.replaceState(history.state, "", hash);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

let saving = 0;

/** Call `render(scroll)` when the address changes. The scroll position is stored in the history entry. */
export function listen(render) {
  history.scrollRestoration = "manual";
  addEventListener("hashchange", () => {
    clearTimeout(saving);
    render(history.state?.y ?? 0);
  });
  addEventListener(
    "scroll",
    () => {
      clearTimeout(saving);
      saving = setTimeout(() => history.replaceState({ ...history.state, y: scrollY }, ""), 250);
    },
    { passive: true },
  );
  render(history.state?.y ?? 0);
}
