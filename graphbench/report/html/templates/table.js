// Tables: sorted and filtered as data.
(function () {
  "use strict";
  const graphbench = window.graphbench;
  const { element, Column, Filters, Rows } = graphbench;
  const CHARACTER = 7.5; // pixels: a digit of a cell, in a common font

  function compare(a, b) {
    return typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b)) : b - a;
  }

  class Table extends Rows {
    constructor({ columns, ...data }) {
      super();
      Object.assign(this, data);
      this.columns = columns.map((column) => new Column(column, column.key === data.names));
      this.sorted = { key: this.sort, reversed: false };
      this.order = Array.from({ length: this.rows }, (_, i) => i);
      this.shown = this.order;
      this.selected = -1;
    }

    mount(place) {
      this.place = place;
      if (this.rows === 0) {
        place.append(element("p", { class: "empty" }, this.empty || "none"));
        return;
      }
      this.filters = new Filters(this, () => this.refilter());
      this.counter = element("span", { class: "counter", role: "status", "aria-live": "polite" });
      this.body = element("tbody", {
        onclick: (event) => this.clicked(event),
        onkeydown: (event) => this.keyed(event),
      });
      this.head = element("thead");
      this.widths = element("colgroup");
      const caption = element("caption", { class: "unseen" }, this.title);
      this.table = element("table", {}, caption, this.widths, this.head, this.body);
      this.frame = element("div", { class: "frame", tabindex: "-1" }, this.table);
      this.frame.addEventListener("scroll", () => this.fill(), { passive: true });
      place.append(this.filters.toolbar(this.counter), this.frame);
      this.rebuild();
      new ResizeObserver(() => this.fit()).observe(this.frame);
    }

    visible() {
      return this.columns.filter((column) => !column.hidden);
    }

    rebuild() {
      const headers = this.visible().map((column) => this.header(column));
      this.head.replaceChildren(element("tr", { "aria-rowindex": "1" }, ...headers));
      this.fit();
      this.rebody();
    }

    // Long texts give way until all columns can be seen, as far as they say anything then.
    fit() {
      const columns = this.visible();
      const natural = columns.map((column) => column.width);
      const room = this.frame.clientWidth / CHARACTER;
      const sum = (widths) => widths.reduce((total, width) => total + width, 0);
      const widths = [...natural];
      for (let excess = sum(widths) - room; excess > 0; excess -= 1) {
        const longest = widths.reduce((at, width, i) => (columns[i].gives(width, widths[at]) ? i : at), -1);
        if (longest < 0) {
          break;
        }
        widths[longest] -= 1;
      }
      columns.forEach((column, i) => (column.fitted = widths[i]));
      const all = sum(widths);
      this.widths.replaceChildren(...widths.map((width) => element("col", { style: `width:${(100 * width) / all}%` })));
      this.table.style.minWidth = `${Math.floor(all * CHARACTER)}px`;
    }

    header(column) {
      const state = this.sorted.key !== column.key ? "none" : this.ascending(column) ? "ascending" : "descending";
      const button = element("button", { type: "button", onclick: () => this.resort(column) }, column.name);
      if (column.unit) {
        button.append(" ", element("span", { class: "unit" }, column.unit));
      }
      const looks = column.isName ? `${column.kind} name` : column.kind;
      return element(
        "th",
        { scope: "col", "aria-sort": state, "data-key": column.key, class: looks, title: column.help || null },
        button,
      );
    }

    // Texts come from a to z first, numbers from large to small.
    ascending(column) {
      return column.sortsAsText !== this.sorted.reversed;
    }

    resort(column) {
      const again = this.sorted.key === column.key;
      this.sorted = { key: column.key, reversed: again && !this.sorted.reversed };
      const sign = this.sorted.reversed ? -1 : 1;
      const values = column.order;
      const missing = (row) => values[row] === null || values[row] === "";
      this.order = Array.from({ length: this.rows }, (_, i) => i).sort((a, b) => {
        if (missing(a) || missing(b)) {
          return missing(a) - missing(b) || a - b;
        }
        return sign * compare(values[a], values[b]) || a - b;
      });
      for (const cell of this.head.querySelectorAll("th")) {
        const own = this.columns.find((other) => other.key === cell.dataset.key);
        const state = own !== column ? "none" : this.ascending(column) ? "ascending" : "descending";
        cell.setAttribute("aria-sort", state);
      }
      this.refilter();
    }

    refilter() {
      this.shown = this.order.filter((row) => this.filters.passes(row));
      this.rebody();
    }

    rebody() {
      this.body.replaceChildren();
      this.frame.scrollTop = 0;
      this.table.setAttribute("aria-rowcount", String(this.shown.length + 1));
      const count = (n) => n.toLocaleString("en-US");
      const all = count(this.rows);
      this.counter.textContent = this.shown.length === this.rows ? all : `${count(this.shown.length)} of ${all}`;
      this.counter.append(this.rows === 1 ? " row" : " rows");
      this.fill();
    }

    nameOf(id) {
      return this.columns.find((column) => column.isName).texts[this.ids.indexOf(id)];
    }

    // Name and text of each column that has a value in a row.
    valuesOf(id) {
      const row = this.ids.indexOf(id);
      return this.columns
        .filter((column) => column.values[row] !== null && column.values[row] !== "")
        .map((column) => [column.title, column.texts[row], column.hidden]);
    }
  }

  graphbench.Table = Table;
})();
