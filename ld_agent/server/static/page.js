// Draws the chart of the page "Costs" from the data that the server put beside it, in the colors of the scheme.
const chart = document.getElementById("chart");
if (chart) {
  const data = JSON.parse(chart.dataset.chart);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const palettes = {
    light: ["#0b7285", "#c2410c", "#5f3dc4", "#2b8a3e", "#c2255c", "#5c626b", "#1864ab"],
    dark: ["#66d9e8", "#ffa94d", "#b197fc", "#8ce99a", "#faa2c1", "#ced4da", "#74c0fc"],
  };
  const draw = () => {
    const colors = palettes[dark.matches ? "dark" : "light"];
    const axis = { stroke: getComputedStyle(document.body).color, grid: { stroke: "#8884", width: 1 } };
    chart.replaceChildren();
    new uPlot({
      width: chart.clientWidth, height: 260, scales: { x: { time: true } }, axes: [axis, { ...axis, label: "ms" }],
      series: [{}, ...data.steps.map((step, i) => ({ label: step, stroke: colors[i % colors.length], width: 2, points: { show: true } }))],
    }, [data.at, ...data.ms], chart);
  };
  draw();
  addEventListener("resize", draw);
  dark.addEventListener("change", draw);
}
