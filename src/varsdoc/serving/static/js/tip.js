// One tooltip for all: what has data-tip explains itself on hover and on focus. Esc hides it.
import { $ } from "./dom.js";

let timer = 0;
let owner = null;

export function setUpTips() {
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const target = event.target.closest?.("[data-tip]");
    if (target !== owner) hide();
    if (target && target !== owner) timer = setTimeout(() => show(target), 350);
  });
  document.addEventListener("focusin", (event) => {
    const target = event.target.closest?.("[data-tip]");
    hide();
    if (target?.matches(":focus-visible")) show(target);
  });
  // Pressing the info sign is asking for it, also on a touch screen; pressing anything else is not.
  document.addEventListener("click", (event) => {
    const hint = event.target.closest?.(".hint");
    hide();
    if (hint) show(hint);
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
}

function show(target) {
  if (!target.isConnected) return;
  const tip = $("tip");
  owner = target;
  tip.textContent = target.dataset.tip;
  target.setAttribute("aria-describedby", "tip");
  tip.showPopover();
  const at = target.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = tip;
  const left = Math.min(innerWidth - width - 8, Math.max(8, at.left + at.width / 2 - width / 2));
  const above = at.top - height - 8;
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${above > 4 ? above : at.bottom + 8}px`);
}

function hide() {
  clearTimeout(timer);
  if (!owner) return;
  owner.removeAttribute("aria-describedby");
  owner = null;
  if ($("tip").matches(":popover-open")) $("tip").hidePopover();
}
