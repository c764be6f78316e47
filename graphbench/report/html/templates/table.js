// Tables: sorted and filtered as data; rows become elements as one scrolls.
(function () {
  "use strict";
  const graphbench = window.graphbench;
  const { element, listed, Filters } = graphbench;
  const CHUNK = 100;
  const AHEAD = 800; // pixels
  const WIDEST_TEXT = 44; // characters
  const SHORT_TEXT = 18;
  const NARROWEST = 4;
  const PADDING = 3;
  const LEAST_TEXT = 17;
  const LEAST_NAME = 30;
  const CHARACTER = 7.5; // pixels: a digit of a cell, in a common font

  function compare(a, b) {
    return typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b)) : b - a;
  }

  // Its lists are unpacked when they are first needed: most columns are hidden.
  class Column {
    constructor(data) {
      Object.assign(this, data);
      this.packed = { values: data.values, texts: data.texts || data.values, order: data.order || data.values };
      this.title = data.unit ? `${data.name} (${data.unit})` : data.name;
      for (const list of ["values", "texts", "order"]) {
        Object.defineProperty(this, list, { get: () => this.unpacked(list) });
      }
    }

    unpacked(list) {
      if (typeof this.packed[list] !== "function") {
        const found = listed(this.packed[list]);
        this.packed[list] = () => found;
      }
      return this.packed[list]();
    }
  }

  function isProse(text) {
    return text.split(" ").length > 3;
  }

  class Table {
    constructor(data) {
      Object.assign(this, data);
      this.columns = data.columns.map((column) => new Column(column));
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
      const natural = columns.map((column) => this.width(column));
      const room = this.frame.clientWidth / CHARACTER;
      const sum = (widths) => widths.reduce((total, width) => total + width, 0);
      const widths = [...natural];
      for (let excess = sum(widths) - room; excess > 0; excess -= 1) {
        const longest = widths.reduce((at, width, i) => (this.gives(columns[i], width, widths[at]) ? i : at), -1);
        if (longest < 0) {
          break;
        }
        widths[longest] -= 1;
      }
      columns.forEach((column, i) => (column.fitted = widths[i]));
      this.widths.replaceChildren(...widths.map((width) => element("col", { style: `width:${width * CHARACTER}px` })));
      this.table.style.minWidth = `${Math.floor(sum(widths) * CHARACTER)}px`;
    }

    gives(column, width, most) {
      const least = column.key !== this.names ? LEAST_TEXT : isProse(column.texts[0]) ? WIDEST_TEXT : LEAST_NAME;
      return column.kind === "text" && width > least && (most === undefined || width > most);
    }

    // As wide as its header and most of its cells, in characters.
    width(column) {
      if (column.width === undefined) {
        const step = Math.max(1, Math.floor(this.rows / 2000));
        const sizes = [];
        for (let i = 0; i < this.rows; i += step) {
          sizes.push(column.texts[i].length);
        }
        sizes.sort((a, b) => a - b);
        const widest = sizes[sizes.length - 1];
        const cut = column.kind === "text" && widest > SHORT_TEXT;
        const most = cut ? sizes[Math.floor(0.9 * (sizes.length - 1))] : widest;
        const words = column.name.split(" ").concat(column.unit);
        const header = Math.max(...words.map((word) => word.length)) + 1;
        column.width = Math.max(NARROWEST, header, Math.min(most, WIDEST_TEXT)) + PADDING;
        column.width += column.kind === "text" ? Math.ceil(column.width / 10) : 0; // letters are wider than digits
      }
      return column.width;
    }

    header(column) {
      const state = this.sorted.key !== column.key ? "none" : this.ascending(column) ? "ascending" : "descending";
      const button = element("button", { type: "button", onclick: () => this.resort(column) }, column.name);
      if (column.unit) {
        button.append(" ", element("span", { class: "unit" }, column.unit));
      }
      return element(
        "th",
        { scope: "col", "aria-sort": state, "data-key": column.key, class: column.kind, title: column.help || null },
        button,
      );
    }

    // Texts come from a to z first, numbers from large to small.
    ascending(column) {
      return this.isText(column) !== this.sorted.reversed;
    }

    isText(column) {
      return column.order.some((value) => typeof value === "string");
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

    // Rows until some lie below what is seen, or until `least` are there.
    fill(least = 0) {
      const columns = this.visible();
      for (let there = this.body.childElementCount; there < this.shown.length; there += CHUNK) {
        const { scrollTop, clientHeight, scrollHeight } = this.frame;
        const enough = clientHeight === 0 || scrollTop + clientHeight + AHEAD < scrollHeight;
        if (there > 0 && there >= least && enough) {
          return;
        }
        const rows = this.shown.slice(there, there + CHUNK);
        this.body.append(...rows.map((row, i) => this.row(row, there + i, columns)));
      }
    }

    row(row, position, columns) {
      const id = this.ids[row];
      const opens = id !== undefined && id in graphbench.data.details;
      const made = element("tr", {
        "aria-rowindex": String(position + 2),
        tabindex: position === 0 ? "0" : "-1",
        "data-row": String(row),
        class: opens ? (row === this.selected ? "opens selected" : "opens") : "",
      });
      for (const column of columns) {
        const text = column.texts[row];
        const names = column.key === this.names;
        const cell = document.createElement(names ? "th" : "td");
        cell.className = column.kind;
        if (names) {
          cell.scope = "row";
        }
        const link = names && opens ? element("a", { href: graphbench.hashOf(id), tabindex: "-1" }) : null;
        if (column.kind === "text" && text.length > LEAST_TEXT - PADDING) {
          cell.title = text;
          cell.append(this.cut(text, column, link || document.createElement("span")));
        } else if (link !== null) {
          link.textContent = text;
          cell.append(link);
        } else {
          cell.textContent = text;
        }
        made.append(cell);
      }
      return made;
    }

    // A text that is cut where it has no room: of a name the middle goes, of prose the end.
    cut(text, column, place) {
      if (isProse(text)) {
        place.textContent = text;
      } else {
        const at = text.length - Math.min(12, text.length >> 1, Math.floor(column.fitted / 3));
        place.classList.add("cut");
        place.append(element("span", {}, text.slice(0, at)), element("span", {}, text.slice(at)));
      }
      return place;
    }

    clicked(event) {
      const row = event.target.closest("tr");
      if (row === null || event.target.closest("a") !== null || window.getSelection().type === "Range") {
        return;
      }
      this.focus(row);
      this.open(row);
    }

    open(row) {
      const id = this.ids[Number(row.dataset.row)];
      if (id !== undefined && id in graphbench.data.details) {
        graphbench.show(id);
      }
    }

    focus(row) {
      for (const other of this.body.querySelectorAll('tr[tabindex="0"]')) {
        other.tabIndex = -1;
      }
      row.tabIndex = 0;
      row.focus({ preventScroll: true });
      row.scrollIntoView({ block: "nearest" });
    }

    keyed(event) {
      const row = event.target.closest("tr");
      const rows = this.body.children;
      const at = Array.prototype.indexOf.call(rows, row);
      const steps = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 15, PageUp: at - 15, Home: 0 };
      steps.End = this.shown.length - 1;
      if (event.key === "Enter") {
        event.preventDefault();
        this.open(row);
      } else if (event.key in steps) {
        event.preventDefault();
        const next = Math.max(0, Math.min(this.shown.length - 1, steps[event.key]));
        this.fill(next + 1);
        this.focus(rows[next]);
      }
    }

    // Marks the row whose details are shown; `scroll` brings it into view, if no filter hides it.
    mark(id, scroll) {
      const row = id === null ? -1 : this.ids.indexOf(id);
      this.selected = row;
      if (this.body === undefined) {
        return null; // folded, or without rows
      }
      for (const other of this.body.querySelectorAll("tr.selected")) {
        other.classList.remove("selected");
      }
      const position = this.shown.indexOf(row);
      if (row < 0 || position < 0) {
        return null;
      }
      if (scroll) {
        this.fill(position + 1);
      }
      const made = this.body.children[position];
      if (made === undefined) {
        return null;
      }
      made.classList.add("selected");
      if (scroll) {
        const top = made.offsetTop - this.frame.clientHeight / 2;
        this.frame.scrollTop = Math.max(0, top);
      }
      return made;
    }

    nameOf(id) {
      return this.columns.find((column) => column.key === this.names).texts[this.ids.indexOf(id)];
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
