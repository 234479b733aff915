"use strict";
(function () {
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  // A browser may refuse storage to a page from disk.
  const stored = {
    get() { try { return localStorage.getItem("gc_net-theme"); } catch (error) { return null; } },
    set(value) { try { localStorage.setItem("gc_net-theme", value); } catch (error) { /* this page only */ } },
  };
  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches;
  }
  function showTheme() {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", "Switch to the " + theme.textContent.toLowerCase() + " theme");
  }
  if (["light", "dark"].includes(stored.get())) root.dataset.theme = stored.get();
  theme.hidden = false;
  theme.addEventListener("click", function () {
    root.dataset.theme = isDark() ? "light" : "dark";
    stored.set(root.dataset.theme);
    showTheme();
  });
  systemDark.addEventListener("change", showTheme);
  showTheme();

  const filters = document.getElementById("filters");
  const chosenClass = document.getElementById("class");
  const gallery = document.getElementById("gallery");
  const cases = Array.from(gallery.querySelectorAll(".case"));
  const groups = Array.from(gallery.querySelectorAll(".group"));
  function applyFilters() {
    const result = filters.elements.result.value;
    let shown = 0;
    for (const item of cases) {
      const fits = (!chosenClass.value || item.dataset.class === chosenClass.value)
        && (!result || item.dataset.result === result);
      item.hidden = !fits;
      shown += fits;
    }
    for (const group of groups) group.hidden = !group.querySelector(".case:not([hidden])");
    document.getElementById("nothing").hidden = shown > 0;
    document.getElementById("count").textContent = shown + " of " + cases.length;
    for (const layer of filters.elements.layer) {
      gallery.classList.toggle("hide-" + layer.value, !layer.checked);
    }
  }
  filters.hidden = false;
  filters.addEventListener("change", applyFilters);
  filters.addEventListener("submit", function (event) { event.preventDefault(); });

  const table = document.getElementById("classes");
  const headings = Array.from(table.tHead.rows[0].cells);
  function key(row, column) {
    const cell = row.cells[column];
    if (column === 0) return cell.textContent;
    return Number(cell.dataset.value || cell.textContent.replace(/,/g, ""));
  }
  table.tHead.addEventListener("click", function (event) {
    const button = event.target.closest("button");
    if (!button) return;
    const heading = button.parentElement;
    const column = headings.indexOf(heading);
    const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort(function (a, b) {
      const x = key(a, column), y = key(b, column);
      return sign * (column === 0 ? x.localeCompare(y) : x - y);
    });
    table.tBodies[0].append(...rows);
    for (const other of headings) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  });
  table.tBodies[0].addEventListener("click", function (event) {
    const button = event.target.closest("button");
    if (!button) return;
    chosenClass.value = button.dataset.class;
    filters.elements.result.value = "";
    applyFilters();
    document.getElementById("examples").focus();
    document.getElementById("examples").scrollIntoView();
  });
  applyFilters();
})();
