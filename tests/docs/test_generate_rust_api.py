"""The API of Rust as Markdown, from pages as rustdoc writes them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import generate_rust_api  # noqa: E402

PAGE = """\
<!DOCTYPE html><html><body><section id="main-content"><div class="main-heading"><h1>Enum Fault</h1></div>
<pre class="rust item-decl"><code><div class="code-attribute">#[non_exhaustive]</div>pub enum Fault {
    Late { steps: <a href="u8">u8</a> },
}</code></pre><details class="toggle top-doc" open><summary class="hideme"><span>Expand description</span></summary>
<div class="docblock"><p>A program&#8217;s <a href="x"><code>Fault</code></a>.</p>
<h2 id="examples"><a class="doc-anchor" href="#examples">§</a>Examples</h2>
<div class="example-wrap">
<pre class="rust rust-example-rendered"><code><span class="kw">let </span>a = 1;</code></pre></div>
<h2 id="errors">Errors</h2><ul><li>one</li></ul></div></details>
<h2 id="variants">Variants</h2><div class="variants">
<section id="variant.Late" class="variant"><h3 class="code-header">Late</h3>
</section><div class="docblock"><p>Too late.</p></div><div class="sub-variant"><div class="sub-variant-field">
<span id="variant.Late.field.steps" class="section-header"><code>steps: <a>u8</a></code></span>
<div class="docblock"><p>The number.</p></div></div></div></div>
<h2 id="implementations">Implementations</h2><div id="implementations-list">
<details class="toggle method-toggle" open><summary>
<section id="method.code" class="method"><h4 class="code-header">pub fn <a>code</a>(
    &amp;self,
) -&gt; u8</h4></section></summary><div class="docblock"><p>Returns the code.</p></div></details></div>
<div id="trait-implementations-list">
<section id="impl-Stream-for-Fault"><h3 class="code-header">impl Stream for Fault</h3>
<section id="method.poll" class="method"><h4 class="code-header">fn poll(&amp;self)</h4></section></section>
<section><h3 class="code-header">impl Clone for Fault</h3></section></div></section></body></html>
"""
WRITTEN = """\
### Fault

```rust
#[non_exhaustive]
pub enum Fault { … }
```

A program's `Fault`.

```rust
let a = 1;
```

**Errors:**

- one

Implements `Stream`.

- `Late`: Too late.
  - `steps: u8`: The number.

#### Fault::code

```rust
pub fn code(&self) -> u8
```

Returns the code.
"""


def test_item_has_members_without_those_of_traits(tmp_path: Path) -> None:
    (tmp_path / "enum.Fault.html").write_text(PAGE, "utf-8")
    (tmp_path / "index.html").write_text('<section id="main-content"></section>', "utf-8")
    written = "\n".join(generate_rust_api.crate(tmp_path))
    assert written == f"## `kimi_agent`\n\n{WRITTEN}"
