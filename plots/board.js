// board.js - the board of published runs: a dot for each run, a filter, and what the runs shown add up to. Inlined into the page.
"use strict";

(function () {
	var data = JSON.parse(document.getElementById('runs').textContent), svg = document.getElementById('dots');
	var words = data.words, keys = Object.keys(words), sum = document.getElementById('sum'), width = 900, height = 430, edge = 60, middle = (height - edge) / 2 + 10;
	var basis = document.getElementById('basis'), tip = document.getElementById('tip');
	// A run: [id, predicted, left out, measured, low, high, an index into each list of words in turn].
	var ID = 0, PREDICTED = 1, LEFT_OUT = 2, MEASURED = 3, LOW = 4, HIGH = 5, FIRST = 6;
	var all = data.runs.map(function (r) { return r[MEASURED]; });
	var least = Math.log(Math.min.apply(null, all)), most = Math.log(Math.max.apply(null, all));
	var FACTOR = 4; // runs that are further off stand at the upper or lower edge
	var selects = keys.map(function (key) {
		var s = document.getElementById('by-' + key);

		words[key].map(function (w, i) { return [w, i]; }).sort().forEach(function (w) { s.add(new Option(w[0] || '(none)', w[1])); });
		s.addEventListener('change', show);
		return s;
	});

	function at(measured) {
		return edge + 5 + (Math.log(measured) - least) / (most - least) * (width - edge - 15);
	}
	function up(ratio) {
		return middle - Math.log(Math.max(1 / FACTOR, Math.min(FACTOR, ratio))) / Math.log(FACTOR) * (middle - 10);
	}
	function step(s) {
		return s < 1 ? (1000 * s).toPrecision(4) + ' ms' : s.toPrecision(4) + ' s';
	}
	function predicted(r) {
		return basis.value === 'left' && r[LEFT_OUT] ? r[LEFT_OUT] : r[PREDICTED];
	}
	function median(x) {
		x.sort(function (a, b) { return a - b; });
		return x.length ? (x[(x.length - 1) >> 1] + x[x.length >> 1]) / 2 : NaN;
	}
	function name(r) {
		var error = 100 * (predicted(r) / r[MEASURED] - 1);

		return words.table[r[FIRST]] + ' ' + r[ID] + ': predicted ' + step(predicted(r)) + ', measured ' + step(r[MEASURED]) + ', ' +
			(error > 0 ? '+' : '') + error.toFixed(1) + ' %' +
			(r[LOW] ? '; 80 % within ' + step(r[LOW]) + ' to ' + step(r[HIGH]) : '') + ' (' +
			keys.slice(1).map(function (k, i) { return words[k][r[FIRST + 1 + i]]; }).join(', ') + ')';
	}
	function show() {
		var shown = data.runs.filter(function (r) {
			return selects.every(function (s, i) { return s.value === '' || +s.value === r[FIRST + i]; });
		});
		var errors = shown.map(function (r) { return Math.abs(predicted(r) / r[MEASURED] - 1); });
		var mean = errors.reduce(function (a, b) { return a + b; }, 0) / errors.length;
		var told = shown.filter(function (r) { return r[LOW]; });
		var held = told.filter(function (r) { return r[LOW] <= r[MEASURED] && r[MEASURED] <= r[HIGH]; });

		var outputs = shown.filter(function (r) { return words.kind[r[FIRST + keys.indexOf('kind')]] === 'no run'; }).length;

		sum.textContent = shown.length - outputs + ' runs' + (outputs ? ' and ' + outputs + ' outputs' : '') + (shown.length ? ': mean error ' + (100 * mean).toFixed(1) + ' %, median ' +
			(100 * median(errors)).toFixed(1) + ' %' : '') +
			(told.length ? '; ' + (100 * held.length / told.length).toFixed(0) + ' % of ' + told.length + ' within their 80 % intervals' : '');
		svg.querySelectorAll('circle').forEach(function (c) { c.remove(); });
		shown.forEach(function (r) {
			var c = document.createElementNS('http://www.w3.org/2000/svg', 'circle');

			c.setAttribute('class', 'p');
			c.setAttribute('r', 3);
			c.setAttribute('cx', at(r[MEASURED]));
			c.setAttribute('cy', up(predicted(r) / r[MEASURED]));
			['mouseenter', 'click'].forEach(function (e) { c.addEventListener(e, function () { tip.textContent = name(r); }); });
			svg.appendChild(c);
		});
	}
	function line(x1, y1, x2, y2, kind) {
		var l = document.createElementNS('http://www.w3.org/2000/svg', 'line');

		[['x1', x1], ['y1', y1], ['x2', x2], ['y2', y2], ['class', kind]].forEach(function (a) { l.setAttribute(a[0], a[1]); });
		svg.appendChild(l);
	}
	function text(x, y, words) {
		var t = document.createElementNS('http://www.w3.org/2000/svg', 'text');

		t.setAttribute('x', x);
		t.setAttribute('y', y);
		t.textContent = words;
		svg.appendChild(t);
	}
	[1 / FACTOR, .5, .9, 1, 1.1, 2, FACTOR].forEach(function (ratio) {
		line(edge, up(ratio), width, up(ratio), ratio === 1 ? 'front' : 'axis');
		if (ratio === 1 || Math.abs(Math.log(ratio)) > .5)
			text(0, up(ratio) + 4, (ratio > 1 ? '+' : '') + Math.round(100 * (ratio - 1)) + ' %');
	});
	for (var d = Math.ceil(least / Math.LN10); d <= most / Math.LN10; d++)
		text(at(Math.pow(10, d)) - 8, height - 28, step(Math.pow(10, d)).replace(/\.0+ /, ' '));
	text(width / 2 - 60, height - 5, 'measured step');
	basis.addEventListener('change', show);
	show();
})();
