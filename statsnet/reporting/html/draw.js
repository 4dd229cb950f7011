const dark = window.matchMedia("(prefers-color-scheme: dark)");
function themed(place, layout, printed) {
  const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
  const text = printed ? "#000000" : of("--text"), edge = printed ? "#bbbbbb" : of("--edge");
  const narrow = window.innerWidth < 600;
  const cut = (name) => narrow && name.length > 22 ? name.slice(0, 21) + "…" : name;
  const axis = (given) => ({gridcolor: edge, zerolinecolor: edge, linecolor: edge, ...given,
    nticks: narrow ? 5 : undefined, ticktext: given.ticktext && given.ticktext.map(cut)});
  return {...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
    font: {color: text, size: narrow ? 11 : 12, family: "system-ui, sans-serif"},
    margin: {l: narrow ? 48 : 64, r: 12, t: 8, b: 48}, xaxis: axis(layout.xaxis || {}), yaxis: axis(layout.yaxis || {}),
    hoverlabel: {align: "left"}, legend: {orientation: "h", traceorder: "normal", x: 0,
      y: -(narrow ? 75 : 60) / Math.max(80, place.clientHeight - 120), yanchor: "top"},
    shapes: (layout.shapes || []).map((s) => ({...s, line: {...s.line, color: text}}))};
}
const plots = [...document.querySelectorAll(".plot")].map((place) => ({place,
  given: JSON.parse(place.nextElementSibling.textContent)}));
for (const {place, given} of plots) {
  Plotly.newPlot(place, given.traces, themed(place, given.layout, false), {responsive: true, displaylogo: false,
    displayModeBar: false});
}
function again(printed) {
  for (const {place, given} of plots) Plotly.relayout(place, themed(place, given.layout, printed));
}
dark.addEventListener("change", () => again(false));
window.addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  again(true);
});
window.addEventListener("afterprint", () => again(false));
document.documentElement.dataset.drawn = plots.length;
