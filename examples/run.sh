#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a first session with a running node looks like.
set -eu

stoker run -- echo hello                          # output and exit code are the job's
stoker run --cpus 0.5 --mem 256M --time 10s -- sh -c 'echo limited'
printf 'a\nb\n' | stoker run -- wc -l             # a pipe becomes the job's stdin

job=$(stoker submit --name later -- sh -c 'echo later; exit 3')
stoker wait "$job" || echo "job $job exited with $?"
stoker logs "$job"
stoker explain "$job"
stoker jobs
