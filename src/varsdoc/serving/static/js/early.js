// A classic script in the head: the chosen colours are there before the first paint, and nothing flashes.
try {
  const chosen = JSON.parse(localStorage.getItem("varsdoc.theme"));
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be closed to us or hold nonsense: the system's colours then.
}
