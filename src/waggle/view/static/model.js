// An episode in memory: what everybody holds after every round, and where a trace came from.
import { OTHER, PALETTE } from "./dom.js";

const LIFE = 8; // rounds that a fresh trace lives
export const KINDS = ["fresh", "relay", "challenge"];

export class Episode {
  // `before` is the same episode at an earlier moment; its colours stay.
  constructor(run, data, before) {
    Object.assign(this, data);
    Object.assign(this, { run, length: 0, claimsHeld: [], acts: [], byAlias: new Map(), contacts: new Map() });
    Object.assign(this, { chosen: before?.chosen, claimWords: before?.claimWords, actionWords: before?.actionWords });
    this.settle();
  }

  // Take in the rounds that were played since.
  grow(more) {
    for (const name of ["rounds", "claims", "aliases", "actions", "handles"]) {
      for (const value of more[name]) this[name].push(value);
    }
    for (const name of ["maps", "cells"]) this.scene[name]?.push(...(more.scene[name] ?? []));
    this.quiet = more.quiet;
    this.settle();
  }

  settle() {
    const fresh = this.rounds.slice(this.length);
    unfold(this.claimsHeld, fresh, "held", this.n);
    unfold(this.acts, fresh, "acted", this.n);
    this.length = this.rounds.length;
    this.injection = this.rounds.findIndex((round) => round.shock);
    this.aliases.forEach((alias, number) => this.byAlias.set(alias, number));
    for (const [agent, handle, to] of this.handles) this.contacts.set(`${agent} ${handle}`, to);
    this.claimWords = ranked(this.claims, this.claimsHeld, this.claimWords);
    this.actionWords = ranked(this.actions, this.acts, this.actionWords);
    this.colourBy(this.chosen ?? (this.claimWords.named.length ? "claim" : "action"));
  }

  colourBy(what) {
    this.what = what;
    this.states = what === "claim" ? this.claimsHeld : this.acts;
    this.words = what === "claim" ? this.claimWords : this.actionWords;
  }

  away(round, agent) {
    const list = this.rounds[round].away;
    return list === "all" || list.includes(agent);
  }

  // The round of the agent's next decision in a direction, or null.
  decision(agent, round, direction) {
    for (let r = round + direction; r >= 0 && r < this.length; r += direction) {
      if (!this.away(r, agent)) return r;
    }
    return null;
  }

  // Who wrote a trace that an agent sees on a handle: the contact, or all that it may be.
  senders(agent, round, claim, handle) {
    const all = this.sources(agent, round, claim);
    const known = this.contacts.get(`${agent} ${handle}`);
    return known === undefined ? all : all.filter((hop) => hop.from === known);
  }

  // Who wrote a claim to an agent before a round, the latest first, every sender once.
  sources(agent, round, claim) {
    const found = new Map();
    for (let r = round - 1; r >= Math.max(0, round - LIFE); r--) {
      for (const [from, to, number, kind] of this.rounds[r].writes) {
        if (to === agent && number === claim && !found.has(from)) {
          found.set(from, { from, to, round: r, kind });
        }
      }
    }
    return [...found.values()];
  }

  // The hops of a trace back to whoever wrote it from evidence of its own.
  hops(first, claim) {
    const path = [first];
    const seen = new Set();
    for (let last = first; last.kind === 1; path.push(last)) {
      const key = `${last.from} ${last.round}`;
      if (seen.has(key)) break;
      seen.add(key);
      const next = this.sources(last.from, last.round, claim)[0];
      if (!next) break;
      last = next;
    }
    return path;
  }
}

function unfold(states, rounds, name, n) {
  for (const round of rounds) {
    const now = states.length ? states.at(-1).slice() : new Int32Array(n).fill(-1);
    for (const [agent, word] of round[name]) now[agent] = word;
    states.push(now);
  }
}

// Words by how often they are held: the first have a colour of their own, and keep it.
function ranked(words, states, before) {
  const counts = new Array(words.length).fill(0);
  for (const state of states) for (const word of state) if (word >= 0) counts[word] += 1;
  const order = counts.map((count, word) => [count, word]).filter(([count]) => count);
  order.sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  const kept = before ? before.named.map((word) => words.indexOf(before.words[word])).filter((word) => word >= 0) : [];
  const named = [...new Set([...kept, ...order.map(([, word]) => word)])].slice(0, PALETTE.length);
  const colours = new Map(named.map((word, place) => [word, PALETTE[place]]));
  return {
    words,
    named,
    more: Math.max(0, order.length - named.length),
    colour: (word) => (word < 0 ? null : (colours.get(word) ?? OTHER)),
  };
}
