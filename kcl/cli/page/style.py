"""The style of the page: light and dark, on a screen, on paper, with nothing from a network."""

CSS = """
:root {
  color-scheme: light dark;
  --ground: #ffffff; --panel: #f5f6f8; --line: #d9dde3; --text: #1c2330; --quiet: #5a6475; --link: #0a58b8;
  --hit: #23804a; --miss: #b4460f; --bypass: #6b5ca5; --error: #b3122f;
  --keyword: #8a2aa5; --comment: #68717f; --number: #9a4a00; --string: #1d6f42; --name: #0b5c8a;
  --mono: ui-monospace, "SFMono-Regular", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171c; --panel: #1d2128; --line: #363d48; --text: #e6e9ee; --quiet: #a3acba; --link: #7db4ff;
    --hit: #5bc98a; --miss: #f2995e; --bypass: #b6a6f2; --error: #ff7d92;
    --keyword: #d29af0; --comment: #929cab; --number: #f0b072; --string: #84d3a5; --name: #86c5f0;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body {
  margin: 0 auto; padding: 2rem clamp(1rem, 4vw, 3rem) 4rem; max-width: 76rem; background: var(--ground);
  color: var(--text); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 3rem 0 .75rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .4rem 0; max-width: 46rem; }
code, pre, .mono { font-family: var(--mono); font-size: .875em; }
a { color: var(--link); text-underline-offset: .15em; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--ground); padding: .3rem .6rem; }
.quiet { color: var(--quiet); }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; padding: 0; margin: 1.25rem 0 0; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .75rem;
  margin: 1.5rem 0 0; }
.figures div { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: .7rem 1rem; }
.figures dt { color: var(--quiet); font-size: .875rem; }
.figures dd { margin: 0; font-size: 1.5rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--quiet); font-weight: 600; font-size: .875rem; white-space: nowrap; }
th.number, td.number { text-align: right; white-space: nowrap; }
td.name { overflow-wrap: anywhere; min-width: 7rem; }
tbody th { color: inherit; font-size: inherit; }
.outcome { font-weight: 600; white-space: nowrap; }
.outcome.hit { color: var(--hit); } .outcome.miss { color: var(--miss); }
.outcome.bypass { color: var(--bypass); } .outcome.error { color: var(--error); }
.lanes { list-style: none; margin: 0; padding: 0; }
.lanes li { display: grid; grid-template-columns: minmax(7rem, 22%) 1fr; gap: 1rem; align-items: center; }
.lanes .label {
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-family: var(--mono); font-size: .8125rem;
}
.track { position: relative; height: 1.6rem; border-left: 1px solid var(--line); border-right: 1px solid var(--line); }
.lanes li:nth-child(odd) .track { background: var(--panel); }
.bar { position: absolute; min-width: 4px; height: .55rem; border-radius: 1px; print-color-adjust: exact; }
.bar.generator { top: .2rem; } .bar.binary { top: .85rem; }
.bar.hit { background: var(--hit); } .bar.bypass { background: var(--bypass); }
.bar.miss { background: repeating-linear-gradient(135deg, var(--miss) 0 4px, transparent 4px 6px) var(--ground); }
.bar.miss { box-shadow: inset 0 0 0 1px var(--miss); }
.bar.error { background: var(--error); }
.axis { position: relative; height: 1.4rem; font-size: .75rem; color: var(--quiet); }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.axis span:first-child { transform: none; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; font-size: .875rem; color: var(--quiet);
  margin: .75rem 0; }
.legend .bar { position: static; display: inline-block; width: 1.4rem; margin-right: .4rem; }
section > article:first-of-type { margin-top: 1.5rem; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: 1rem 1.1rem; margin: 0 0 1rem; }
article:target { border-color: var(--link); }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .6rem 0;
  font-size: .9375rem; }
.facts dt { color: var(--quiet); } .facts dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .2rem 0; }
details[open] > summary { margin-bottom: .35rem; }
pre {
  margin: 0 0 .6rem; padding: .75rem 1rem; background: var(--panel); border: 1px solid var(--line);
  border-radius: .375rem;
  overflow: auto; max-height: 32rem; line-height: 1.45; tab-size: 4;
}
.changes { margin: .4rem 0 0; padding-left: 1.25rem; }
.changes pre { margin: .3rem 0 .5rem; }
del, ins { text-decoration: none; } del { color: var(--error); } ins { color: var(--hit); }
.k, .kt, .kd, .kr, .kc { color: var(--keyword); } .c, .c1, .cm { color: var(--comment); }
.cp, .cpf { color: var(--name); } .mi, .mf, .mh, .mb, .mo { color: var(--number);
  } .s, .sc, .se { color: var(--string); }
.nf { color: var(--name); font-weight: 600; }
footer { margin-top: 3rem; color: var(--quiet); font-size: .875rem; }
@media (max-width: 34rem) {
  .lanes li { grid-template-columns: 1fr; gap: 0; }
  .facts { grid-template-columns: 1fr; gap: 0; } .facts dd { margin-bottom: .4rem; }
}
@media print {
  :root {
    color-scheme: light; --ground: #fff; --panel: #fff; --line: #bbb; --text: #000; --quiet: #444; --link: #000;
    --hit: #1d6b3e; --miss: #9a3a0a; --bypass: #52458a; --error: #930d25;
    --keyword: #6d1f84; --comment: #555; --number: #7a3a00; --string: #155533; --name: #08476b;
  }
  body { padding: 0; max-width: none; font-size: 10.5pt; }
  nav, .skip { display: none; }
  a { text-decoration: none; }
  pre { max-height: none; white-space: pre-wrap; overflow-wrap: anywhere; }
  h2, h3 { break-after: avoid; }
  tr, .figures div, .lanes li { break-inside: avoid; }
  details::details-content { content-visibility: visible; height: auto; }
}
"""
