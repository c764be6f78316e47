// Draws the samples of a row: in the order in which they were taken, and how they are distributed.
//
// window.graphbench.drawSamples(element, series): `series` are `Series` of model.py as JSON.
"use strict";

(function () {
  const page = (window.graphbench = window.graphbench || {});
  const SCALES_NS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  const QUANTILES = [["p10", 0.1, "dot"], ["p50", 0.5, "solid"], ["p90", 0.9, "dot"]];
  const SYMBOLS = ["circle", "diamond", "square", "cross"];
  const HEIGHT = 240;

  /** The q-quantile of sorted numbers, by linear interpolation, as analysis/stats.py has it. */
  function quantile(sorted, q) {
    const position = q * (sorted.length - 1);
    const below = Math.floor(position);
    const above = Math.min(below + 1, sorted.length - 1);
    return sorted[below] + (sorted[above] - sorted[below]) * (position - below);
  }

  function unitOf(longest) {
    return SCALES_NS.find(([, scale]) => longest >= scale) || SCALES_NS[3];
  }

  function escaped(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function tracesOf(entry, index, unit, scale) {
    const values = entry.values_ns.map((value) => value / scale);
    const sorted = [...values].sort((a, b) => a - b);
    const found = QUANTILES.map(([name, q, dash]) => [name, quantile(sorted, q), dash]);
    const told = found.map(([name, value]) => `${name} ${value.toPrecision(3)}`).join(", ");
    const colour = `var(--cat-${index + 1})`;
    const shared = { legendgroup: String(index), marker: { color: colour, symbol: SYMBOLS[index % SYMBOLS.length] } };
    const name = escaped(`${entry.name} (n = ${values.length}; ${told} ${unit})`);
    return [
      {
        ...shared, name, type: "scatter", mode: "markers", x: values.map((_, i) => i + 1), y: values,
        marker: { ...shared.marker, size: 5 }, hovertemplate: `sample %{x}: %{y:.4g} ${unit}<extra></extra>`,
      },
      {
        ...shared, name, type: "histogram", y: values, xaxis: "x2", bingroup: "all", nbinsy: 30, opacity: 0.65,
        marker: { color: colour }, showlegend: false, hovertemplate: `%{x} samples at %{y} ${unit}<extra></extra>`,
      },
      ...found.map(([, value, dash]) => ({
        type: "scatter", mode: "lines", legendgroup: String(index), showlegend: false, hoverinfo: "skip",
        x: [1, Math.max(values.length, 2)], y: [value, value], line: { color: colour, width: 1.5, dash },
      })),
    ];
  }

  function layoutOf(unit) {
    return {
      height: HEIGHT,
      margin: { l: 8, r: 8, t: 8, b: 8 },
      barmode: "overlay",
      hovermode: "closest",
      xaxis: { domain: [0, 0.64], title: { text: "sample" }, automargin: true, zeroline: false },
      xaxis2: { domain: [0.68, 1], title: { text: "how many" }, automargin: true, zeroline: false },
      yaxis: { title: { text: `time (${unit})` }, automargin: true, zeroline: false },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" },
    };
  }

  page.drawSamples = function (element, series) {
    const known = series.filter((entry) => entry.values_ns.length);
    const [unit, scale] = unitOf(Math.max(...known.map((entry) => Math.max(...entry.values_ns))));
    const traces = known.flatMap((entry, index) => tracesOf(entry, index, unit, scale));
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", `Samples: ${traces.filter((t) => t.mode === "markers").map((t) => t.name).join("; ")}`);
    page.drawNow(element, { id: "samples", traces, layout: layoutOf(unit) });
  };
})();
