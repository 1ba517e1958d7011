// All requests to the server. Every failure is thrown as a Problem with a message for the user.

const BASE = "/api/v1";
export const UNREACHABLE = "Lookalike isn't running. Start it with “lookalike serve”; this page will reconnect.";

export class Problem extends Error {
  constructor(kind, message, status = 0, details = {}) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.details = details;
  }
}

/** The URL of a resource; null and empty values in `query` are left out. */
export function address(path, query = {}) {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined && value !== "") text.set(name, value);
  return `${BASE}${path}${text.size ? `?${text}` : ""}`;
}

async function call(method, path, { query, body, signal } = {}) {
  const form = body instanceof FormData;
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-Lookalike"] = "1";
  if (body !== undefined && !form) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(address(path, query), {
      method,
      headers,
      signal,
      credentials: "same-origin",
      body: form ? body : body && JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("unreachable", UNREACHABLE);
  }
  return read(response.status, await response.text(), response.statusText);
}

function read(status, text, fallback) {
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    data = null; // not JSON: build the message from the status
  }
  if (status >= 200 && status < 300) return data;
  const error = data?.error ?? {};
  const message = error.message ?? `The server responded with ${status} ${fallback}.`;
  throw new Problem(error.kind ?? "broken", message, status, { ...data, field: error.field });
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body = {}, signal) => noted(call("POST", path, { body, signal }));
export const remove = (path) => noted(call("DELETE", path));

let answered = Promise.resolve(); // when the requests so far that can change something are answered

function noted(request) {
  answered = Promise.allSettled([answered, request]);
  return request;
}

/** Wait until all requests that can change something are answered, and those who sent them have read the answer. */
export const allAnswered = () => answered.then(() => new Promise((done) => setTimeout(done)));

/** Upload files. XMLHttpRequest, because fetch reports no upload progress; `onprogress` is called with a share. */
export function send(path, field, files, onprogress = () => {}) {
  const body = new FormData();
  for (const file of files) body.append(field, file, file.name || "pasted.png");
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address(path));
    request.setRequestHeader("X-Lookalike", "1");
    request.upload.onprogress = (event) => event.lengthComputable && onprogress(event.loaded / event.total);
    const failure = new Problem("unreachable", "Could not upload the picture: cannot reach the server.");
    request.onerror = () => reject(failure);
    request.onload = () => {
      try {
        resolve(read(request.status, request.responseText, request.statusText));
      } catch (problem) {
        reject(problem);
      }
    };
    request.send(body);
  });
}

export const thumbnail = (id, side = 256) => address(`/items/${id}/thumbnail`, { side });

/** The URL of a picture; with a side, of a copy whose longer side has that length. */
export const image = (id, side) => address(`/items/${id}/image`, { side });
export const SCREEN = 1600; // the side of a copy that fills a screen

/** The URL of an example's thumbnail: of an item, an upload, or a part of an item. */
export function portrait({ id, upload, box }, side = 128) {
  if (upload) return address(`/uploads/${upload}/thumbnail`, { side });
  return box ? address(`/items/${id}/region`, { box: box.join(","), side }) : thumbnail(id, side);
}

/** Whether the server responds. */
export async function alive() {
  try {
    return (await fetch("/healthz")).ok;
  } catch {
    return false;
  }
}
