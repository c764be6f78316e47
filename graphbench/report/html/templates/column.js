// A column of a table: its lists are unpacked when they are first needed, since most columns are hidden.
(function () {
  "use strict";
  const graphbench = window.graphbench;
  // All in characters.
  const WIDEST_TEXT = 44;
  const SHORT_TEXT = 18;
  const NARROWEST = 4;
  const PADDING = 3;
  const LEAST_TEXT = 17;
  const LEAST_NAME = 30;
  const MOST_MEASURED = 2000; // rows

  function isProse(text) {
    return text.split(" ").length > 3;
  }

  class Column {
    // `isName`: it names the rows of its table.
    constructor({ values, texts, order, ...data }, isName) {
      Object.assign(this, data);
      this.isName = isName;
      this.packed = { values, texts: texts || values, order: order || values };
      this.title = data.unit ? `${data.name} (${data.unit})` : data.name;
      this.lists = {};
    }

    list(name) {
      this.lists[name] ??= graphbench.listed(this.packed[name]);
      return this.lists[name];
    }

    get values() {
      return this.list("values");
    }

    get texts() {
      return this.list("texts");
    }

    // What rows are sorted by.
    get order() {
      return this.list("order");
    }

    get sortsAsText() {
      return this.order.some((value) => typeof value === "string");
    }

    mayBeCut(text) {
      return this.kind === "text" && text.length > LEAST_TEXT - PADDING;
    }

    // Whether it gives way to a column `most` wide.
    gives(width, most) {
      const least = !this.isName ? LEAST_TEXT : isProse(this.texts[0]) ? WIDEST_TEXT : LEAST_NAME;
      return this.kind === "text" && width > least && (most === undefined || width > most);
    }

    // As wide as its header and most of its cells, in characters.
    get width() {
      if (this.natural === undefined) {
        const step = Math.max(1, Math.floor(this.texts.length / MOST_MEASURED));
        const sizes = [];
        for (let i = 0; i < this.texts.length; i += step) {
          sizes.push(this.texts[i].length);
        }
        sizes.sort((a, b) => a - b);
        const widest = sizes[sizes.length - 1];
        const cut = this.kind === "text" && widest > SHORT_TEXT;
        const most = cut ? sizes[Math.floor(0.9 * (sizes.length - 1))] : widest;
        const words = this.name.split(" ").concat(this.unit);
        const header = Math.max(...words.map((word) => word.length)) + 1;
        this.natural = Math.max(NARROWEST, header, Math.min(most, WIDEST_TEXT)) + PADDING;
        this.natural += this.kind === "text" ? Math.ceil(this.natural / 10) : 0; // letters are wider than digits
      }
      return this.natural;
    }

    // Writes a text so that, where it has no room, the middle of a name goes, or the end of prose.
    write(text, place) {
      if (isProse(text)) {
        place.textContent = text;
      } else {
        const at = text.length - Math.min(12, text.length >> 1, Math.floor(this.fitted / 3));
        const parts = [text.slice(0, at), text.slice(at)];
        place.classList.add("cut");
        place.append(...parts.map((each) => graphbench.element("span", {}, each)));
      }
      return place;
    }
  }

  graphbench.Column = Column;
})();
