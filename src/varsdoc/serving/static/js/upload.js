// Files in: by drag and drop, by the button, by paste.
import { $ } from "./dom.js";
import { problemOf, url } from "./api.js";
import * as state from "./state.js";
import { startUpload } from "./jobs.js";
import { notify } from "./notices.js";
import { collectionFacts } from "./collections.js";

export const chooseFiles = () => $("files").click();

export function setUpUpload() {
  $("add").addEventListener("click", chooseFiles);
  $("files").addEventListener("change", (event) => {
    send([...event.target.files]);
    event.target.value = "";
  });
  let depth = 0; // enter and leave come for every element on the way
  const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const show = (on) => { $("drop").hidden = !on; };
  addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth += 1;
    show(true);
  });
  addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
  });
  addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    if (!depth) show(false);
  });
  addEventListener("drop", (event) => {
    depth = 0;
    show(false);
    if (!carriesFiles(event)) return;
    event.preventDefault();
    send([...event.dataTransfer.files]);
  });
  addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) send(files);
  });
}

function send(files) {
  if (!files.length) return;
  if (collectionFacts()?.read_only) return notify("This server is read-only: nothing can be added here.", "bad");
  startUpload(files.map((file) => file.name), (progress, signal) => post(files, progress, signal));
}

/** fetch does not tell how much of a body is out: XMLHttpRequest does. */
function post(files, progress, signal) {
  return new Promise((done, fail) => {
    const form = new FormData();
    for (const file of files) form.append("files", file, file.name);
    const sent = new XMLHttpRequest();
    sent.open("POST", url("/documents", { collection: state.get().collection }));
    sent.responseType = "json";
    sent.upload.addEventListener("progress", (event) => event.lengthComputable && progress(event.loaded / event.total));
    sent.addEventListener("load", () => (sent.status < 300 ? done(sent.response.job) : fail(problemOf(sent.status, sent.response ?? {}))));
    sent.addEventListener("error", () => fail(new Error("The upload broke off: the server does not answer, or a file changed or is too large.")));
    sent.addEventListener("abort", () => fail(new Error("Called off.")));
    signal.addEventListener("abort", () => sent.abort());
    sent.send(form);
  });
}
