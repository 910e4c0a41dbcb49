#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same requests with the `nats` command line (https://github.com/nats-io/natscli).
# Usage: nats_req.sh URL CERTIFICATE SEED_FILE
set -eu
ask() { nats --server "$url" --tlsca "$certificate" --tlsfirst --nkey "$seed" req --raw --timeout 35s "stoker.v1.$1" "$2"; }
url=$1 certificate=$2 seed=$3

ask job.submit '{"argv": ["echo", "hello"], "idempotency_key": "nats-req-1"}'
ask job.get '{"job": "last", "until": "ended", "wait_s": 30}'
ask job.logs '{"job": "last"}' # "data" is base64
ask device.list '{}'
