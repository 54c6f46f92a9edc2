"use strict";
// All pages work without this. It shows times in the browser's zone, and has the overview follow
// what happens.
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");

  // Times.
  const zoned = new Intl.DateTimeFormat(root.lang, {dateStyle: "medium", timeStyle: "medium", hourCycle: "h23"});
  const showTimes = within => {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!isNaN(at) && at.getUTCFullYear() < 9999) time.textContent = zoned.format(at);
    }
  };
  showTimes(document);

  // All ticks of a page at once.
  const all = document.getElementById("select-all");
  if (all) all.addEventListener("change", () => {
    for (const tick of document.querySelectorAll("input[form=selection]")) tick.checked = all.checked;
  });

  const live = document.querySelector("[data-live]");
  if (!live) return;

  // Makes one tree the same as another, and touches only what differs: so the focus and what is
  // selected stay.
  const become = (old, next) => {
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) {
      old.replaceWith(next.cloneNode(true));
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== next.data) old.data = next.data;
      return;
    }
    for (const {name} of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name);
    for (const {name, value} of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const olds = [...old.childNodes], nexts = [...next.childNodes];
    nexts.forEach((child, i) => i < olds.length ? become(olds[i], child) : old.append(child.cloneNode(true)));
    olds.slice(nexts.length).forEach(child => child.remove());
  };
  const showPart = (name, html) => {
    const old = live.querySelector(`[data-part="${name}"]`);
    const next = old.cloneNode(false);
    next.innerHTML = html; // of our own templates, which have escaped it
    showTimes(next);
    become(old, next);
  };

  // Charts.
  const colour = name => getComputedStyle(root).getPropertyValue(name).trim();
  const height = 170;
  // Which points have no neighbours: a line of one would not be seen.
  const alone = (plot, series, show) => {
    const values = plot.data[series], found = [];
    for (let i = 0; i < values.length; i++) if (values[i] != null && values[i - 1] == null && values[i + 1] == null) found.push(i);
    return found;
  };
  const draw = (figure, data) => {
    const place = figure.querySelector(".plot"), names = figure.dataset.labels.split("|");
    const axis = {stroke: () => colour("--quiet"), grid: {stroke: () => colour("--line"), width: 1}, ticks: {show: false}};
    const number = value => value == null ? "–" : value.toLocaleString(root.lang, {maximumFractionDigits: value < 10 ? 1 : 0});
    return new uPlot({
      width: place.clientWidth, height,
      cursor: {y: false},
      scales: {y: {range: (_, least, most) => [0, Math.max(most || 0, 1) * 1.1]}},
      axes: [
        {...axis, space: 70, size: 30, values: (_, at, __, ___, step) => at.map(t => new Date(t * 1000).toLocaleTimeString(root.lang, {hour: "2-digit", minute: "2-digit", ...(step < 60 && {second: "2-digit"}), hour12: false}))},
        {...axis, size: 52, values: (_, at) => at.map(number)},
      ],
      series: [
        {label: "", value: (_, t) => t == null ? "" : new Date(t * 1000).toLocaleTimeString(root.lang, {hour12: false})},
        ...names.map((label, i) => ({
          label, width: 1.6, spanGaps: false, points: {show: true, size: 3, filter: alone}, stroke: () => colour(i ? "--two" : "--one"),
          value: (plot, v, series, i) => number(i == null ? plot.data[series].at(-1) : v), // without a cursor the last one
        })),
      ],
    }, data, place);
  };
  const charts = [...live.querySelectorAll("[data-chart]")].map(figure => ({figure, columns: figure.dataset.chart.split(" ").map(Number)}));
  // The points of the last hour, as columns: of the servers' history, and of what this page has seen.
  const past = [[], [], [], [], []], seen = [[], [], []];
  const HOUR = 3600, GAP = 60;
  const add = (points, more) => {
    points.forEach((column, i) => column.push(...more[i]));
    const at = points[0], old = at.findIndex(t => t >= at.at(-1) - HOUR);
    if (old > 0) points.forEach(column => column.splice(0, old));
  };
  const showCharts = (more, now) => {
    add(past, more);
    const last = seen[0].at(-1);
    if (now[0][0] - last > GAP) add(seen, [[last + 0.001], [null], [null]]); // nobody saw this page
    if (!(now[0][0] <= last)) add(seen, now);
    for (const chart of charts) {
      const points = "now" in chart.figure.dataset ? seen : past, data = [points[0], ...chart.columns.map(i => points[i])];
      if (chart.plot) chart.plot.setData(data);
      else chart.plot = draw(chart.figure, data);
    }
  };
  addEventListener("resize", () => {
    for (const {plot, figure} of charts) {
      if (plot) plot.setSize({width: figure.querySelector(".plot").clientWidth, height});
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(({plot}) => plot && plot.redraw()));

  // Once a second, unless nobody sees it.
  const lost = document.getElementById("lost");
  const follow = async () => {
    if (!document.hidden) {
      try {
        const since = past[0].length ? "?since=" + past[0].at(-1) : "";
        const answer = await fetch(live.dataset.live + since, {signal: AbortSignal.timeout(8000)});
        if (!answer.ok) throw new Error(answer.status);
        const {parts, past: more, now} = await answer.json();
        for (const [name, html] of Object.entries(parts)) showPart(name, html);
        showCharts(more, now);
        live.classList.remove("lost");
      } catch {
        live.classList.add("lost");
      }
      lost.hidden = !live.classList.contains("lost");
    }
    setTimeout(follow, 1000);
  };
  follow();
})();
