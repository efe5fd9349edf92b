// The HTTP API. An error is one sentence, whatever went wrong, and says of which kind it is.

/** kind: "aborted" (we called it off), "gone" (no answer), "problem" (the server said why) */
export class ApiError extends Error {
  constructor(kind, message, status = 0, title = "") {
    super(message);
    this.kind = kind;
    this.status = status;
    this.title = title;
  }
}

let askToken = null; // () => Promise<boolean>: asks once for all requests that wait

export function onTokenNeeded(ask) {
  askToken = ask;
}

export async function request(path, options = {}, retried = false) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw new ApiError("aborted", "Called off.");
    throw new ApiError("gone", "The server does not answer.");
  }
  if (response.status === 401 && askToken && !retried && (await askToken())) return request(path, options, true);
  if (!response.ok) throw await problem(response);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw new ApiError("aborted", "Called off.");
    throw new ApiError("gone", "The server's answer broke off.");
  }
}

async function problem(response) {
  const told = await response.json().catch(() => ({}));
  return problemOf(response.status, told);
}

export function problemOf(status, told) {
  const first = Array.isArray(told.errors) && told.errors[0];
  const more = first && typeof first === "object" ? first.msg ?? first.detail ?? "" : "";
  const sentence = told.detail || told.title || `The server answered ${status}.`;
  return new ApiError("problem", more && !sentence.includes(more) ? `${sentence} ${more}` : sentence, status, told.title ?? "");
}

/** /path?a=1&b=2, without what is null or empty. */
export function url(path, values = {}) {
  const p = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") p.append(name, String(one));
    }
  }
  const text = p.toString();
  return text ? `${path}${path.includes("?") ? "&" : "?"}${text}` : path;
}

const json = (method, body, signal) => ({
  method,
  signal,
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

export const health = () => request("/health");
export const collections = () => request("/collections");
export const openSession = (token) => request("/session", json("POST", { token }), true);

export const search = (s, signal) =>
  request(
    "/search",
    json(
      "POST",
      {
        query: s.query,
        k: s.k,
        where: s.where || null,
        documents: s.documents.length ? s.documents : null,
        hybrid: s.hybrid,
        explain: true,
        collection: s.collection,
      },
      signal,
    ),
  );

export const documents = (values, signal) => request(url("/documents", values), { signal });
export const removeDocument = (id, collection) =>
  request(url(`/documents/${encodeURIComponent(id)}`, { collection }), { method: "DELETE" });
export const page = (id, collection, signal) =>
  request(url(`/pages/${encodeURIComponent(id)}`, { collection }), { signal });
export const jobs = (collection) => request(url("/jobs", { collection }));
export const job = (id, collection) => request(url(`/jobs/${encodeURIComponent(id)}`, { collection }));
export const cancelJob = (id, collection) =>
  request(url(`/jobs/${encodeURIComponent(id)}`, { collection }), { method: "DELETE" });

/** Addresses of pictures; width: as wide as it will be shown, at most. */
export const image = (link, collection, width = null) => url(withoutWidth(link), { collection, width });
export const cover = (id, collection, width) =>
  url(`/pages/${encodeURIComponent(id)}/image`, { collection, width });
export const heatmap = (id, values) => url(`/pages/${encodeURIComponent(id)}/heatmap`, values);

function withoutWidth(link) {
  const [path, text = ""] = link.split("?");
  const p = new URLSearchParams(text);
  p.delete("width");
  p.delete("collection");
  return p.size ? `${path}?${p}` : path;
}
