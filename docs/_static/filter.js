// A field above the tables of long pages: only rows that contain what is typed stay.
document.addEventListener("DOMContentLoaded", () => {
  const page = document.querySelector("section#limits, section#support-matrix, section#what-is-from-whom");
  if (!page) return;
  const field = document.createElement("input");
  field.type = "search";
  field.className = "table-filter";
  field.placeholder = "Filter the tables, for example: replaced, jit, laplace";
  field.setAttribute("aria-label", "Filter the tables");
  page.querySelector("h1").after(field);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of page.querySelectorAll("tbody tr")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
});
