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
