// The curves of an episode under one cursor: score, shares, messages, mass of the field.
import { OTHER, PALETTE, el, figure, fitted, swatch } from "./dom.js";

function lines(episode) {
  const { rounds, n, states, words } = episode;
  const scores = episode.scores.filter(
    (name) => name === "score" || rounds.every(({ score }) => (score[name] ?? 0) >= 0 && (score[name] ?? 0) <= 1),
  );
  const of = (name, colour, value) => ({ name, colour, values: rounds.map(value) });
  const share = (word) => states.map((state) => state.reduce((sum, w) => sum + (w === word), 0) / n);
  const held = words.named.map((word) => ({
    name: words.words[word], colour: words.colour(word), values: share(word),
  }));
  return [
    { title: "Scores", lines: scores.slice(0, 5).map((name, i) => of(name, PALETTE[i], (r) => r.score[name])) },
    {
      title: episode.what === "claim" ? "Share of agents by claim held" : "Share of agents by action", top: 1,
      lines: [...held, { name: "none", colour: OTHER, values: share(-1) }],
    },
    {
      title: "Messages",
      lines: [of("sent", PALETTE[0], (r) => r.sent), of("arrived", PALETTE[1], (r) => r.arrived)],
    },
    {
      title: "Mass of the field",
      lines: ["novelty", "support", "conflict"].map((name, i) => of(name, PALETTE[i], (r) => r.mass[i])),
    },
  ];
}

class Curve {
  constructor(episode, { title, lines: drawn, top }, go) {
    this.episode = episode;
    this.lines = drawn;
    this.round = 0;
    this.top = top ?? Math.max(1, ...drawn.flatMap((line) => line.values.map((v) => v ?? 0)));
    this.readings = drawn.map(() => el("b", {}));
    this.canvas = el("canvas", {
      class: "curve", role: "img", "aria-label": `${title} over ${episode.length} rounds`,
      onclick: (event) => go(this.at(event.offsetX)),
    });
    this.root = el("figure", {},
      el("figcaption", {}, el("strong", {}, title, el("span", { class: "soft" }, ` 0 to ${figure(this.top)}`)), ...drawn.map((line, i) =>
        el("span", { class: "key" }, swatch(line.colour), line.name, " ", this.readings[i]))),
      this.canvas,
    );
    this.clear = fitted(this.canvas, () => this.draw());
  }

  at(x) {
    return Math.round(((x - 4) / (this.canvas.clientWidth - 8)) * (this.episode.length - 1));
  }

  draw() {
    const { pen, width, height, ink } = this.clear();
    const last = Math.max(1, this.episode.length - 1);
    const x = (round) => 4 + (round / last) * (width - 8);
    const y = (value) => height - 4 - (value / this.top) * (height - 8);
    pen.strokeStyle = ink;
    pen.globalAlpha = 0.2;
    pen.strokeRect(0.5, 0.5, width - 1, height - 1);
    pen.globalAlpha = 1;
    if (this.episode.injection >= 0) {
      pen.strokeStyle = "#d1242f";
      pen.setLineDash([4, 3]);
      stroke(pen, [[x(this.episode.injection), 0], [x(this.episode.injection), height]]);
      pen.setLineDash([]);
    }
    pen.lineWidth = 1.6;
    for (const line of this.lines) {
      pen.strokeStyle = line.colour;
      stroke(pen, line.values.map((value, round) => [x(round), y(value ?? 0)]));
    }
    pen.lineWidth = 1;
    pen.strokeStyle = ink;
    stroke(pen, [[x(this.round), 0], [x(this.round), height]]);
  }

  show(round) {
    this.round = round;
    this.lines.forEach((line, i) => {
      this.readings[i].textContent = figure(line.values[round]);
    });
    this.draw();
  }
}

function stroke(pen, points) {
  pen.beginPath();
  points.forEach(([x, y], place) => (place ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

export function curves(episode, go) {
  const made = lines(episode).filter((plot) => plot.lines.length).map((plot) => new Curve(episode, plot, go));
  return {
    root: el("div", { class: "curves" }, made.map((curve) => curve.root)),
    show: (round) => made.forEach((curve) => curve.show(round)),
  };
}
