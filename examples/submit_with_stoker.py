#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Submit a job with stoker's own client, follow it, print its output and why it went where it did.

Usage: submit_with_stoker.py PROGRAM [ARGS]
"""

import sys

from stoker import Client, JobRequest
from stoker.native.errors import StokerError


def main(argv):
    with Client() as client:
        job = client.submit(JobRequest(argv=tuple(argv), cwd="/", gpu_milli=0))
        for view in client.watch(job.job):
            print(f"job {view.job}: {view.state}", file=sys.stderr)
        for piece in client.logs(job.job):
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        print(client.explain(job.job).summary, file=sys.stderr)
        return view.exit_code or int(view.state != "succeeded")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except StokerError as error:
        sys.exit(f"{error.message}. {error.hint}")
