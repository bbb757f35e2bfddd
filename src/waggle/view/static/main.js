// The page: the list of runs, or the player of those that the address names.
import { el } from "./dom.js";
import { Library } from "./library.js";
import { Episode } from "./model.js";
import { Player } from "./player.js";
import { source } from "./source.js";

const place = document.getElementById("main");
let shown = null;

function whole(text) {
  return /^\d+$/.test(text ?? "") ? Number(text) : null;
}

async function show() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const runs = [asked.get("run"), asked.get("with")].filter((run) => run);
  shown?.stop();
  const mine = (shown = { stop() {} });
  place.replaceChildren(el("p", { class: "soft" }, "Loading…"));
  try {
    if (!runs.length) {
      shown = new Library();
      place.replaceChildren(shown.root);
      await shown.load();
    } else {
      const episodes = await Promise.all(runs.map(async (run) => new Episode(run, await source.episode(run))));
      if (shown !== mine) return;
      if (episodes.some((episode) => !episode.length)) throw new Error("the record has no rounds");
      const player = (shown = new Player(episodes));
      place.replaceChildren(el("p", { class: "back" }, el("a", { href: "#" }, "‹ all runs")), player.root);
      const agent = whole(asked.get("agent"));
      if (agent !== null && agent < episodes[0].n) player.tracks[0].go(whole(asked.get("round")) ?? 0, agent);
      else player.set(whole(asked.get("round")) ?? 0);
    }
    document.body.dataset.ready = "yes";
  } catch (error) {
    place.replaceChildren(el("p", { class: "back" }, el("a", { href: "#" }, "‹ all runs")),
      el("p", { role: "alert", class: "alert" }, error.message));
  }
}

window.waggleViewer = () => shown;
window.addEventListener("hashchange", show);
show();
