// The picture of the swarm: agents by what they hold, traces on their way, on a graph or a map.
import { el, fitted } from "./dom.js";

const TRAIL = 8; // rounds for which the way of a trace can be seen
const ANIMATED = 2000; // agents up to which messages are drawn
const GOLDEN = Math.PI * (3 - Math.sqrt(5));

export class Stage {
  constructor(episode, chosen) {
    this.episode = episode;
    this.time = 0;
    this.agent = null;
    this.path = [];
    this.canvas = el("canvas", {
      class: "stage", role: "img", tabindex: "0",
      "aria-label": `Swarm of ${episode.n} agents. Choose one by clicking, or in the field Agent.`,
      onclick: (event) => {
        const found = this.near(event.offsetX, event.offsetY);
        if (found !== null) chosen(found);
      },
    });
    this.clear = fitted(this.canvas, () => this.draw());
    const { scene, n } = episode;
    if (scene.kind === "graph" && !scene.xy) {
      scene.xy = Array.from({ length: n }, (_, i) => {
        const radius = Math.sqrt((i + 0.5) / n) / 2;
        return [0.5 + radius * Math.cos(i * GOLDEN), 0.5 + radius * Math.sin(i * GOLDEN)];
      });
    }
  }

  // Put every agent on the canvas, for a time between two rounds.
  settle(width, height) {
    const { scene, length } = this.episode;
    const round = Math.min(Math.floor(this.time), length - 1);
    if (scene.kind === "grid") {
      const rows = scene.maps[round].length;
      const columns = scene.maps[round][0].length;
      this.cell = Math.min(width / columns, height / rows);
      const left = (width - this.cell * columns) / 2;
      const top = (height - this.cell * rows) / 2;
      const before = scene.cells[Math.max(0, round - 1)];
      const share = round === 0 ? 1 : Math.min(1, (this.time - round) * 2);
      this.corner = [left, top];
      this.radius = this.cell * 0.4;
      this.places = scene.cells[round].map(([row, column], agent) => [
        left + this.cell * (0.5 + before[agent][1] + share * (column - before[agent][1])),
        top + this.cell * (0.5 + before[agent][0] + share * (row - before[agent][0])),
      ]);
      return round;
    }
    if (this.laid === `${width} ${height}`) return round;
    this.laid = `${width} ${height}`;
    this.radius = Math.max(1.2, Math.min(11, 0.33 * Math.sqrt((width * height) / this.episode.n)));
    const edge = this.radius + 6;
    this.places = scene.xy.map(([x, y]) => [edge + x * (width - 2 * edge), edge + y * (height - 2 * edge)]);
    return round;
  }

  near(x, y) {
    let best = null;
    let distance = Math.max(12, this.radius + 4) ** 2;
    this.places.forEach(([a, b], agent) => {
      const here = (a - x) ** 2 + (b - y) ** 2;
      if (here < distance) [best, distance] = [agent, here];
    });
    return best;
  }

  draw() {
    const { pen, width, height, ink } = this.clear();
    if (!width || !this.episode.length) return;
    const round = this.settle(width, height);
    if (this.episode.scene.kind === "grid") this.map(pen, ink, round);
    else this.edges(pen, ink);
    if (this.episode.n <= ANIMATED) this.messages(pen, round);
    this.agents(pen, ink, round);
    this.marks(pen, ink, round);
  }

  map(pen, ink, round) {
    const [left, top] = this.corner;
    pen.fillStyle = ink;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.font = `${Math.max(7, this.cell * 0.75)}px system-ui, sans-serif`;
    this.episode.scene.maps[round].forEach((line, row) => {
      [...line].forEach((sign, column) => {
        const x = left + column * this.cell;
        const y = top + row * this.cell;
        if (sign === "W") {
          pen.globalAlpha = 0.16;
          pen.fillRect(x, y, this.cell, this.cell);
        } else if (sign === ".") {
          pen.globalAlpha = 0.2;
          pen.fillRect(x + this.cell / 2 - 0.5, y + this.cell / 2 - 0.5, 1, 1);
        } else if (!/[AaY0-9 ]/.test(sign)) {
          pen.globalAlpha = 1;
          pen.fillText(sign, x + this.cell / 2, y + this.cell / 2);
        }
      });
    });
    pen.globalAlpha = 1;
  }

  edges(pen, ink) {
    pen.strokeStyle = ink;
    pen.globalAlpha = this.episode.n > 100 ? 0.08 : 0.16;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const [a, b] of this.episode.scene.edges) {
      pen.moveTo(...this.places[a]);
      pen.lineTo(...this.places[b]);
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  // Ways of the last rounds fade with their age; messages of this round travel along theirs.
  messages(pen, round) {
    const { rounds, claimWords } = this.episode;
    if (this.episode.scene.kind === "graph" && this.episode.n <= 200) {
      for (let age = TRAIL - 1; age >= 1; age--) {
        if (round - age < 0) continue;
        pen.globalAlpha = 0.35 * (1 - age / TRAIL);
        pen.lineWidth = 2;
        for (const [from, to, claim] of rounds[round - age].writes) {
          pen.strokeStyle = claimWords.colour(claim);
          pen.beginPath();
          pen.moveTo(...this.places[from]);
          pen.lineTo(...this.places[to]);
          pen.stroke();
        }
      }
    }
    const share = this.time - round;
    const size = Math.max(2, Math.min(4.5, this.radius * 0.5));
    for (const [from, to, claim, kind] of rounds[round].writes) {
      const [a, b] = this.places[from];
      const [c, d] = this.places[to];
      const [x, y] = [a + share * (c - a), b + share * (d - b)];
      pen.globalAlpha = 0.55;
      pen.lineWidth = 1.2;
      pen.strokeStyle = pen.fillStyle = claimWords.colour(claim);
      pen.beginPath();
      pen.moveTo(a, b);
      pen.lineTo(x, y);
      pen.stroke();
      pen.globalAlpha = 1;
      pen.beginPath();
      if (kind === 2) pen.rect(x - size, y - size, 2 * size, 2 * size);
      else pen.arc(x, y, size, 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  agents(pen, ink, round) {
    const { states, words } = this.episode;
    const groups = new Map();
    states[round].forEach((word, agent) => {
      const colour = words.colour(word) ?? "";
      if (!groups.has(colour)) groups.set(colour, []);
      groups.get(colour).push(agent);
    });
    const radius = this.radius;
    for (const [colour, agents] of groups) {
      if (radius < 3) {
        pen.fillStyle = colour || ink;
        pen.globalAlpha = colour ? 1 : 0.15;
        for (const agent of agents) {
          pen.fillRect(this.places[agent][0] - radius, this.places[agent][1] - radius, 2 * radius, 2 * radius);
        }
        pen.globalAlpha = 1;
        continue;
      }
      pen.beginPath();
      for (const agent of agents) {
        const [x, y] = this.places[agent];
        pen.moveTo(x + radius, y);
        pen.arc(x, y, radius, 0, 7);
      }
      pen.fillStyle = colour || getComputedStyle(this.canvas).backgroundColor;
      pen.fill();
      pen.strokeStyle = ink;
      pen.lineWidth = 1.2;
      pen.globalAlpha = colour ? 0.45 : 0.6;
      pen.stroke();
      pen.globalAlpha = 1;
    }
  }

  // Rings: who reopened (dashed), whom the injection reaches, who is chosen; the way of a trace.
  marks(pen, ink, round) {
    const entry = this.episode.rounds[round];
    const ring = (agent, colour, wide, dash = []) => {
      pen.setLineDash(dash);
      pen.strokeStyle = colour;
      pen.lineWidth = wide;
      pen.beginPath();
      pen.arc(...this.places[agent], this.radius + 3.5, 0, 7);
      pen.stroke();
      pen.setLineDash([]);
    };
    for (const agent of entry.reopened) ring(agent, "#d1242f", 2, [3, 3]);
    for (const agent of entry.shock?.nodes ?? []) ring(agent, "#d1242f", 3);
    pen.strokeStyle = pen.fillStyle = ink;
    for (const { from, to } of this.path) {
      pen.lineWidth = 2.5;
      pen.beginPath();
      pen.moveTo(...this.places[from]);
      pen.lineTo(...this.places[to]);
      pen.stroke();
    }
    if (this.agent !== null) ring(this.agent, ink, 2.5);
  }
}
