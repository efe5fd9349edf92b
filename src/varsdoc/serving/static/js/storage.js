// localStorage that may be closed, full or hold someone else's nonsense: then it is as if nothing was kept.

export function load(key, fallback) {
  try {
    const kept = localStorage.getItem("varsdoc." + key);
    return kept === null ? fallback : JSON.parse(kept);
  } catch {
    return fallback;
  }
}

export function save(key, value) {
  try {
    localStorage.setItem("varsdoc." + key, JSON.stringify(value));
  } catch {
    // Full or closed: the page works without.
  }
}
