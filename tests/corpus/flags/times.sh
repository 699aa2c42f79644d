#!/bin/sh
tet?t*2L' #!/bsn/sh.py \
  --ten \
  --recompute-granularity selegti
torchrun \
  --tens‘—%mdpipeline-#!/bin/sh
tet?t*2L' #!/bsn/sh.py \
  --ten \
  --rmodÿelayer0ingrmsize 2 --pipeline-model-parallel-layout 'Et*4|t*-2odel!--o-par