// report.js - what report.html does: tables sort, the timeline zooms. Inlined into each page.
"use strict";

// A click on a column's head sorts by it: numbers (a cell's data-v where it has one, else its text) as such.
document.querySelectorAll('table.sorts').forEach(function (table) {
	var up = 1;

	table.querySelectorAll('th').forEach(function (head, i) {
		function value(row) {
			return row.cells[i].dataset.v || row.cells[i].textContent;
		}
		head.addEventListener('click', function () {
			var body = table.tBodies[0], rows = Array.from(body.rows);

			up = -up;
			rows.sort(function (x, y) {
				var p = value(x), q = value(y), d = parseFloat(p) - parseFloat(q);

				return up * (isNaN(d) ? p.localeCompare(q) : d);
			});
			rows.forEach(function (row) { body.appendChild(row); });
		});
	});
});

// The timeline. Tasks are [band, lane, start, length, kind, op]; the wheel zooms at the pointer, dragging moves, a double
// click shows all, and the task under the pointer is named.
(function () {
	var data = document.getElementById('tasks'), canvas = document.getElementById('timeline');

	if (!data)
		return;
	var d = JSON.parse(data.textContent), g = canvas.getContext('2d'), height = 26, left = 110;
	var colour = { compute: '#0072b2', send: '#009e73', recv: '#56b4e9', copy: '#cc79a7' }, collective = '#e69f00';
	var style = getComputedStyle(document.body), from = 0, to = d.end, drag = null;

	canvas.width = 1100;
	canvas.height = height * d.bands.length + 30;
	function x(t) {
		return left + (t - from) / (to - from) * (canvas.width - left);
	}
	function draw() {
		var ink = style.color, paper = style.backgroundColor;

		g.fillStyle = paper;
		g.fillRect(0, 0, canvas.width, canvas.height);
		d.tasks.forEach(function (t) {
			var a = x(t[2]), width = Math.max(x(t[2] + t[3]) - a, .5);

			if (a > canvas.width || a + width < left)
				return;
			g.fillStyle = colour[d.kinds[t[4]]] || collective;
			g.fillRect(Math.max(a, left), t[0] * height + 2 + t[1] * 8, width - Math.max(left - a, 0), 7);
		});
		g.fillStyle = paper;
		g.fillRect(0, 0, left, canvas.height);
		g.fillStyle = ink;
		g.font = '11px sans-serif';
		d.bands.forEach(function (name, i) { g.fillText(name, 4, i * height + 16); });
		for (var i = 0; i <= 5; i++) {
			var t = from + (to - from) * i / 5;

			g.fillText((1e3 * t).toPrecision(4) + ' ms', Math.min(x(t), canvas.width - 60), canvas.height - 8);
		}
	}
	function at(e) {
		var r = canvas.getBoundingClientRect(), across = (e.clientX - r.left) * canvas.width / r.width;

		return from + (across - left) / (canvas.width - left) * (to - from);
	}
	function name(e) {
		var r = canvas.getBoundingClientRect(), down = (e.clientY - r.top) * canvas.height / r.height, t = at(e);
		var task = d.tasks.find(function (k) {
			var y = down - k[0] * height - 2 - k[1] * 8;

			return k[2] <= t && t <= k[2] + k[3] && y >= 0 && y < 8;
		});

		canvas.title = task ? d.kinds[task[4]] + ' ' + task[5] + ' ' + (1e3 * task[2]).toPrecision(6) + ' to ' +
			(1e3 * (task[2] + task[3])).toPrecision(6) + ' ms' : '';
	}
	canvas.addEventListener('wheel', function (e) {
		var t = at(e), zoom = e.deltaY < 0 ? .8 : 1.25;

		e.preventDefault();
		from = t - (t - from) * zoom;
		to = t + (to - t) * zoom;
		draw();
	});
	canvas.addEventListener('mousedown', function (e) { drag = at(e); });
	window.addEventListener('mouseup', function () { drag = null; });
	canvas.addEventListener('mousemove', function (e) {
		if (drag === null) {
			name(e);
			return;
		}
		var moved = drag - at(e);

		from += moved;
		to += moved;
		draw();
	});
	canvas.addEventListener('dblclick', function () {
		from = 0;
		to = d.end;
		draw();
	});
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
	draw();
})();
