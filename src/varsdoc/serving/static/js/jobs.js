// Uploads under way: one card each, polled until it ends; what failed stays with its reason.
import { $, h, plural } from "./dom.js";
import { icon } from "./icons.js";
import * as api from "./api.js";
import * as state from "./state.js";

const ENDED = new Set(["done", "failed", "cancelled", "interrupted"]);
let changed = () => {};

/** work is called whenever a job has brought new pages in. */
export function setUpJobs(work) {
  changed = work;
}

/** Jobs that were running before this page was loaded. */
export async function resumeJobs() {
  const { jobs } = await api.jobs(state.get().collection);
  for (const job of jobs) if (!ENDED.has(job.state)) follow(new JobCard(job.files), job);
}

/** send(progress, signal) posts the files and resolves to the job. */
export async function startUpload(names, send) {
  const card = new JobCard(names);
  const sending = new AbortController();
  card.onCancel = () => sending.abort();
  card.say("Sending", 0);
  try {
    const job = await send((part) => card.say(part < 1 ? "Sending" : "Checking", part), sending.signal);
    await follow(card, job);
  } catch (error) {
    if (sending.signal.aborted) card.end("Cancelled", "warning");
    else card.end("Not added", "bad", [{ source: "", reason: error.message }]);
  }
}

async function follow(card, first) {
  const { collection } = state.get();
  let job = first;
  let seen = 0;
  let missed = 0;
  card.onCancel = () => {
    card.say("Cancelling", null);
    api.cancelJob(job.id, collection).catch(() => {});
  };
  while (!ENDED.has(job.state)) {
    card.progress(job);
    await new Promise((done) => setTimeout(done, 500));
    try {
      job = await api.job(job.id, collection);
      missed = 0;
    } catch (error) {
      missed += 1;
      if (error.status === 404) return card.end("The server no longer knows this upload", "bad");
      if (missed > 20) return card.end("The server does not answer", "bad");
      continue;
    }
    const now = job.added + job.replaced;
    if (now > seen && !ENDED.has(job.state)) {
      seen = now;
      changed();
    }
  }
  card.finish(job);
  changed();
}

class JobCard {
  constructor(names) {
    this.onCancel = () => {};
    this.title = h("strong", {}, names.length === 1 ? names[0] : plural(names.length, "file"));
    this.told = h("span", { class: "job-told", role: "status" });
    this.fill = h("span", { class: "job-fill" });
    this.bar = h("div", { class: "job-bar", role: "progressbar", "aria-label": `Adding ${names.length === 1 ? names[0] : plural(names.length, "file")}`, "aria-valuemin": 0, "aria-valuemax": 100 }, this.fill);
    this.stop = h("button", { type: "button", class: "icon-button", "aria-label": "Cancel this upload", on: { click: () => this.onCancel() } }, icon("close"));
    this.failed = h("ul", { class: "job-failed", hidden: true, tabindex: "0", "aria-label": "Not added" });
    this.element = h("div", { class: "job" }, h("div", { class: "job-head" }, this.title, this.stop), this.bar, this.told, this.failed);
    $("jobs").hidden = false;
    $("jobs").append(this.element);
  }

  /** part: 0 to 1, or null where it is not known */
  say(text, part) {
    this.told.textContent = text;
    this.bar.classList.toggle("unknown", part === null);
    this.fill.style.setProperty("width", `${100 * (part ?? 0)}%`);
    if (part === null) this.bar.removeAttribute("aria-valuenow");
    else this.bar.setAttribute("aria-valuenow", String(Math.round(100 * part)));
  }

  progress(job) {
    const all = job.pages_total;
    if (job.state === "waiting") return this.say("Waiting for its turn", null);
    if (!all) return this.say(job.pages_done ? `${plural(job.pages_done, "page")} read` : "Reading", null);
    this.say(`${job.pages_done} of ${plural(all, "page")} read`, job.pages_done / all);
    this.fail(job.failed);
  }

  finish(job) {
    const counts = [[job.added, "added"], [job.replaced, "replaced"], [job.unchanged, "already there"]];
    const told = counts.filter(([n]) => n).map(([n, what]) => `${plural(n, "page")} ${what}`).join(", ");
    const names = { done: told || "Nothing was added", failed: "Not added", cancelled: "Cancelled", interrupted: "Interrupted: add the files again" };
    const whole = job.failed.length ? (told ? "warning" : "bad") : "good"; // some of several files may be in
    const kind = { done: whole, failed: "bad" }[job.state] ?? "warning";
    const failed = job.failed.length || !job.detail ? job.failed : [{ source: "", reason: job.detail }];
    this.end(names[job.state], kind, failed);
  }

  end(text, kind, failed = []) {
    this.told.textContent = text;
    this.bar.hidden = true;
    this.element.classList.add("ended", kind);
    this.fail(failed);
    this.stop.setAttribute("aria-label", "Dismiss");
    this.onCancel = () => this.remove();
    if (kind === "good" && !failed.length) setTimeout(() => this.remove(), 8000);
  }

  fail(failed) {
    this.failed.hidden = !failed.length;
    const lines = failed.slice(0, 20).map((one) =>
      h("li", {}, one.source ? h("strong", {}, one.page ? `${one.source}, page ${one.page}` : one.source) : null, one.source ? ": " : null, one.reason),
    );
    if (failed.length > 20) lines.push(h("li", {}, `and ${failed.length - 20} more`));
    this.failed.replaceChildren(...lines);
  }

  remove() {
    this.element.remove();
    $("jobs").hidden = !$("jobs").children.length;
  }
}
