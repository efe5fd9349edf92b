// Questions in a dialog: are you sure; which token.
import { $, h } from "./dom.js";
import { icon } from "./icons.js";
import * as api from "./api.js";

/** Resolves to true when the act was confirmed. */
export function confirm({ title, text, act }) {
  const dialog = $("confirm");
  return new Promise((done) => {
    const cancel = h("button", { type: "button", on: { click: () => dialog.close("") } }, "Cancel");
    const go = h("button", { type: "button", class: "danger", on: { click: () => dialog.close("yes") } }, act);
    dialog.returnValue = "";
    dialog.replaceChildren(h("h2", { id: "confirm-title" }, title), h("p", {}, text), h("p", { class: "box-actions" }, cancel, go));
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
    cancel.focus();
  });
}

let asking = null; // several requests may be refused at once: one question for all

export function askToken() {
  asking ??= ask().finally(() => { asking = null; });
  return asking;
}

function ask() {
  const dialog = $("token");
  return new Promise((done) => {
    const input = h("input", { type: "password", id: "token-value", required: true, autocomplete: "current-password" });
    const told = h("p", { class: "bad", role: "alert" });
    const submit = async (event) => {
      event.preventDefault();
      try {
        await api.openSession(input.value);
        dialog.close("yes");
      } catch (error) {
        told.textContent = error.status === 401 ? "That is not the token." : error.message;
        input.select();
      }
    };
    dialog.returnValue = "";
    dialog.replaceChildren(
      h(
        "form",
        { on: { submit } },
        h("div", { class: "state-icon" }, icon("lock")),
        h("h2", { id: "token-title" }, "This server wants a token"),
        h("p", {}, "It was given with --token or VARSDOC_TOKEN when the server was started."),
        h("label", { for: "token-value" }, "Token"),
        input,
        told,
        h("p", { class: "box-actions" }, h("button", { type: "button", on: { click: () => dialog.close("") } }, "Not now"), h("button", { class: "primary" }, "Open")),
      ),
    );
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
  });
}
