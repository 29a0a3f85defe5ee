#include "operator/page/job_page.h"

namespace paceline::operator_ {

namespace {

// Colours of the stages stay apart for colour-blind readers and have contrast to the background of both schemes.
constexpr char kStyle[] = R"css(:root {
  --back: #ffffff; --raised: #f4f5f7; --text: #1a1c20; --faint: #5a6068; --line: #d3d7dd; --link: #0b57b0;
  --good: #1b7a3d; --bad: #b3261e; --warn: #8a5a00;
  --stage0: #9aa3ad; --stage1: #56b4e9; --stage2: #e69f00; --stage3: #009e73; --stage4: #cc79a7; --stage5: #d55e00;
  --stage6: #8c6bd1; --stage7: #c9b400; --heat: 179, 38, 30;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14161a; --raised: #1f2329; --text: #e8eaed; --faint: #a3abb5; --line: #3a4049; --link: #8ab4f8;
    --good: #6dd58c; --bad: #ff8a80; --warn: #f4c25b; --stage0: #6d7680; --heat: 255, 138, 128;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; align-items: center; padding: .6rem 1rem;
  background: var(--raised); border-bottom: 1px solid var(--line); }
header form { margin-left: auto; display: flex; gap: .5rem; align-items: center; }
.home { font-weight: 700; text-decoration: none; color: var(--text); }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; top: .3rem; background: var(--back); padding: .3rem; }
a { color: var(--link); } :focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
main { padding: 1rem; max-width: 90rem; margin: 0 auto; } main:focus { outline: none; }
footer { padding: 1rem; color: var(--faint); text-align: center; }
h1 { font-size: 1.35rem; margin: .2rem 0 .8rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .5rem; }
input, button { font: inherit; color: inherit; background: var(--back); border: 1px solid var(--line); border-radius: 4px;
  padding: .25rem .6rem; } button { cursor: pointer; background: var(--raised); }
#login { max-width: 42rem; } #login input { width: 100%; margin: .3rem 0 .8rem; }
#problem { color: var(--bad); border-left: 4px solid var(--bad); padding: .3rem .8rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.wide { white-space: normal; min-width: 18rem; } th { color: var(--faint); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.phase-Running, .phase-Succeeded { color: var(--good); } .phase-Failed { color: var(--bad); }
.phase-Pending, .phase-Starting { color: var(--warn); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; } dt { color: var(--faint); } dd { margin: 0; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: .4rem 0; padding: 0; list-style: none; }
.swatch { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .35rem; vertical-align: -1px; }
svg { display: block; max-width: 100%; } svg text { fill: var(--faint); font-size: 12px; }
svg .heat { fill: rgb(var(--heat)); } svg .none { fill: none; }
svg .cell { stroke: var(--back); stroke-width: 1; } svg .cell.fine { stroke: none; }
  svg .cell.none { stroke: var(--line); stroke-dasharray: 3 3; } svg .here { stroke: var(--link); stroke-width: 3; }
.stage0 { fill: var(--stage0); background: var(--stage0); } .stage1 { fill: var(--stage1); background: var(--stage1); }
.stage2 { fill: var(--stage2); background: var(--stage2); } .stage3 { fill: var(--stage3); background: var(--stage3); }
.stage4 { fill: var(--stage4); background: var(--stage4); } .stage5 { fill: var(--stage5); background: var(--stage5); }
.stage6 { fill: var(--stage6); background: var(--stage6); } .stage7 { fill: var(--stage7); background: var(--stage7); }
.incident { border: 1px solid var(--line); border-left: 4px solid var(--bad); border-radius: 4px; padding: .6rem 1rem; margin: .6rem 0; }
.incident.over { border-left-color: var(--line); } .incident h3 { margin: 0 0 .3rem; font-size: 1rem; }
.note { color: var(--faint); } .told { min-height: 1.5em; color: var(--faint); } .advice { margin: .3rem 0 0; padding-left: 1.2rem; }
)css";

}  // namespace

std::string_view PageStyle() { return kStyle; }

}  // namespace paceline::operator_
