// Elements from plain values. Strings of records are not ours: they become text, never markup.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null));
  return made;
}

export function pairs(list) {
  return el("dl", {}, list.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

export function swatch(colour) {
  const mark = el("span", { class: "swatch", "aria-hidden": "true" });
  mark.style.background = colour;
  return mark;
}

export const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));
}

// Colours that stay apart for colour-blind readers, on light and on dark ground.
export const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6fd1"];
export const OTHER = "#8b929e";

// A canvas that keeps the size of its place; returns a function that clears it for drawing.
export function fitted(canvas, redraw) {
  new ResizeObserver(redraw).observe(canvas);
  return () => {
    const scale = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    return { pen, width, height, ink: getComputedStyle(canvas).color };
  };
}
