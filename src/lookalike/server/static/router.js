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

const examplesAt = (query) => JSON.stringify(Object.keys(NO_EXAMPLES).map((name) => query.getAll(name)));
const rest = ({ view, arg, query }) =>
  JSON.stringify([view, arg, [...query].filter(([name]) => !(name in NO_EXAMPLES))]);

/** Whether the current address differs from this one in its examples only. */
export function onlyExamplesDiffer(url) {
  const [old, now] = [read(new URL(url).hash), read()];
  return rest(old) === rest(now) && examplesAt(old.query) !== examplesAt(now.query);
}

/** Give the links that have the examples of an old address those of the current one. */
export function updateLinks(place, url) {
  const old = examplesAt(read(new URL(url).hash).query);
  for (const one of place.querySelectorAll('a[href^="#/"]')) {
    const { view, arg, query } = read(one.hash);
    if (examplesAt(query) !== old) continue;
    const own = [...new Set(query.keys())].filter((name) => !(name in NO_EXAMPLES));
    one.href = link(view, arg, Object.fromEntries(own.map((name) => [name, query.getAll(name)])));
  }
}

/** Show the view of the current address again. */
export const reload = () => dispatchEvent(new HashChangeEvent("hashchange"));

/** Go to an address without adding an entry to the history. */
export function replace(hash) {
  history.replaceState(history.state, "", hash);
  reload();
}

let saving = 0;

/** Store the scroll position in the history entry. */
export const saveScroll = () => history.replaceState({ ...history.state, y: scrollY }, "");

/**
 * Call `render(scroll, the old address)` when the address changes. The scroll position is stored in the history entry;
 * it is undefined at a new address.
 */
export function listen(render) {
  history.scrollRestoration = "manual";
  addEventListener("hashchange", (event) => {
    clearTimeout(saving);
    render(history.state?.y, event.oldURL);
  });
  addEventListener(
    "scroll",
    () => {
      clearTimeout(saving);
      saving = setTimeout(saveScroll, 250);
    },
    { passive: true },
  );
  render(history.state?.y);
}
