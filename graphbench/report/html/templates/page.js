// Puts the page together: tables, pictures, theme, keys, links.
(function () {
  "use strict";
  const graphbench = window.graphbench;
  const { data, Table } = graphbench;

  graphbench.tables = data.tables.map((entry) => new Table(entry));
  graphbench.oneRegion = !Object.keys(data.details).some((id) => /^r(?!0\/)\d[\d.]*\//.test(id));

  const homes = new Map();
  for (const table of graphbench.tables) {
    for (const id of table.ids) {
      if (!homes.has(id)) {
        homes.set(id, table);
      }
    }
  }
  graphbench.tableOf = (id) => homes.get(id);

  for (const table of graphbench.tables) {
    const place = document.querySelector(`[data-table="${table.id}"]`);
    const mount = place.querySelector(".mount");
    if (place.tagName === "DETAILS") {
      place.addEventListener("toggle", () => mount.childElementCount === 0 && table.mount(mount));
    } else {
      table.mount(mount);
    }
  }

  const button = document.getElementById("theme");
  button.setAttribute("aria-pressed", String(document.documentElement.dataset.theme === "dark"));
  button.addEventListener("click", graphbench.toggleTheme);

  // plotly is unpacked and run when the first picture is near; a page with pictures or samples has it.
  let plotly = null;
  graphbench.plotlyReady = function () {
    plotly ??= run();
    return plotly;
  };
  async function run() {
    const source = await graphbench.unpack("plotly");
    const script = document.createElement("script");
    script.textContent = source;
    document.head.append(script);
  }

  async function draw(place) {
    near.unobserve(place);
    const figure = data.figures[place.dataset.figure];
    await graphbench.plotlyReady();
    await graphbench.drawFigure(place, figure);
    place.dataset.drawn = "true";
  }
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((each) => each.isIntersecting)) {
        draw(entry.target);
      }
    },
    { rootMargin: "400px" },
  );
  document.querySelectorAll(".plot").forEach((place) => near.observe(place));
  graphbench.drawAll = () => document.querySelectorAll(".plot:not([data-drawn])").forEach(draw);

  // Where one is: the section whose heading was passed last.
  const sections = [...document.querySelectorAll("main > section")];
  const anchors = new Map([...document.querySelectorAll("nav a")].map((a) => [a.getAttribute("href").slice(1), a]));
  function tell() {
    const passed = sections.filter((section) => section.getBoundingClientRect().top < 120);
    const named = window.location.hash.slice(1);
    const atEnd = window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 2;
    const last = passed.length > 0 ? passed[passed.length - 1].id : "";
    const here = atEnd && anchors.has(named) ? named : last;
    for (const [id, anchor] of anchors) {
      if (id === here) {
        anchor.setAttribute("aria-current", "true");
      } else {
        anchor.removeAttribute("aria-current");
      }
    }
  }
  document.addEventListener("scroll", tell, { passive: true });
  tell();

  function follow() {
    const id = graphbench.idOf(window.location.hash);
    if (id !== null) {
      graphbench.show(id);
    } else if (window.location.hash === "") {
      graphbench.close();
    }
  }
  window.addEventListener("hashchange", follow);
  document.addEventListener("graphbench:select", (event) => graphbench.show(event.detail));
  follow();
  // Whoever comes by the address of a row finds it in its table, too.
  document.querySelector("tr.selected")?.scrollIntoView({ block: "center", inline: "start", behavior: "instant" });

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea") !== null;
    if (event.key === "Escape") {
      graphbench.close();
    } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const box = nearestFilter(event.target);
      if (box) {
        event.preventDefault();
        box.focus();
      }
    }
  });

  // A list of columns closes when one goes on elsewhere.
  document.addEventListener("click", (event) => {
    for (const list of document.querySelectorAll(".columns[open]")) {
      if (!list.contains(event.target)) {
        list.open = false;
      }
    }
  });

  // The filter of the table one is in, else of the first that is seen.
  function nearestFilter(from) {
    const within = from.closest(".table");
    const own = within && within.querySelector(".words");
    const boxes = [...document.querySelectorAll(".words")].filter((box) => box.offsetParent !== null);
    return own || boxes.find((box) => box.getBoundingClientRect().bottom > 60) || boxes[0];
  }

  document.documentElement.dataset.ready = "true";
})();
