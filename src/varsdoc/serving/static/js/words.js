// The question's words: how much each found on a page, and a press to see where.
import { h } from "./dom.js";

/** Of one hit: what a word adds to the score of a reading (default: the one that won), per token, 0 to 1. */
export function strength(word, explained, variant = null) {
  if (!explained) return 0;
  const score = variant === null ? explained.score : explained.scores?.[variant] ?? explained.score;
  return Math.max(0, Math.min(1, score / Math.max(1, word.tokens.length)));
}

export function wordChips(words, hit, choose) {
  const found = new Map((hit.explain?.words ?? []).map((one) => [one.word, one]));
  if (!words.length) return null;
  const best = Math.max(0.001, ...words.map((word) => strength(word, found.get(word.word))));
  return h(
    "div",
    { class: "words", role: "group", "aria-label": "What each word found" },
    words.map((word) => {
      const explained = found.get(word.word);
      const part = strength(word, explained);
      const score = explained ? explained.score.toFixed(2) : "0";
      return h(
        "button",
        {
          class: "word",
          type: "button",
          "aria-pressed": "false",
          "aria-label": `${word.text}, adds ${score}. Heatmap`,
          data: { word: word.word, tip: `“${word.text}” adds ${score} to this page's score. Press to see where.` },
          style: { "--strength": (part / best).toFixed(3) },
          on: { click: () => choose(word.word) },
        },
        word.text,
      );
    }),
  );
}

export function pressWord(root, word) {
  for (const button of root.querySelectorAll(".word")) {
    button.setAttribute("aria-pressed", String(word !== null && Number(button.dataset.word) === word));
  }
}
