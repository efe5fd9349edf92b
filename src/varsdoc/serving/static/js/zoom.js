// Zoom and pan of one element inside another: wheel, drag, pinch, double click, and calls for keys and buttons.

const MOST = 8;

export class Zoom {
  /** ratio: width over height of what is shown; changed(percent of the fitting size) */
  constructor(stage, canvas, changed) {
    Object.assign(this, { stage, canvas, changed, ratio: 0.7, scale: 1, x: 0, y: 0 });
    this.pointers = new Map();
    stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    stage.addEventListener("pointerdown", (event) => this.down(event));
    stage.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) stage.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    stage.addEventListener("dblclick", (event) => this.at(this.scale > 1 ? 1 / this.scale : 2.5, event.clientX, event.clientY));
    new ResizeObserver(() => this.draw()).observe(stage);
  }

  show(ratio) {
    this.ratio = ratio;
    this.fit();
  }

  fit() {
    Object.assign(this, { scale: 1, x: 0, y: 0 });
    this.draw();
  }

  /** Brings a part of the page, in fractions, into view at a size that can be read. */
  towards([x0, y0, x1, y1]) {
    const { width, height } = this.fitting();
    const { clientWidth, clientHeight } = this.stage;
    const wanted = 0.8 * Math.min(clientWidth / ((x1 - x0) * width), clientHeight / ((y1 - y0) * height));
    this.scale = Math.min(3.5, Math.max(1, wanted));
    this.x = (0.5 - (x0 + x1) / 2) * width * this.scale;
    this.y = (0.5 - (y0 + y1) / 2) * height * this.scale;
    this.draw();
  }

  by(factor) {
    const { left, top, width, height } = this.stage.getBoundingClientRect();
    this.at(factor, left + width / 2, top + height / 2);
  }

  /** The point under the pointer stays where it is. */
  at(factor, clientX, clientY) {
    const next = Math.min(MOST, Math.max(1, this.scale * factor));
    const { left, top, width, height } = this.stage.getBoundingClientRect();
    const [px, py] = [clientX - left - width / 2, clientY - top - height / 2];
    this.x = px - ((px - this.x) * next) / this.scale;
    this.y = py - ((py - this.y) * next) / this.scale;
    this.scale = next;
    this.draw();
  }

  fitting() {
    const room = { width: Math.max(1, this.stage.clientWidth - 24), height: Math.max(1, this.stage.clientHeight - 24) };
    const width = Math.min(room.width, room.height * this.ratio);
    return { width, height: width / this.ratio };
  }

  draw() {
    const { width, height } = this.fitting();
    const spare = (size, room) => Math.max(0, (size * this.scale - room) / 2 + 12);
    const bound = (value, most) => Math.min(most, Math.max(-most, value));
    this.x = bound(this.x, spare(width, this.stage.clientWidth));
    this.y = bound(this.y, spare(height, this.stage.clientHeight));
    if (this.scale === 1) this.x = this.y = 0;
    this.canvas.style.setProperty("width", `${width}px`);
    this.canvas.style.setProperty("height", `${height}px`);
    this.canvas.style.setProperty("transform", `translate(-50%, -50%) translate(${this.x}px, ${this.y}px) scale(${this.scale})`);
    this.stage.classList.toggle("zoomed", this.scale > 1);
    this.changed(Math.round(100 * this.scale));
  }

  wheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.at(Math.exp((-event.deltaY * lines) / (event.ctrlKey ? 120 : 420)), event.clientX, event.clientY);
  }

  down(event) {
    if (event.button) return;
    this.stage.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
  }

  move(event) {
    const old = this.pointers.get(event.pointerId);
    if (!old) return;
    const now = [event.clientX, event.clientY];
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, now);
    if (other) {
      const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
      this.at(apart(now, other) / Math.max(1, apart(old, other)), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    }
    const share = other ? 2 : 1;
    this.x += (now[0] - old[0]) / share;
    this.y += (now[1] - old[1]) / share;
    this.draw();
  }
}
