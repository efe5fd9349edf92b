// The readings of a page: K scores as bars, which of them won, and words for it.
import { h } from "./dom.js";

const COLOURS = 8; // --reading-1 .. --reading-8 in base.css; more readings go round

export const colour = (k) => `var(--reading-${(k % COLOURS) + 1})`;
export const name = (k) => `Reading ${k + 1}`;
export const points = (score) => score.toFixed(2);

/** One scale for all hits of an answer, so that bars can be compared from page to page. */
export function scaleOf(hits) {
  const all = hits.flatMap((hit) => hit.variant_scores);
  if (!all.length) return { from: 0, to: 1 };
  const lowest = Math.min(...all);
  const highest = Math.max(...all);
  const room = Math.max(highest - lowest, 1e-6);
  return { from: lowest - 0.15 * room, to: highest };
}

/** "Reading 2 won, 0.28 ahead of reading 1." */
export function verdict(scores, winner) {
  if (scores.length < 2) return "";
  const order = scores.map((score, k) => [score, k]).filter(([, k]) => k !== winner);
  const [second, k] = order.reduce((best, one) => (one[0] > best[0] ? one : best));
  const lead = scores[winner] - second;
  if (lead < 0.01) return `${name(winner)} and reading ${k + 1} are level.`;
  return `${name(winner)} won, ${points(lead)} ahead of reading ${k + 1}.`;
}

export function explanation(count) {
  return (
    `The model reads every page in ${count} learned ways. Each bar says how well one reading fits the question; ` +
    "the tallest one counts as the page's score. Press a bar to see where that reading looks."
  );
}

/** The bars of one hit. choose(k) is called when one is pressed. */
export function bars(hit, scale, choose) {
  const each = hit.variant_scores.map((score, k) => bar(hit, score, k, scale, choose));
  const told = hit.variant_scores.map((score, k) => `${k + 1}: ${points(score)}`).join(", ");
  return h("div", { class: "bars", role: "group", "aria-label": `Scores of the readings: ${told}` }, each);
}

function bar(hit, score, k, scale, choose) {
  const won = k === hit.variant;
  const height = Math.max(0.03, Math.min(1, (score - scale.from) / (scale.to - scale.from || 1)));
  const behind = won ? "won: this is the page's score" : `${points(hit.variant_scores[hit.variant] - score)} behind`;
  const tip = `${name(k)}: ${points(score)}, ${behind}. Press to see where it looks.`;
  return h(
    "button",
    {
      class: won ? "bar won" : "bar",
      type: "button",
      "aria-pressed": "false",
      "aria-label": `${name(k)}, score ${points(score)}, ${won ? "won" : behind}. Heatmap`,
      data: { tip, reading: k },
      style: { "--colour": colour(k), "--height": height.toFixed(3) },
      on: { click: () => choose(k) },
    },
    h("span", { class: "bar-score" }, points(score)),
    h("span", { class: "bar-well" }, h("span", { class: "bar-fill" })),
    h("span", { class: "bar-name" }, String(k + 1)),
  );
}

/** Marks the bar whose heatmap is shown; null: none. */
export function press(root, k) {
  for (const button of root.querySelectorAll(".bar")) {
    button.setAttribute("aria-pressed", String(k !== null && Number(button.dataset.reading) === k));
  }
}
