// The address is the state: `#/view/argument?query`. Examples (`with`, `without`) travel along from view to view.

const CARRIED = ["with", "without"];

/** Where we are: {view, arg, query}. */
export function read(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view, ...rest] = path.split("/");
  return { view: view || "pictures", arg: safely(rest.join("/")), query: new URLSearchParams(query) };
}

function safely(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray % that somebody typed
  }
}

/** The address of a view; a query value may be a list, null takes a name out. Examples come along unless given. */
export function link(view, arg = "", query = {}) {
  const here = read().query;
  const text = new URLSearchParams();
  for (const name of CARRIED) if (!(name in query)) for (const value of here.getAll(name)) text.append(name, value);
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== null && one !== undefined && one !== "") text.append(name, one);
  }
  const home = view === "pictures" ? "" : view;
  const path = arg ? `${home}/${encodeURIComponent(arg)}` : home;
  const search = text.toString().replaceAll("%2C", ",").replaceAll("%40", "@");
  return `#/${path}${search ? `?${search}` : ""}`;
}

/** The address of this view with some of its query changed. */
export function amend(query) {
  const { view, arg, query: here } = read();
  const merged = {};
  for (const name of new Set(here.keys())) merged[name] = here.getAll(name);
  return link(view, arg, { ...merged, ...query });
}

export function go(hash) {
  location.hash = hash;
}

/** Go there without a step in the history. */
export function replace(hash) {
  history.replaceState(history.state, "", hash);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

let saving = 0;

/** Call `render(scroll)` at every move; where a page was scrolled to is kept in its step of the history. */
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
