// Where the data comes from: the server of `waggle view`, or the scripts of an export.

async function ask(path, parameters) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error || `the server answered ${answer.status}`);
  return value;
}

const server = {
  async runs(show) {
    const found = [];
    for (let total = 1; found.length < total; ) {
      const page = await ask("api/runs", { start: found.length });
      total = page.total;
      if (!page.runs.length) break;
      found.push(...page.runs);
      if (!show(found, total)) break;
    }
  },
  episode: (run) => ask("api/episode", { run }),
  update: (run, round, agent) => ask("api/update", { run, round, agent }),
};

function script(key) {
  const held = window.waggleExport;
  if (key in held) return Promise.resolve(held[key]);
  return new Promise((resolve, reject) => {
    const tag = document.createElement("script");
    tag.src = `data/${key}.js`;
    tag.onload = () => {
      tag.remove();
      resolve(held[key]);
    };
    tag.onerror = () => reject(new Error(`data/${key}.js is missing; export again`));
    document.head.append(tag);
  });
}

const files = {
  number: (run) => window.waggleExport.runs.findIndex((row) => row.run === run),
  async runs(show) {
    show(window.waggleExport.runs, window.waggleExport.runs.length);
  },
  episode: (run) => script(`${files.number(run)}`),
  update: async (run, round, agent) => (await script(`${files.number(run)}-${round}`))[agent] ?? null,
};

export const source = window.waggleExport ? files : server;
