// The style sheet of the what-if report: two palettes, one for each colour scheme. Text has a contrast of 4.5 to its
// ground at least; heat goes from pale to strong in the light and from dim to bright in the dark, so that more is
// always further from the ground. Called by report.cc only.
#pragma once

namespace paceline::analysis {

inline constexpr char kReportStyle[] = R"css(
:root{color-scheme:light dark;--ground:#fbfbfa;--panel:#fff;--ink:#1c2024;--soft:#5a636d;--line:#dfe2e6;--accent:#0b62b0;
--warn:#8a4b00;--warn-ground:#fff4e2;
--h0:#e9eef2;--h1:#fde7b8;--h2:#fccf8a;--h3:#f9ad60;--h4:#ef8140;--h5:#d8542b;--h6:#ad2c20;--h7:#711017;
--t0:#1c2024;--t1:#1c2024;--t2:#1c2024;--t3:#1c2024;--t4:#1c2024;--t5:#fff;--t6:#fff;--t7:#fff;
--forward:#2f6fb0;--backward:#e39a1f;--pipeline:#a9579b;--data:#1f8f6b;--other:#7a838c;--lane:#f0f2f4}
@media (prefers-color-scheme:dark){:root{--ground:#14171a;--panel:#1b1f23;--ink:#e8eaed;--soft:#a4adb6;--line:#333a41;
--accent:#7cb8f0;--warn:#ffc46b;--warn-ground:#33270f;
--h0:#2b3238;--h1:#4a3326;--h2:#6d3f22;--h3:#96501f;--h4:#c4671f;--h5:#ea8a33;--h6:#ffb45e;--h7:#ffe3ae;
--t0:#e8eaed;--t1:#fff;--t2:#fff;--t3:#fff;--t4:#14171a;--t5:#14171a;--t6:#14171a;--t7:#14171a;
--forward:#6aa9e8;--backward:#f0b24a;--pipeline:#cf86c3;--data:#4bbd96;--other:#98a2ac;--lane:#22272c}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",
Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1160px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:clamp(1.5rem,4vw,2.1rem);line-height:1.2;margin:0 0 8px;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:0 0 4px}
h3{font-size:1rem;margin:0}
p{margin:0 0 12px;max-width:75ch}
section{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:20px;margin-top:20px}
.lead{font-size:1.15rem}
.lead strong{color:var(--accent)}
.soft,.note,caption{color:var(--soft)}
.note{font-size:.875rem;margin:8px 0 0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:20px 0 0;padding:0}
.figures div{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:12px 14px}
.figures dt{color:var(--soft);font-size:.875rem}
.figures dd{margin:0;font-size:1.5rem;font-weight:600;line-height:1.25}
.figures .note{font-size:.8125rem;font-weight:400;line-height:1.35;margin:4px 0 0}
.warn{background:var(--warn-ground);color:var(--warn);border-radius:8px;padding:10px 14px;margin:16px 0 0}
.hint{border-left:4px solid var(--h5);padding:2px 0 2px 14px;margin:14px 0 0}
.hint p{margin:2px 0 0}
.scroll{overflow-x:auto;margin:8px 0 0;border-radius:6px}
.chart{display:block;max-width:100%;height:auto;font-size:12px}
.scroll:focus-visible,summary:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
svg text{fill:var(--ink)}
svg text.axis{fill:var(--soft)}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;list-style:none;margin:8px 0 0;padding:0;font-size:.875rem;color:var(--soft)}
.legend li{display:flex;align-items:center;gap:6px}
.h0{fill:var(--h0)}.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}.h4{fill:var(--h4)}.h5{fill:var(--h5)}
.h6{fill:var(--h6)}.h7{fill:var(--h7)}
svg .t0{fill:var(--t0)}svg .t1{fill:var(--t1)}svg .t2{fill:var(--t2)}svg .t3{fill:var(--t3)}svg .t4{fill:var(--t4)}
svg .t5{fill:var(--t5)}svg .t6{fill:var(--t6)}svg .t7{fill:var(--t7)}
.forward{fill:var(--forward)}.backward{fill:var(--backward)}.pipeline{fill:var(--pipeline);opacity:.75}.data{fill:var(--data);opacity:.85}
.other{fill:var(--other)}.lane,.rest{fill:var(--lane)}
.mark{stroke:var(--ink);stroke-dasharray:3 3;fill:none}
.grid{stroke:var(--line);fill:none}
.line{fill:none;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.line.measured{stroke:var(--backward)}.line.simulated{stroke:var(--forward);stroke-dasharray:6 4}
.line.ideal{stroke:var(--data);stroke-dasharray:2 4}
circle.measured{fill:var(--backward)}circle.simulated{fill:var(--forward)}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(330px,100%),1fr));gap:12px 28px;margin-top:8px}
table{border-collapse:collapse;font-size:.875rem}
caption{text-align:left;padding:4px 0;font-weight:600}
th,td{text-align:right;padding:3px 12px 3px 0;border-bottom:1px solid var(--line);font-weight:400}
th:first-child{text-align:left}
td{white-space:nowrap}
thead th{color:var(--soft)}
.bars{width:100%}
.bars th,.bars td{border:0;padding:2px 10px 2px 0}
.bars th{white-space:nowrap}
.bars td:last-child{width:3.5em;padding-right:0}
.bar{width:100%;min-width:60px}
.bar svg{display:block;width:100%;height:12px;border-radius:3px}
.unseen th{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
details{margin-top:10px}
summary{cursor:pointer;color:var(--accent);font-size:.875rem;width:fit-content}
details .scroll{max-height:420px;overflow:auto}
footer{color:var(--soft);font-size:.875rem;margin-top:24px}
@media print{section{break-inside:avoid}}
)css";

}  // namespace paceline::analysis
