// board.js - the board of published runs: a dot for each run, a filter, and what the runs shown add up to. Inlined into the page.
"use strict";

(function () {
	var data = JSON.parse(document.getElementById('runs').textContent), svg = document.getElementById('dots');
	var words = data.words, keys = Object.keys(words), sum = document.getElementById('sum'), size = 560, edge = 45;
	var basis = document.getElementById('basis'), tip = document.getElementById('tip');
	// A run: [id, predicted, left out, measured, low, high, an index into each list of words in turn].
	var ID = 0, PREDICTED = 1, LEFT_OUT = 2, MEASURED = 3, LOW = 4, HIGH = 5, FIRST = 6;
	var all = data.runs.reduce(function (a, r) { return a.concat([r[PREDICTED], r[MEASURED]]); }, []);
	var least = Math.log(Math.min.apply(null, all)), most = Math.log(Math.max.apply(null, all));
	var selects = keys.map(function (key) {
		var s = document.getElementById('by-' + key);

		words[key].map(function (w, i) { return [w, i]; }).sort().forEach(function (w) { s.add(new Option(w[0] || '(none)', w[1])); });
		s.addEventListener('change', show);
		return s;
	});

	function at(value) {
		return edge + (Math.log(value) - least) / (most - least) * (size - 2 * edge);
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

		sum.textContent = shown.length + ' runs' + (shown.length ? ': mean error ' + (100 * mean).toFixed(1) + ' %, median ' +
			(100 * median(errors)).toFixed(1) + ' %' : '') +
			(told.length ? '; ' + (100 * held.length / told.length).toFixed(0) + ' % of ' + told.length + ' within their 80 % intervals' : '');
		svg.querySelectorAll('circle').forEach(function (c) { c.remove(); });
		shown.forEach(function (r) {
			var c = document.createElementNS('http://www.w3.org/2000/svg', 'circle');

			c.setAttribute('class', 'p');
			c.setAttribute('r', 3);
			c.setAttribute('cx', at(r[MEASURED]));
			c.setAttribute('cy', size - at(predicted(r)));
			c.addEventListener('mouseenter', function () { tip.textContent = name(r); });
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
	line(edge, size - edge, size - edge, edge, 'front');
	line(edge, size - edge, size - edge, size - edge, 'axis');
	line(edge, size - edge, edge, edge, 'axis');
	for (var d = Math.ceil(least / Math.LN10); d <= most / Math.LN10; d++) {
		text(at(Math.pow(10, d)) - 8, size - edge + 16, step(Math.pow(10, d)).replace(/\.0+ /, ' '));
		text(2, size - at(Math.pow(10, d)) + 4, step(Math.pow(10, d)).replace(/\.0+ /, ' '));
	}
	text(size / 2 - 30, size - 8, 'measured');
	text(edge, edge - 10, 'predicted');
	basis.addEventListener('change', show);
	show();
})();
