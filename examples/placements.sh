#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Who chooses where a job runs: a placement by name, the user by device, or the administrator's own
# function. It needs a node with four NVIDIA cards and root's or the node's own user; simulated cards
# will do: stoker sim driver --profile 8xH200 -- stoker up --foreground
set -eu

why() { stoker explain last -o wide | sed -n 's/^  why: /why: /p'; }

# By name: numbers that follow each other, and the least used node.
stoker run --gpus 2 --placement contiguous -- true; why
stoker run --gpus 1 --placement spread -- true; why

# By device: these two and no others, with a fast link between them, and CPUs and memory beside them.
stoker run --gpus 2 --device-ids 2,3 --device-ids-mode require --topology required -- \
    sh -c 'echo "cards: $CUDA_VISIBLE_DEVICES"'
stoker explain last -o wide | grep -E 'share link|NUMA'

# By a function of the administrator, which every user may then name.
folder=${STOKER_STATE:-/var/lib/stoker}/placements
mkdir -p "$folder"
cat > "$folder/roomy.py" <<'PYTHON'
def score(job, candidates):
    """The more devices are free the better; a busy node counts as if it had one less."""
    return [row["devices_free"] - ((row["load"] or 0) > 0.5) for row in candidates]
PYTHON
chmod 755 "$folder" && chmod 644 "$folder/roomy.py"
stoker run --gpus 1 --placement user:roomy -- true; why
stoker explain last -o wide | grep chosen || true
