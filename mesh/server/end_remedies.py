# SPDX-License-Identifier: Apache-2.0
"""The actions that would help after the end of a job, by the reason of its end.

Pure. Owns the sentences for a program that could not be started, which name the job's own PATH,
folder and user: a person sees those of the shell and takes them for the job's.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

from stoker.scheduler.book import Job
from stoker.scheduler.job_path import default_path
from stoker.scheduler.nouns import JobSpec

_MAPPED = "; jobs of root run as that user: stoker up --root-jobs-as"
_NO_PROGRAM, _NO_FOLDER = "cannot start ", "cannot enter "
_LIMITS = {
    "all jobs together reached the node's memory limit": "reserve the memory that it needs: --mem",
    "memory limit ": "give it more memory than that: --mem",
    "pids limit ": "let it have more processes and threads: --pids",
}
"""Words of the runner about a limit that ended a job (native/runner/cgroup), and what helps."""


def remedies(job: Job, user_of: Callable[[int], str]) -> Iterator[str]:
    """Yield what would help the user of a job that is over, the best first. `user_of`: the words
    for a uid."""
    if job.reason.startswith((_NO_PROGRAM, _NO_FOLDER)):
        yield from _start_remedies(job, job.decoded_spec(), user_of(job.owner.uid))
        return
    limit = next((words for words in _LIMITS if words in job.reason), "")
    if limit and job.state == "failed":
        yield _LIMITS[limit]
    elif job.state == "timeout":
        yield "give it more time: --time"
    elif job.state == "lost":
        yield "submit it again, or have it restarted next time: --restart on-node-loss"
    if job.state in ("failed", "timeout", "lost"):
        yield f"read its output: stoker logs {job.job}"


def _start_remedies(job: Job, spec: JobSpec, user: str) -> Iterator[str]:
    uid, missing = job.owner.uid, job.reason.endswith(os.strerror(errno.ENOENT))
    if job.reason.startswith(_NO_FOLDER):
        yield f"choose a folder that is on its node and that {user} may enter: --cwd"
        return
    program = spec.argv[0]
    if len(program.split()) > 1 and missing:
        yield f"leave out the quotes, which make one name of several words: {program}"
    elif "/" in program and missing:
        where = "" if program.startswith("/") else f", sought from {spec.cwd}"
        yield f"see that it is on its node{where}, with the interpreter that its first line names"
    elif missing:
        path = spec.env.get("PATH") or default_path(uid)
        yield f"write the program's whole path, or set the job's PATH, now {path}: --env PATH"
    elif job.reason.endswith(os.strerror(errno.EACCES)):
        mapped = job.owner.user == "root" and uid
        yield f"let {user} run it, and enter each folder above it" + (_MAPPED if mapped else "")
    elif job.reason.endswith(os.strerror(errno.ENOEXEC)):
        yield "begin a script with a line such as #!/bin/sh, or take a program for this processor"
