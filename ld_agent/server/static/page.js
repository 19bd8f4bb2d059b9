// Draws the chart of the page "Costs" from the data that the server put beside it.
const chart = document.getElementById("chart");
if (chart) {
  const data = JSON.parse(chart.dataset.chart);
  const colors = ["#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e", "#c2255c", "#868e96", "#1864ab"];
  const ink = getComputedStyle(document.body).color;
  const axis = { stroke: ink, grid: { stroke: "#8884", width: 1 } };
  const draw = () => {
    chart.replaceChildren();
    new uPlot({
      width: chart.clientWidth, height: 260, scales: { x: { time: true } }, axes: [axis, { ...axis, label: "ms" }],
      series: [{}, ...data.steps.map((step, i) => ({ label: step, stroke: colors[i % colors.length], width: 2, points: { show: true } }))],
    }, [data.at, ...data.ms], chart);
  };
  draw();
  addEventListener("resize", draw);
}
