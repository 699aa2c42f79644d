// report.js - what report.html does: tables sort and fit the page, plots, the timeline and memory are drawn as wide as
// the page is. Inlined into each page.
"use strict";

var COLOURS = ['#0072b2', '#d55e00', '#009e73', '#e69f00', '#cc79a7', '#56b4e9', '#8c8c8c', '#66339a'];

function node(name, text, parent, className) {
	var e = document.createElement(name);

	e.textContent = text;
	e.className = className || '';
	return parent ? parent.appendChild(e) : e;
}

function data(e) {
	return JSON.parse(e.textContent);
}

// Words with their colours, under a figure.
function key(parent, words) {
	var p = node('p', '', parent, 'key');

	words.forEach(function (w) {
		node('span', ' ' + w[0], p).prepend(Object.assign(node('b', '\u25a0'), { style: 'color:' + w[1] }));
	});
}

// ---- numbers to read ------------------------------------------------------------------------------------

// What a value in seconds of this size is shown in: [unit, how many of it make a second].
function time_unit(size) {
	return size >= 1 ? ['s', 1] : size >= 1e-3 ? ['ms', 1e3] : ['us', 1e6];
}

function digits(step) {
	return Math.max(0, Math.min(12, -Math.floor(Math.log10(step) + 1e-9)));
}

// About n round numbers from low to high: 1, 2 or 5 times a power of ten apart.
function round_ticks(low, high, n) {
	var span = (high - low) / n, p = Math.pow(10, Math.floor(Math.log10(span))), s = span / p;
	var step = p * (s < 1.5 ? 1 : s < 3.5 ? 2 : s < 7.5 ? 5 : 10), list = [];

	for (var i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12); i++)
		list.push([i * step, (i * step).toFixed(digits(step))]);
	return list;
}

// 1, 2 and 5 of each power of ten; where there are many powers, these alone.
function log_ticks(low, high) {
	var list = [], parts = high / low > 1e3 ? [1] : [1, 2, 5];

	for (var k = Math.floor(Math.log10(low)); Math.pow(10, k) <= high; k++)
		parts.forEach(function (part) {
			var v = part * Math.pow(10, k);

			if (v >= low && v <= high)
				list.push([v, String(+v.toPrecision(3))]);
		});
	return list.length > 1 ? list : round_ticks(low, high, 5);
}

// A cell as its column's unit is read: seconds and bytes by their size.
function readable(cell, name) {
	var v = parseFloat(cell.dataset.v), unit = time_unit(Math.abs(v));

	if (isNaN(v) || isNaN(cell.textContent))
		return cell.textContent;
	if (/_s$/.test(name) && !/per_s$/.test(name))
		return v ? +(unit[1] * v).toPrecision(4) + ' ' + unit[0] : '0';
	if (/_B$/.test(name))
		return +(v / 1e9).toPrecision(4) + ' GB';
	return cell.textContent;
}

// Calls draw now and whenever the element's width changes.
function fitted(e, draw) {
	var width = -1;

	new ResizeObserver(function () {
		if (e.clientWidth !== width) {
			width = e.clientWidth;
			draw();
		}
	}).observe(e);
	width = e.clientWidth;
	draw();
}

// ---- tables -----------------------------------------------------------------------------------------------

// A column's head is a button that sorts by it: numbers (a cell's data-v where it has one, else its text) as such.
document.querySelectorAll('table.sorts').forEach(function (table) {
	var heads = Array.from(table.tHead.rows[0].cells), body = table.tBodies[0], box = table.parentNode;
	var names = heads.map(function (h) { return h.textContent; }), pick = document.createElement('select');
	var about = node('p', '', null, 'key');

	function value(row, i) {
		return row.cells[i].dataset.v || row.cells[i].textContent;
	}
	function order(x, y) {
		var d = parseFloat(x) - parseFloat(y);

		return isNaN(d) ? x.localeCompare(y) : d;
	}
	function sort(i, way) {
		var rows = Array.from(body.rows);

		rows.sort(function (x, y) { return way * order(value(x, i), value(y, i)); });
		rows.forEach(function (row) { body.appendChild(row); });
		heads.forEach(function (h) { h.removeAttribute('aria-sort'); });
		heads[i].setAttribute('aria-sort', way > 0 ? 'ascending' : 'descending');
	}
	heads.forEach(function (h, i) {
		var button = node('button', '', h);

		h.scope = 'col';
		h.replaceChildren(button);
		names[i].split(/(?<=_)/).forEach(function (part) { // a name breaks behind its underscores
			button.append(part, document.createElement('wbr'));
		});
		button.onclick = function () { sort(i, h.ariaSort === 'ascending' ? -1 : 1); };
		node('option', 'sort by ' + names[i], pick).value = i;
	});
	Array.from(body.rows).forEach(function (row) {
		Array.from(row.cells).forEach(function (c, i) {
			c.dataset.h = names[i];
			c.textContent = readable(c, names[i]);
			if (c.textContent.length > 40)
				c.classList.add('long');
		});
	});
	if (Array.from(body.rows).every(function (r, i, all) { return !i || order(value(all[i - 1], 0), value(r, 0)) <= 0; }))
		heads[0].setAttribute('aria-sort', 'ascending');
	pick.onchange = function () { sort(+pick.value, 1); };
	pick.setAttribute('aria-label', 'sort by');
	box.before(about, pick);
	// Too wide: columns that say the same in every row go into a sentence, then rows become cards.
	fitted(box, function () {
		var same = [];

		table.classList.remove('cards');
		table.querySelectorAll('.same').forEach(function (c) { c.classList.remove('same'); });
		if (table.offsetWidth > box.clientWidth && body.rows.length > 1)
			heads.forEach(function (h, i) {
				var all = [h].concat(Array.from(body.rows).map(function (r) { return r.cells[i]; }));

				if (!all.slice(2).every(function (c) { return c.textContent === all[1].textContent; }))
					return;
				all.forEach(function (c) { c.classList.add('same'); });
				same.push(names[i] + ' ' + (all[1].textContent || '-'));
			});
		table.classList.toggle('cards', table.offsetWidth > box.clientWidth);
		pick.hidden = !table.classList.contains('cards') || body.rows.length < 2;
		about.textContent = same.length ? 'The same in every row: ' + same.join('; ') + '.' : '';
		about.hidden = !same.length;
	});
});

// ---- plots ------------------------------------------------------------------------------------------------

// Points [x, y, label, tip, series]. Axes are linear, logarithmic where values differ by more than 20 times, or words.
document.querySelectorAll('figure.plot > script').forEach(function (given) {
	var figure = given.parentNode, d = data(given), place = node('div', '', figure);
	var series = [...new Set(d.points.map(function (p) { return p[4]; }))];

	function axis(values, about, from, to, room) {
		var words = values.some(function (v) { return isNaN(v); });

		if (words) {
			var names = [...new Set(values)], gap = (to - from) / names.length;

			return { name: about[0], ticks: names.map(function (w) { return [w, w]; }),
				at: function (v) { return from + gap * (names.indexOf(v) + .5); } };
		}
		var own = values.every(function (v) { return typeof v === 'string'; }) ? [...new Set(values)] : []; // of a study's axis
		values = values.map(Number);
		var low = Math.min(...values), high = Math.max(...values), log = low > 0 && (d.against || high > 20 * low);
		var unit = about[1] === 's' ? time_unit(high) : [about[1], 1];
		var edge = log ? 1.12 : .06 * (high - low || Math.abs(high) || 1);
		var a = log ? low / edge : low - edge, b = log ? high * edge : high + edge;
		var f = log ? Math.log10 : Number, scale = (to - from) / (f(b) - f(a));

		return { name: about[0] + (unit[0] ? ', ' + unit[0] : ''), low: a, high: b,
			ticks: own.length && own.length <= 8 ? own.map(function (v) { return [Number(v), v]; }) :
				(log ? log_ticks : round_ticks)(a * unit[1], b * unit[1], room).map(function (t) {
					return [t[0] / unit[1], t[1]];
				}),
			at: function (v) { return from + (f(v) - f(a)) * scale; } };
	}
	fitted(figure, function () {
		var width = Math.min(figure.clientWidth, 760), height = Math.max(260, Math.round(.55 * width));
		var xs = d.points.map(function (p) { return p[0]; }), ys = d.points.map(function (p) { return p[1]; });
		var svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), left = 62, labels = [];

		function add(name, attributes, text) {
			var e = document.createElementNS(svg.namespaceURI, name);

			for (var k in attributes)
				e.setAttribute(k, attributes[k]);
			e.textContent = text || '';
			return svg.appendChild(e);
		}
		if (d.against)
			xs = ys = xs.concat(ys);
		var x = axis(xs, d.x, left, width - 10, width / 130);
		var y = axis(ys.concat(d.limit ? [d.limit] : []), d.y, height - 44, 12, 6);

		svg.setAttribute('viewBox', '0 0 ' + width + ' ' + height);
		svg.setAttribute('width', width);
		svg.setAttribute('role', 'img');
		svg.setAttribute('aria-label', d.title);
		add('path', { class: 'axis', d: 'M' + left + ',12V' + (height - 44) + 'H' + (width - 10) });
		var crowd = x.ticks.some(function (t) { // names too near to each other take turns between two lines
			return isNaN(t[0]) && 7 * String(t[1]).length > (width - left) / x.ticks.length;
		});
		x.ticks.forEach(function (t, i) {
			var at = x.at(t[0]);
			var e = add('text', { x: at, y: height - 28 + (crowd ? 12 * (i % 2) : 0), 'text-anchor': 'middle' }, t[1]);

			add('path', { class: 'axis', d: 'M' + at + ',' + (height - 44) + 'v5' });
			if (crowd && i === x.ticks.length - 1) {
				e.setAttribute('text-anchor', 'end');
				e.setAttribute('x', width - 2);
			}
		});
		y.ticks.forEach(function (t) {
			add('path', { class: 'axis', d: 'M' + left + ',' + y.at(t[0]) + 'h-5' });
			add('text', { x: left - 8, y: y.at(t[0]) + 4, 'text-anchor': 'end' }, t[1]);
		});
		add('text', { x: (left + width) / 2, y: height - 3, 'text-anchor': 'middle' }, x.name);
		add('text', { x: 0, y: 0, transform: 'translate(12 ' + (height - 44) / 2 + ') rotate(-90)', 'text-anchor': 'middle' }, y.name);
		if (d.limit) {
			add('path', { class: 'limit', d: 'M' + left + ',' + y.at(d.limit) + 'H' + (width - 10) });
			add('text', { x: width - 12, y: y.at(d.limit) - 4, 'text-anchor': 'end' }, 'limit ' + d.limit.toPrecision(4) + ' ' + d.y[1]);
		}
		if (d.against)
			add('path', { class: 'front', d: 'M' + x.at(x.low) + ',' + y.at(y.low) + 'L' + x.at(x.high) + ',' + y.at(y.high) });
		series.forEach(function (name, i) {
			var mine = d.points.filter(function (p) { return p[4] === name; });
			var low = Infinity, line = mine.slice().sort(function (p, q) { return x.at(p[0]) - x.at(q[0]) || p[1] - q[1]; });

			if (d.against || xs.some(function (v) { return isNaN(v); })) // names have no order
				line = [];
			else if (name === null) // no other point is lower on both axes
				line = line.filter(function (p) { return p[1] < low && (low = p[1], true); });
			add('path', { class: 'front', d: line.map(function (p, k) { return (k ? 'L' : 'M') + x.at(p[0]) + ',' + y.at(p[1]); }).join(''),
				style: name === null ? '' : 'stroke:' + COLOURS[i % COLOURS.length] });
			mine.forEach(function (p) {
				var c = add('circle', { class: p[2] ? 'b' : 'p', cx: x.at(p[0]), cy: y.at(p[1]), r: p[2] || name !== null ? 5 : 3,
					style: name === null ? '' : 'fill:' + COLOURS[i % COLOURS.length] });
				var t = document.createElementNS(svg.namespaceURI, 'title');

				t.textContent = p[3];
				c.appendChild(t);
				if (!p[2])
					return;
				var near = labels.find(function (l) { // one label where two would overlap
					return Math.abs(l.y - y.at(p[1])) < 15 && Math.abs(l.x - x.at(p[0])) < 14 + 7 * l.names.length;
				});
				if (!near) {
					near = { x: x.at(p[0]), y: y.at(p[1]), names: [] };
					near.e = add('text', { x: near.x + 8, y: near.y - 6 });
					labels.push(near);
				}
				if (!near.names.includes(p[2]))
					near.names.push(p[2]);
				near.e.textContent = near.names.sort().join(', ');
			});
		});
		place.replaceChildren(svg);
		if (series.length > 1)
			key(place, series.map(function (name, i) { return [name, COLOURS[i % COLOURS.length]]; }));
	});
});

// ---- memory -----------------------------------------------------------------------------------------------

// Devices [name, limit, bytes of each part] as bars, those that hold the same as one.
document.querySelectorAll('#memory_parts').forEach(function (e) {
	var d = data(e), place = node('div', '', e.parentNode), groups = new Map(), colours = [0, 5, 2, 3, 4, 6].map(function (i) { return COLOURS[i]; }).concat("#666");
	var most = Math.max(...d.devices.map(function (v) {
		return Math.max(v[1], v[2].reduce(function (a, b) { return a + b; }));
	}));

	d.devices.forEach(function (v) {
		var k = JSON.stringify([v[1], v[2]]), g = groups.get(k);

		groups.set(k, { device: g ? g.device : v, n: g ? g.n + 1 : 1 });
	});
	groups.forEach(function (g) {
		var bar = node('div', '', place, 'bar'), v = g.device, sum = v[2].reduce(function (a, b) { return a + b; });
		var label = v[0] + (g.n > 1 ? ' and ' + (g.n - 1) + ' like it' : '') + ': ' + (sum / 1e9).toPrecision(4) + ' of ' +
			(v[1] / 1e9).toPrecision(4) + ' GB';
		var track = node('div', '', (node('div', label, bar), bar), 'track');

		v[2].forEach(function (B, i) {
			var part = node('i', '', track);

			part.style = 'width:' + 100 * B / most + '%;background:' + colours[i];
			part.title = d.parts[i] + ' ' + (B / 1e9).toPrecision(4) + ' GB';
		});
		node('b', '', track).style.left = 'calc(' + 100 * v[1] / most + '% - 2px)';
	});
	key(place, d.parts.map(function (name, i) { return [name, colours[i]]; }).concat([['limit', 'var(--ink)']]));
});

// ---- the timeline -----------------------------------------------------------------------------------------

// Tasks are [band, lane, start, length, kind, op]. The wheel, two fingers or + and - zoom, dragging and the arrows move,
// a double click or Home shows all, and the task under the pointer is named. Devices that do the same are one band.
(function () {
	var source = document.getElementById('tasks'), canvas = document.getElementById('timeline');

	if (!source)
		return;
	var d = data(source), g = canvas.getContext('2d'), from = 0, to = d.end, pointers = new Map(), width, left, band;
	var colour = { compute: '#0072b2', send: '#009e73', recv: '#56b4e9', copy: '#cc79a7' }, collective = '#e69f00';
	var bands = [], groups = new Map(), lanes = [[0, 14], [15, 8], [24, 8]];

	d.bands.forEach(function () { bands.push([]); });
	d.tasks.forEach(function (t) { bands[t[0]].push(t); });
	bands.forEach(function (tasks, i) {
		var k = JSON.stringify(tasks.map(function (t) { return t.slice(1, 5); })), first = groups.get(k);

		if (first)
			first.n++;
		else
			groups.set(k, { name: d.bands[i], n: 1, tasks: tasks });
	});
	groups = [...groups.values()];
	function x(t) {
		return left + (t - from) / (to - from) * (width - left);
	}
	function title(b) {
		return b.name + (b.n > 1 ? ' and ' + (b.n - 1) + ' like it' : '');
	}
	function draw() {
		var style = getComputedStyle(document.body), dots = window.devicePixelRatio || 1, unit = time_unit((to - from) / 2);

		width = canvas.clientWidth;
		left = width < 600 ? 4 : 8 + 7 * Math.max(...groups.map(function (b) { return title(b).length; }));
		band = width < 600 ? 52 : 38;
		canvas.width = width * dots;
		canvas.height = (band * groups.length + 34) * dots;
		canvas.style.height = band * groups.length + 34 + 'px';
		g.scale(dots, dots);
		g.font = '12px sans-serif';
		groups.forEach(function (b, i) {
			b.tasks.forEach(function (t) {
				var a = Math.max(x(t[2]), left), end = Math.max(x(t[2] + t[3]), a + .5);

				if (a > width || x(t[2] + t[3]) < left)
					return;
				g.fillStyle = colour[d.kinds[t[4]]] || collective;
				g.fillRect(a, (i + 1) * band - 36 + lanes[t[1]][0], end - a, lanes[t[1]][1]);
			});
			g.fillStyle = style.color;
			g.fillText(title(b), 4, i * band + 13);
		});
		round_ticks(from * unit[1], to * unit[1], width / 110).forEach(function (t) {
			var at = x(t[0] / unit[1]), text = t[1] + ' ' + unit[0];

			g.fillRect(at, band * groups.length + 4, 1, 6);
			g.fillText(text, Math.max(0, Math.min(at - 3.2 * text.length, width - 7 * text.length)), band * groups.length + 24);
		});
	}
	function at(e) {
		return from + (e.clientX - canvas.getBoundingClientRect().left - left) / (width - left) * (to - from);
	}
	function zoom(t, by) {
		from = t - (t - from) * by;
		to = t + (to - t) * by;
		draw();
	}
	function name(e) {
		var down = e.clientY - canvas.getBoundingClientRect().top, i = Math.floor(down / band), t = at(e), task;
		var y = down - (i + 1) * band + 36, unit = time_unit(d.end);

		if (groups[i])
			task = groups[i].tasks.find(function (k) {
				return k[2] <= t && t <= k[2] + k[3] && y >= lanes[k[1]][0] && y < lanes[k[1]][0] + lanes[k[1]][1];
			});
		canvas.title = task ? d.kinds[task[4]] + ' ' + task[5] + ' ' + (unit[1] * task[2]).toPrecision(6) + ' to ' +
			(unit[1] * (task[2] + task[3])).toPrecision(6) + ' ' + unit[0] : '';
	}
	function all() {
		from = 0;
		to = d.end;
		draw();
	}
	canvas.addEventListener('wheel', function (e) {
		e.preventDefault();
		zoom(at(e), e.deltaY < 0 ? .8 : 1.25);
	});
	canvas.addEventListener('pointerdown', function (e) { pointers.set(e.pointerId, e); });
	['pointerup', 'pointercancel', 'pointerleave'].forEach(function (kind) {
		canvas.addEventListener(kind, function (e) { pointers.delete(e.pointerId); });
	});
	canvas.addEventListener('pointermove', function (e) {
		var before = pointers.get(e.pointerId), other = [...pointers.values()].find(function (p) { return p.pointerId !== e.pointerId; });

		if (!before) {
			name(e);
			return;
		}
		if (other) {
			zoom(at(other), Math.max(Math.abs(before.clientX - other.clientX), 8) / Math.max(Math.abs(e.clientX - other.clientX), 8));
		} else {
			var moved = at(before) - at(e);

			from += moved;
			to += moved;
			draw();
		}
		pointers.set(e.pointerId, e);
	});
	canvas.addEventListener('keydown', function (e) {
		var move = { ArrowLeft: -.1, ArrowRight: .1 }[e.key], by = { '+': .8, '-': 1.25 }[e.key];

		if (e.key === 'Home')
			all();
		else if (by)
			zoom((from + to) / 2, by);
		else if (move) {
			var moved = move * (to - from);

			from += moved;
			to += moved;
			draw();
		}
	});
	canvas.addEventListener('dblclick', all);
	canvas.tabIndex = 0;
	canvas.setAttribute('role', 'img');
	canvas.setAttribute('aria-label', 'timeline of a step, ' + groups.length + ' bands');
	var kinds = d.kinds.filter(function (k) { return colour[k]; }), others = d.kinds.filter(function (k) { return !colour[k]; });
	key(canvas.parentNode, kinds.map(function (k) { return [k, colour[k]]; }).concat(others.length ? [[others.join(', '), collective]] : []));
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
	fitted(canvas, draw);
})();

/* Lines of words that are columns stay lines, and scroll where they are too wide. */
document.querySelectorAll('pre').forEach(function (pre) {
	pre.innerHTML = pre.innerHTML.replace(/(^.*\S {3,}\S.*\n?)+/gm, '<span class="columns">$&</span>');
});
