// The style sheet of the report's page (page.h), its pictures included.
#pragma once

#include <string_view>

namespace kerf::apps {

inline constexpr std::string_view kPageStyle = R"(
:root { color-scheme: light dark; --ink: #1f2933; --soft: #52606d; --ground: #ffffff;
  --box: #f2f5f9; --grid: #cbd2d9; --forward: #4a90d9; --inputs: #3f9c5a; --weights: #e08a2e;
  --both: #8a63c9; --other: #8a94a0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --soft: #a5b1bd; --ground: #14181d;
  --box: #1f262e; --grid: #3e4c59; } }
body { font-family: "Inter", "Helvetica Neue", "Liberation Sans", "DejaVu Sans", sans-serif;
  color: var(--ink); background: var(--ground); max-width: 1200px; margin: 24px auto;
  padding: 0 16px; }
h1 { font-size: 22px; }
h2 { font-size: 17px; margin-top: 32px; }
p { color: var(--soft); max-width: 80ch; }
table { border-collapse: collapse; margin: 8px 0 16px; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; font-size: 13px; }
th, td { padding: 3px 12px 3px 0; text-align: right; border-bottom: 1px solid var(--grid); }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; }
.key { display: inline-block; width: 14px; height: 14px; border-radius: 2px; margin: 0 6px 0 14px;
  vertical-align: -2px; }
svg text { fill: var(--ink); font-size: 12px; }
svg .name { font-size: 13px; font-weight: 600; }
svg .small { font-size: 11px; fill: var(--soft); }
svg .bytes { font-size: 11px; font-weight: 600; }
svg .onbar { font-size: 10px; fill: #ffffff; }
svg .grid { stroke-width: 1px; }
svg .curve { fill: none; stroke-width: 1.5px; }
svg .bridge { fill: none; stroke-width: 2px; }
)";

}  // namespace kerf::apps
