// SPDX-License-Identifier: MIT OR Apache-2.0
// The document: made once, then changed only where a text differs, so that
// selections, focus and screen readers stay where they are.

const byId = (id) => document.getElementById(id);

function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

function attribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** As many children as there are items; each is made once, and told its item. */
function each(parent, items, make, tell) {
  while (parent.childElementCount > items.length) parent.lastElementChild.remove();
  while (parent.childElementCount < items.length) parent.append(make());
  items.forEach((item, index) => tell(parent.children[index], item));
}

/** Rows of a table. A cell is a text, or `{ text, title, kind, draw, key, tag }`. */
function fill(tbody, rows) {
  each(tbody, rows, () => el("tr"), (tr, cells) => {
    each(tr, cells, () => el("td"), tellCell);
  });
  const table = tbody.parentElement;
  table.closest(".scroll").hidden = rows.length === 0;
}

function tellCell(td, cell) {
  const of = typeof cell === "string" ? { text: cell } : cell;
  if (td.className !== (of.kind ?? "")) td.className = of.kind ?? "";
  if (of.draw) {
    of.draw(td);
  } else if (of.key || of.tag) {
    if (td.childElementCount === 0) td.replaceChildren(el("i", { className: "key" }), el("span"), " ", el("span", { className: "tag" }));
    const [key, name, tag] = td.children;
    key.hidden = !of.key;
    if (of.key) swatch(key, of.key);
    text(name, of.text);
    tag.hidden = !of.tag;
    text(tag, of.tag ?? "");
  } else {
    text(td, of.text);
  }
  if (of.title) attribute(td, "title", of.title);
  else td.removeAttribute("title");
}

/** Names and values of a `dl`; `[name, value, more, key]`. */
function facts(dl, pairs) {
  const make = () => el("div", {}, el("dt", {}, el("i", { className: "key" }), el("span")), el("dd", {}, el("span"), " ", el("small")));
  each(dl, pairs, make, (div, [name, value, more, key]) => {
    const [dt, dd] = div.children;
    dt.firstChild.hidden = !key;
    if (key) swatch(dt.firstChild, key);
    text(dt.lastChild, name);
    text(dd.firstChild, value);
    text(dd.lastChild, more ?? "");
  });
}

/** A bar of parts, `[share, key, title]`, that fill it up to 1. */
function stack(bar, parts) {
  each(bar, parts.filter(([part]) => part > 0), () => el("i"), (segment, [part, key, title]) => {
    segment.style.width = `${Math.min(100, 100 * part).toFixed(3)}%`;
    swatch(segment, key);
    attribute(segment, "title", title);
  });
}

/** A share and how far off it may be, as a bar with whiskers. */
function meter(td, part, error) {
  if (!td.firstElementChild?.classList.contains("meter")) {
    td.replaceChildren(el("div", { className: "meter", ariaHidden: "true" }, el("i"), el("b")));
  }
  const [value, whisker] = td.firstElementChild.children;
  const percent = (at) => `${(100 * Math.min(1, Math.max(0, at))).toFixed(3)}%`;
  value.style.width = percent(part);
  whisker.hidden = !known(error);
  if (known(error)) {
    whisker.style.left = percent(part - error);
    whisker.style.width = percent(Math.min(1, part + error) - Math.max(0, part - error));
  }
}

/** A button that shows all rows, or the first of them. */
function more(button, most) {
  const state = { all: false };
  button.addEventListener("click", () => {
    state.all = !state.all;
    attribute(button, "aria-expanded", String(state.all));
    draw();
  });
  return (rows) => {
    button.hidden = rows.length <= most;
    text(button, state.all ? `Show the first ${most}` : `Show all ${rows.length}`);
    return state.all ? rows : rows.slice(0, most);
  };
}
