// One hit: the page, its evidence to read, the bars of its readings, and what each word found.
import { h } from "./dom.js";
import { bars, colour, explanation, points, press, verdict } from "./readings.js";
import { Picture, strip } from "./picture.js";
import { wordChips, pressWord } from "./words.js";
import { icon } from "./icons.js";

export class Card {
  /** answer: {query, words, scale, collection}; open(hit) shows the viewer */
  constructor(hit, rank, answer, open) {
    this.hit = hit;
    this.answer = answer;
    this.own = null; // {variant, word} chosen on this card; null: what the toolbar says
    this.common = { on: false, variant: null, word: null };
    this.picture = new Picture(hit, { collection: answer.collection, width: 480 });
    this.picture.outline(hit.region, hit.variant);
    this.element = h(
      "article",
      { class: "hit", style: { "--colour": colour(hit.variant) }, data: { id: hit.id }, "aria-labelledby": `hit-${rank}` },
      this.desk(rank, open),
      h("div", { class: "hit-facts" }, this.head(rank, open), this.evidence(), this.why()),
    );
  }

  desk(rank, open) {
    return h(
      "button",
      {
        class: "desk",
        type: "button",
        "aria-label": `Open page ${this.hit.page} of ${this.hit.document}, hit ${rank}`,
        on: { click: () => open(this.hit) },
      },
      this.picture.element,
    );
  }

  head(rank, open) {
    const { hit } = this;
    const tip =
      `Score ${hit.score.toFixed(4)}: the sum over the question's tokens of the best match in the winning reading; ` +
      `${hit.score_normalised.toFixed(3)} per token.` +
      (hit.fused_score === undefined || hit.fused_score === null ? "" : ` Ranked with the text layer: ${hit.fused_score.toFixed(4)}.`);
    return h(
      "header",
      { class: "hit-head" },
      h("span", { class: "rank", "aria-hidden": "true" }, String(rank)),
      h(
        "h2",
        { class: "hit-name", id: `hit-${rank}` },
        h("button", { class: "link", type: "button", tabindex: "-1", title: hit.document, on: { click: () => open(hit) } }, hit.document),
        h("small", {}, hit.pages > 1 ? `page ${hit.page} of ${hit.pages}` : `page ${hit.page}`),
      ),
      h("button", { class: "score hint", type: "button", data: { tip }, "aria-label": `Score ${points(hit.score)}` }, points(hit.score)),
    );
  }

  evidence() {
    const { hit, answer } = this;
    return strip(hit, hit.region, answer.collection) ?? h("p", { class: "no-strip" }, "No single part of this page stands out.");
  }

  why() {
    const { hit, answer } = this;
    const chips = wordChips(answer.words, hit, (word) => this.choose({ word }));
    const lone = hit.variant_scores.length < 2;
    return h(
      "div",
      { class: "why" },
      lone ? null : bars(hit, answer.scale, (variant) => this.choose({ variant })),
      h(
        "div",
        { class: "why-side" },
        lone
          ? null
          : h(
              "p",
              { class: "verdict" },
              h("span", { class: "dot", "aria-hidden": "true" }),
              verdict(hit.variant_scores, hit.variant),
              h(
                "button",
                { class: "hint", type: "button", "aria-label": "What are readings?", data: { tip: explanation(hit.variant_scores.length) } },
                icon("info"),
              ),
            ),
        chips,
        facts(hit.metadata),
      ),
    );
  }

  /** A bar or a word of this card was pressed: it has its own heatmap now; pressed again, none. */
  choose(patch) {
    const now = this.shown();
    const next = { on: true, variant: null, word: null, ...(now.on ? now : {}), ...patch };
    const same = now.on && ("variant" in patch ? this.effective(now) === patch.variant : now.word === patch.word);
    if (same && "word" in patch) next.word = null;
    else if (same) next.on = false;
    this.own = next;
    this.draw();
  }

  /** What the toolbar says holds for every card; it ends what was chosen on one. */
  follow(common) {
    this.common = common;
    this.own = null;
    this.draw();
  }

  shown() {
    return this.own ?? this.common;
  }

  effective(one) {
    return one.variant ?? this.hit.variant;
  }

  draw() {
    const { on, word } = this.shown();
    const variant = this.effective(this.shown());
    this.picture.heat(on ? { query: this.answer.query, variant, word } : null);
    press(this.element, on ? variant : null);
    pressWord(this.element, on ? word : null);
    this.element.classList.toggle("hot", on);
  }
}

function facts(metadata) {
  const entries = Object.entries(metadata ?? {}).slice(0, 4);
  if (!entries.length) return null;
  return h(
    "dl",
    { class: "facts" },
    entries.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, String(value)))),
  );
}
