// Draws the page's pictures with plotly, in the page's colours.
//
// window.graphbench.drawFigure(element, figure): `figure` is a `Figure` of model.py as JSON. Resolves once it is drawn.
// A click on a point that has an id dispatches "graphbench:select" on document, with the id as its detail.
"use strict";

(function () {
  const page = (window.graphbench = window.graphbench || {});
  const COLOUR_KEY = /colou?rs?$/i;
  const NAMED = /^(var|tint)\((--[\w-]+)\)$/;
  const TINT = 0.32; // of the colour, on the page's surface
  const AXIS_KEY = /^[xy]axis\d*$/;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  const drawn = new Map(); // element -> figure

  const pen = document.createElement("canvas").getContext("2d");

  function channels(colour) {
    pen.fillStyle = "#808080";
    pen.fillStyle = colour; // reads back as #rrggbb
    return [1, 3, 5].map((at) => parseInt(pen.fillStyle.slice(at, at + 2), 16));
  }

  function tinted(colour, surface) {
    const [over, under] = [channels(colour), channels(surface)];
    return `rgb(${over.map((value, i) => Math.round(TINT * value + (1 - TINT) * under[i])).join(",")})`;
  }

  /** A deep copy in which colours named `var(--NAME)`, or a tint of one, are the page's; texts stay as they are. */
  function inColour(value, styles, key) {
    if (Array.isArray(value)) return value.map((entry) => inColour(entry, styles, key));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, inColour(entry, styles, name)]));
    }
    const named = typeof value === "string" && COLOUR_KEY.test(key) ? NAMED.exec(value) : null;
    if (!named) return value;
    const found = styles.getPropertyValue(named[2]).trim() || "#808080";
    return named[1] === "var" ? found : tinted(found, styles.getPropertyValue("--surface").trim() || "#ffffff");
  }

  function axis(own) {
    const lines = { gridcolor: "var(--grid)", linecolor: "var(--grid)", zerolinecolor: "var(--grid)" };
    const title = { font: { color: "var(--muted)", size: 12 }, standoff: 8, ...(own.title || {}) };
    return { tickfont: { size: 12 }, ...lines, ...own, title };
  }

  function layoutOf(figure, font) {
    const own = figure.layout;
    const axes = Object.keys(own).filter((key) => AXIS_KEY.test(key));
    return {
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      dragmode: "zoom",
      uirevision: figure.id,
      ...own,
      font: { family: font, size: 13, color: "var(--text)" },
      hoverlabel: {
        align: "left",
        bgcolor: "var(--surface)",
        bordercolor: "var(--muted)",
        font: { family: font, size: 13, color: "var(--text)" },
        namelength: -1,
      },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: "var(--muted)", activecolor: "var(--text)" },
      ...Object.fromEntries(axes.map((key) => [key, axis(own[key])])),
    };
  }

  function configOf(figure) {
    const zooms = figure.traces.every((trace) => trace.type !== "icicle") && hasFreeAxis(figure.layout);
    return {
      displaylogo: false,
      displayModeBar: "hover",
      doubleClick: "reset",
      modeBarButtons: [zooms ? ["zoom2d", "pan2d", "resetScale2d", "toImage"] : ["toImage"]],
      toImageButtonOptions: { filename: `graphbench-${figure.id}`, scale: 2 },
    };
  }

  function hasFreeAxis(layout) {
    return Object.keys(layout).some((key) => AXIS_KEY.test(key) && !layout[key].fixedrange);
  }

  function render(element, figure) {
    const styles = getComputedStyle(element);
    const traces = inColour(figure.traces, styles, "");
    const layout = inColour(layoutOf(figure, styles.fontFamily), styles, "");
    return window.Plotly.react(element, traces, layout, configOf(figure));
  }

  async function start(element, figure) {
    if (drawn.has(element) || !element.isConnected) return;
    drawn.set(element, figure);
    element.textContent = "";
    try {
      await render(element, figure);
    } catch (error) {
      fail(element, error);
      return;
    }
    element.on("plotly_click", (event) => select(event.points[0]));
    element.on("plotly_icicleclick", (event) => zoom(element, event));
    resizing.observe(element);
  }

  function fail(element, error) {
    drawn.delete(element);
    element.textContent = `This picture could not be drawn: ${error.message}`;
  }

  function select(point) {
    const id = point && point.customdata;
    if (typeof id === "string" && id) document.dispatchEvent(new CustomEvent("graphbench:select", { detail: id }));
  }

  /** A click on a part of an icicle shows its row; without motion it becomes the root at once. */
  function zoom(element, event) {
    const point = event.points[0];
    select(point);
    if (!still.matches || event.nextLevel === undefined) return true;
    window.Plotly.restyle(element, { level: [event.nextLevel] }, [point.curveNumber]);
    return false;
  }

  const resizing = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (!target.isConnected) resizing.unobserve(target);
      else if (target.clientWidth && target.layout) window.Plotly.Plots.resize(target);
    }
  });

  function repaint() {
    for (const [element, figure] of drawn) {
      if (element.isConnected) render(element, figure);
      else drawn.delete(element);
    }
  }

  function loaded() {
    if (window.Plotly || document.readyState === "complete") return Promise.resolve();
    return new Promise((done) => window.addEventListener("load", done, { once: true }));
  }

  page.drawFigure = async function (element, figure) {
    if (!element.hasAttribute("role")) element.setAttribute("role", "img");
    if (!element.hasAttribute("aria-label")) element.setAttribute("aria-label", `${figure.title}. ${figure.caption}`);
    await loaded();
    if (window.Plotly) await start(element, figure);
    else fail(element, new Error("plotly is not part of this page"));
  };

  document.addEventListener("graphbench:theme", repaint);
})();
