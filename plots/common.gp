# common.gp - the look that all figures share. The caller sets: fmt (png | svg), out (path without suffix),
# and may set width and height in pixels before loading this.
if (!exists("width")) width = 900
if (!exists("height")) height = 540
if (fmt eq "png") {
	set terminal pngcairo size 2*width,2*height font "DejaVu Sans,20" linewidth 2 background "#ffffff"
} else {
	set terminal svg size width,height font "DejaVu Sans,12" background "#ffffff"
}
set output out.".".fmt
set datafile separator ","
set border 3 lc rgb "#444444" lw 1
set tics nomirror out textcolor rgb "#222222"
set grid xtics ytics lc rgb "#dddddd" lw 0.7 dt 1
set key opaque noenhanced
# Okabe and Ito's palette: readable in print and by the colour-blind.
blue = 0x0072b2; orange = 0xe69f00; green = 0x009e73; red = 0xd55e00
sky = 0x56b4e9; pink = 0xcc79a7; yellow = 0xf0e442; grey = 0x8c8c8c
color(i) = int(word("29362 15113984 40563 13983232 5682409 13400487 15787074 6697881 0 11674146 3329330 9211020", int(i) % 12 + 1))
# More than ten series cannot be told apart: the first ten are coloured, the others pale.
pale = 0xc8c8c8
if (exists("engines")) {
	coloured = words(engines) < 10 ? words(engines) : 10
	others = sprintf("%d other engine%s", words(engines) - 10, words(engines) > 11 ? "s" : "")
}
# Sizes that follow the terminal's.
small = fmt eq "png" ? ",16" : ",10"
dot = fmt eq "png" ? 1.3 : 0.6
# A time of so many ms is shown in s, ms or us: the unit's name, and how many of it a ms is.
unit_of(ms) = ms >= 1000 ? "s" : ms >= 1 ? "ms" : "us"
per_ms(ms) = ms >= 1000 ? 1e-3 : ms >= 1 ? 1 : 1e3
