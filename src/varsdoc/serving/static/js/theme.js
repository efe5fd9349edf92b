// Colours: the system's, light or dark; the button goes round.
import { $ } from "./dom.js";
import { icon } from "./icons.js";
import { load, save } from "./storage.js";

const ROUND = ["auto", "light", "dark"];
const LOOKS = { auto: ["auto", "as the system"], light: ["sun", "light"], dark: ["moon", "dark"] };

const now = () => (ROUND.includes(load("theme", "auto")) ? load("theme", "auto") : "auto");
let chosen = now();

export function setUpTheme() {
  $("theme").addEventListener("click", nextTheme);
  draw();
}

export function nextTheme() {
  chosen = ROUND[(ROUND.indexOf(chosen) + 1) % ROUND.length];
  save("theme", chosen);
  draw();
}

function draw() {
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  const [symbol, words] = LOOKS[chosen];
  $("theme").replaceChildren(icon(symbol));
  $("theme").setAttribute("aria-label", `Colours: ${words}`);
  $("theme").dataset.tip = `Colours: ${words} (t)`;
}
