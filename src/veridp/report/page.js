"use strict";
(() => {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let library = null;

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  function styled(chart) {
    const bars = chart.data.some((trace) => trace.type === "bar");
    const axis = { gridcolor: colour("rule"), zerolinecolor: colour("rule"), linecolor: colour("rule"), automargin: true, exponentformat: "power" };
    const data = chart.data.map(({ about, ...trace }) => ({
      ...trace,
      line: { ...trace.line, color: colour(about), width: about === "claim" ? 1.6 : 2.4 },
      marker: { color: colour(about), size: about === "claim" ? 9 : 6, symbol: about === "claim" ? "diamond" : "circle" },
      cliponaxis: trace.mode === "markers" ? false : undefined,
      hovertemplate: trace.text ? "%{text}<br>%{y:.5g}<extra>%{fullData.name}</extra>" : undefined,
    }));
    const layout = {
      ...chart.layout,
      xaxis: { ...axis, ...chart.layout.xaxis },
      yaxis: { ...axis, ...chart.layout.yaxis },
      shapes: chart.layout.shapes.map((shape) => shape.type === "rect"
        ? { ...shape, fillcolor: colour("event"), line: { width: 0 }, layer: "below" }
        : { ...shape, line: { color: colour("claim"), width: 1.5, dash: "dot" } }),
      annotations: chart.layout.annotations.map((word) => ({ ...word, showarrow: false, bgcolor: colour("card"), font: { size: 11, color: colour("soft") } })),
      font: { family: "system-ui, sans-serif", size: 12, color: colour("soft") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 54, r: 14, t: 8, b: 44 }, bargap: 0.25, barmode: "group", hovermode: bars ? "closest" : "x unified",
      hoverlabel: { bgcolor: colour("card"), font: { color: colour("ink") } },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    };
    return [data, layout, { responsive: true, displayModeBar: false }];
  }

  async function load() {
    const packed = Uint8Array.from(atob(document.getElementById("library").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  const hidden = (plot) => plot.closest("details:not([open])") !== null;

  async function draw(within = document) {
    const plots = [...within.querySelectorAll(".plot")].filter((plot) => !hidden(plot));
    if (!plots.length) return;
    library ??= load();
    await library;
    for (const plot of plots) await Plotly.react(plot, ...styled(charts[plot.dataset.chart]));
  }

  function theme(name) {
    root.dataset.theme = name;
    document.querySelectorAll(".plot.js-plotly-plot").forEach((plot) => Plotly.react(plot, ...styled(charts[plot.dataset.chart])));
  }

  function sort(heading) {
    const table = heading.closest("table"), body = table.tBodies[0], place = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") === "ascending";
    const key = (row) => row.cells[place].dataset.key;
    const order = (one, other) => {
      const [a, b] = [key(one), key(other)], [x, y] = [a, b].map((text) => Number(text.replace("inf", "Infinity")));
      if (a === "" || b === "") return (a === "") - (b === "");
      return (Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y) * (down ? -1 : 1);
    };
    body.append(...[...body.rows].sort(order));
    table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  function only(kind) {
    document.querySelectorAll(".total").forEach((button) => {
      const chosen = button.dataset.kind === kind && button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(chosen));
    });
    const chosen = document.querySelector('.total[aria-pressed="true"]')?.dataset.kind;
    document.querySelectorAll(".index tbody tr, details.target").forEach((row) => {
      row.hidden = chosen !== undefined && !row.classList.contains(chosen);
    });
  }

  function reveal() {
    const target = document.getElementById(location.hash.slice(1));
    if (target instanceof HTMLDetailsElement) target.open = true;
    target?.scrollIntoView();
  }

  theme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
  document.querySelectorAll(".sortable th button").forEach((button) => button.addEventListener("click", () => sort(button.parentElement)));
  document.querySelectorAll(".total").forEach((button) => button.addEventListener("click", () => only(button.dataset.kind)));
  document.querySelectorAll("details.target").forEach((part) => part.addEventListener("toggle", () => { if (part.open) draw(part); }));
  window.addEventListener("hashchange", reveal);
  window.addEventListener("beforeprint", () => {
    theme("light");
    document.querySelectorAll("details.target").forEach((part) => { part.open = true; });
    draw();
  });
  if (location.hash) reveal();
  draw();
})();
