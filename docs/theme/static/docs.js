// The docs without a build: search by address (the server forbids forms to send anything), "/" to search, code to copy.
const search = document.querySelector("form[role=search]");
const field = search.elements.q;

search.addEventListener("submit", (event) => {
  event.preventDefault();
  const to = new URL(search.action);
  to.searchParams.set("q", field.value);
  location.href = to.href;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  field.focus();
});

// What scrolls sideways is reached by the keyboard.
const reach = () => {
  for (const each of document.querySelectorAll('pre, .scroll, p:has(> img[src*="terminal-"])')) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
};
reach();
addEventListener("resize", reach);

for (const block of document.querySelectorAll(".highlight-python, .highlight-pycon, .highlight-toml")) {
  if (!navigator.clipboard) break;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const lines = block.querySelector("pre").textContent.split("\n");
    const typed = block.classList.contains("highlight-pycon")
      ? lines.filter((line) => /^(>>>|\.\.\.)/.test(line)).map((line) => line.slice(4))
      : lines;
    await navigator.clipboard.writeText(typed.join("\n"));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.append(button);
}
