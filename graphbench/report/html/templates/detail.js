// The panel beside the tables: what is known of one row, and the way to the rows that belong to it.
(function () {
  "use strict";
  const graphbench = window.graphbench;
  const { element } = graphbench;
  const PREFIX = "#row=";
  const NUMBERED = /^(step|break|opportunity)\//; // ids that say nothing
  const MOST_LINKS = 40;
  const MOST_LINES = 6;
  const KINDS = { gap: "gap op", break: "graph break" }; // others are called as they are
  const panel = document.getElementById("detail");
  const trail = [];
  let current = null;
  let opener = null;

  graphbench.hashOf = (id) => PREFIX + encodeURIComponent(id);
  // The row that an address names; somebody may have cut it.
  graphbench.idOf = function (hash) {
    try {
      return hash.startsWith(PREFIX) ? decodeURIComponent(hash.slice(PREFIX.length)) : null;
    } catch (cut) {
      return null;
    }
  };
  graphbench.opens = (id) => id !== undefined && Object.hasOwn(graphbench.data.details, id);

  // What a row is called in a link: nodes and kernels without their region where the page has one only.
  function nameOf(id) {
    const table = NUMBERED.test(id) ? graphbench.tableOf(id) : undefined;
    if (table !== undefined) {
      return table.nameOf(id);
    }
    return graphbench.oneRegion ? id.replace(/^r0\//, "") : id;
  }

  function section(title, ...children) {
    return element("section", {}, element("h3", {}, title), ...children);
  }

  // Many lines are opened on demand.
  function folded(text) {
    const lines = text.split("\n").length;
    return lines > MOST_LINES ? element("details", {}, element("summary", {}, `${lines} lines`), text) : text;
  }

  function facts(pairs) {
    const list = element("dl", { class: "facts" });
    for (const [name, text] of pairs) {
      list.append(element("div", {}, element("dt", {}, name), element("dd", {}, folded(text))));
    }
    return list;
  }

  function link(id) {
    if (!graphbench.opens(id)) {
      return element("span", { class: "plain" }, nameOf(id));
    }
    return element("button", { type: "button", "data-id": id, onclick: () => graphbench.show(id) }, nameOf(id));
  }

  function links(head, ids) {
    const list = element("ul", { class: "links" });
    const add = (some) => list.append(...some.map((id) => element("li", {}, link(id))));
    add(ids.slice(0, MOST_LINKS));
    const group = element("div", { class: "group" }, element("h4", {}, `${head} (${ids.length})`), list);
    if (ids.length > MOST_LINKS) {
      const more = element("button", { type: "button", class: "more" }, `${ids.length - MOST_LINKS} more`);
      more.addEventListener("click", () => {
        add(ids.slice(MOST_LINKS));
        more.remove();
      });
      group.append(more);
    }
    return group;
  }

  function listing(title, text) {
    const copy = element("button", { type: "button", class: "copy" }, "copy");
    copy.addEventListener("click", () => {
      const selection = window.getSelection();
      selection.selectAllChildren(block);
      document.execCommand("copy");
      selection.removeAllRanges();
      copy.textContent = "copied";
    });
    const block = element("pre", { tabindex: "0", "aria-label": title }, element("code", {}, text));
    return element("div", { class: "listing" }, element("div", { class: "of" }, title, copy), block);
  }

  async function code(found) {
    const [source, call] = await Promise.all([graphbench.item(found.source), graphbench.item(found.call)]);
    const parts = [listing(`called in the wrapper, line ${found.line}`, call)];
    if (source) {
      parts.unshift(listing(found.language, source));
    }
    return [section("Generated code", ...parts), () => {}];
  }

  async function samples(found) {
    const series = await Promise.all(
      found.map(async ([name, number]) => ({ name, values_ns: await graphbench.samples(number) })),
    );
    const place = element("div", { class: "samples" });
    await graphbench.plotlyReady();
    return [section("Samples", place), () => graphbench.drawSamples(place, series)];
  }

  function values(id) {
    const table = graphbench.tableOf(id);
    if (table === undefined) {
      return "";
    }
    const all = table.valuesOf(id).filter(([, text]) => text !== "");
    const first = facts(all.filter(([, , hidden]) => !hidden));
    const rest = all.filter(([, , hidden]) => hidden);
    const made = section(`As in ${table.title}`, first);
    if (rest.length > 0) {
      made.append(element("details", {}, element("summary", {}, `${rest.length} more values`), facts(rest)));
    }
    return made;
  }

  async function fill(id) {
    const detail = await graphbench.item(graphbench.data.details[id]);
    if (current !== id) {
      return;
    }
    const heading = element("h2", { tabindex: "-1" }, detail.title);
    const back = element("button", { type: "button", class: "back", onclick: graphbench.back }, "← back");
    back.disabled = trail.length === 0;
    const close = element("button", { type: "button", class: "close", onclick: graphbench.close }, "close ✕");
    const bar = element("div", { class: "bar" }, element("span", { class: "kind" }, KINDS[detail.kind] ?? detail.kind), back, close);
    panel.replaceChildren(bar, heading);
    if (detail.facts.length > 0) {
      panel.append(facts(detail.facts));
    }
    panel.append(...detail.links.map(([head, ids]) => links(head, ids)));
    panel.append(values(id));
    panel.scrollTop = 0;
    heading.focus({ preventScroll: true });
    const later = [];
    if (detail.samples.length > 0) {
      later.push(samples(detail.samples));
    }
    if (detail.code !== null) {
      later.push(code(detail.code));
    }
    for (const [made, draw] of await Promise.all(later)) {
      if (current === id) {
        panel.append(made);
        draw();
      }
    }
    if (current === id) {
      panel.dataset.shows = id;
    }
  }

  function mark(id, scroll) {
    for (const table of graphbench.tables) {
      const row = table.mark(id, scroll && table === graphbench.tableOf(id));
      opener = row || opener;
    }
  }

  // The panel takes room from the tables: what was clicked stays where it is.
  function open() {
    if (!panel.hidden) {
      return;
    }
    const kept = document.activeElement;
    const before = kept.getBoundingClientRect().top;
    panel.hidden = false;
    document.body.classList.add("with-detail");
    if (before > 0 && before < window.innerHeight) {
      window.scrollBy({ top: kept.getBoundingClientRect().top - before, behavior: "instant" });
    }
  }

  graphbench.show = function (id, remember = true) {
    if (id === current || !graphbench.opens(id)) {
      return;
    }
    if (current !== null && remember) {
      trail.push(current);
    }
    current = id;
    delete panel.dataset.shows;
    open();
    mark(id, true);
    if (graphbench.idOf(window.location.hash) !== id) {
      window.location.hash = graphbench.hashOf(id);
    }
    fill(id);
  };

  graphbench.back = function () {
    if (trail.length > 0) {
      graphbench.show(trail.pop(), false);
    }
  };

  graphbench.close = function () {
    if (current === null) {
      return;
    }
    current = null;
    trail.length = 0;
    panel.hidden = true;
    panel.replaceChildren();
    document.body.classList.remove("with-detail");
    mark(null, false);
    window.history.replaceState(null, "", window.location.pathname + window.location.search);
    if (opener !== null && opener.isConnected) {
      opener.focus({ preventScroll: true });
    }
  };
})();
