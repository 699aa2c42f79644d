# Links, bandwidths between kinds of devices and bisections of every shipped platform and of one generated
# in each fabric (what the calibrations say, memory, is left out).
look() { "$MAQUETTE" platform show "$1" | sed -n '1p;/^links/,$p'; echo; }
for p in "$ROOT"/platforms/*.xml; do look "$p"; done
for f in switch rail,leaf=4 fat-tree,leaf=2,oversub=2,pod=2 dragonfly,routers=2,leaf=1,global=2 torus,dims=4x2 ethernet,leaf=2 nvl72,domain=32; do
	"$MAQUETTE" platform generate nodes=8 name=eight fabric=${f//,/ } -o eight.xml >/dev/null && echo "$f" && look eight.xml
done
