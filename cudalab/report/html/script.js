"use strict";
// Everything can be read without this: it chooses what is shown, sorts, filters, copies, and changes the theme.
const all = (what, within = document) => [...within.querySelectorAll(what)];
const byId = (id) => document.getElementById(id);

function theme() {
  const root = document.documentElement, button = byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const say = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; say(); });
  system.addEventListener("change", say);
  say();
}

function choice() {
  const form = document.querySelector(".choose"), subjects = all(".subject");
  const subject = byId("subject"), size = byId("size"), every = "all";
  if (!subjects.length) return;
  const option = (select, value, text) => select.add(new Option(text, value));
  const sizes = () => all(".group").filter((g) => subject.value === every || g.parentElement.id === subject.value);

  function fill() {
    const before = size.value, names = [...new Set(sizes().map((g) => g.dataset.size))];
    size.replaceChildren();
    names.forEach((name) => option(size, name, name));
    if (names.length > 1) option(size, every, "all");
    size.value = names.includes(before) || before === every && names.length > 1 ? before : names.at(-1) || "";
    size.parentElement.hidden = !names.length;
  }
  function show() {
    subjects.forEach((s) => { s.hidden = subject.value !== every && s.id !== subject.value; });
    all(".group").forEach((g) => { g.hidden = size.value !== every && g.dataset.size !== size.value; });
  }
  function go() {
    const wanted = byId(decodeURIComponent(location.hash.slice(1)));
    const found = wanted && wanted.closest(".subject");
    if (!found) return;
    subject.value = found.id;
    fill();
    if (wanted.dataset.size) size.value = wanted.dataset.size;
    show();
    wanted.scrollIntoView();
  }
  function remember() {
    const shown = sizes().find((g) => g.dataset.size === size.value);
    const id = shown && subject.value !== every ? shown.id : subject.value;
    history.replaceState(null, "", id === every ? " " : "#" + id);
  }
  subjects.forEach((s) => option(subject, s.id, s.querySelector("h2").textContent));
  if (subjects.length > 1) option(subject, every, "all");
  subject.addEventListener("change", () => { fill(); show(); remember(); });
  size.addEventListener("change", () => { show(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", go);
  form.hidden = false;
  fill();
  show();
  go();
}

const number = (text) => {
  if (text === "inf") return Infinity;
  const found = text.replaceAll(",", "").match(/^-?\d+(\.\d+)?(e[+-]?\d+)?/i);
  return found ? Number(found[0]) : NaN;
};

function compare(a, b, sign) {
  const x = number(a), y = number(b);
  if (!Number.isNaN(x) && !Number.isNaN(y)) return sign * (x === y ? 0 : x < y ? -1 : 1);
  if (!Number.isNaN(x)) return -1; // what has no number comes last, whichever way
  if (!Number.isNaN(y)) return 1;
  if (a === "-" || b === "-") return (a === "-") - (b === "-");
  return sign * a.localeCompare(b, "en");
}

function markdown(table) {
  const line = (cells) => "| " + cells.map((c) => c.textContent.trim().replaceAll("|", "\\|")).join(" | ") + " |";
  const head = all("thead th", table), rows = all("tbody tr", table).filter((row) => !row.hidden);
  const rule = "| " + head.map((th) => (th.classList.contains("text") ? "---" : "--:")).join(" | ") + " |";
  return [line(head), rule, ...rows.map((row) => line([...row.cells]))].join("\n") + "\n";
}

function table(tools) {
  const held = tools.nextElementSibling.querySelector("table"), area = tools.nextElementSibling.nextElementSibling;
  const body = held.tBodies[0], rows = [...body.rows], heads = all("thead th", held);
  const count = tools.querySelector(".count"), filter = tools.querySelector("input");
  rows.forEach((row) => { row.dataset.words = [...row.cells].map((c) => c.textContent.toLowerCase()).join("\n"); });

  heads.forEach((th, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = th.textContent;
    th.replaceChildren(button);
    th.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const up = th.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[i].dataset.order || row.cells[i].textContent;
      const sorted = [...body.rows].sort((a, b) => compare(key(a), key(b), up ? 1 : -1));
      body.replaceChildren(...sorted);
    });
  });
  function apply() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row) => { row.hidden = !words.every((word) => row.dataset.words.includes(word)); });
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  }
  filter.addEventListener("input", apply);
  tools.querySelector(".copy").addEventListener("click", async () => {
    const text = markdown(held);
    try {
      await navigator.clipboard.writeText(text);
      count.textContent = "copied";
    } catch {
      area.value = text; // no permission, or no clipboard: it can be copied by hand
      area.hidden = false;
      area.select();
      count.textContent = "select and copy the text below the table";
    }
  });
  tools.hidden = false;
  apply();
}

theme();
choice();
all(".tools").forEach(table);
