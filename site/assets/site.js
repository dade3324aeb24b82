// Code and tables that are wider than the screen can be scrolled with the keyboard.
window.addEventListener("load", () => {
  const sizes = new ResizeObserver((changes) => {
    for (const { target } of changes) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  const observe = () => {
    for (const wide of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) sizes.observe(wide);
  };
  observe();
  // Material's script may wrap tables later.
  new MutationObserver(observe).observe(document.querySelector("article") ?? document.body, { childList: true });
});

// Long names in code may be broken after `::`, `_`, `/` and `.`, and nowhere else. The break is not in what is copied.
window.addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll("article :not(pre) > code")) {
    const text = code.firstChild;
    if (code.childNodes.length !== 1 || text.nodeType !== Node.TEXT_NODE || text.data.length < 20) continue;
    const parts = text.data.split(/(?<=::|_|\/|\.(?=[a-z]))/);
    code.replaceChildren(...parts.flatMap((part, at) => (at === 0 ? [part] : [document.createElement("wbr"), part])));
  }
});
