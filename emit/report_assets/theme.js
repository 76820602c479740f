// Light, dark, or as the system says; kept where the browser lets a file keep anything.
const themes = ["auto", "light", "dark"];
const themed = [];

function theme(name) {
  const root = document.documentElement;
  if (name === "auto") delete root.dataset.theme;
  else root.dataset.theme = name;
  document.getElementById("theme").textContent = `Theme: ${name}`;
  try {
    localStorage.setItem("hexloom-theme", name);
  } catch {
    // A page that may keep nothing still changes its colours.
  }
  for (const told of themed) told();
}

function themeNow() {
  return document.documentElement.dataset.theme || "auto";
}

document.getElementById("theme").addEventListener("click", () => {
  theme(themes[(themes.indexOf(themeNow()) + 1) % themes.length]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const told of themed) told();
});
try {
  const kept = localStorage.getItem("hexloom-theme");
  if (themes.includes(kept)) theme(kept);
} catch {
  // Nothing was kept.
}
