// Waits for the server, or for its model, as long as someone still wants to know.
import * as api from "./api.js";

const rest = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(good, wanted, ms) {
  while (wanted()) {
    await rest(ms);
    if (!wanted()) return false;
    const health = await api.health().catch(() => null);
    if (health && good(health)) return true;
  }
  return false;
}

export const untilThere = (wanted) => until(() => true, wanted, 2000);
export const untilReady = (wanted) => until((health) => health.model !== "loading", wanted, 700);
