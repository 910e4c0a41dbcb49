# SPDX-License-Identifier: Apache-2.0
"""Rows of jobs: those of one array hold what they have in common once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import msgspec
from fakes import top_cluster

from stoker.mesh.client.client import Client
from stoker.mesh.wire.schema import JobList, JobView, ListRequest
from stoker.tui.calls import job_calls, views

SHOWN = top_cluster.array()


class Pages:
    """A client whose list has these pages."""

    def __init__(self, *pages: tuple[JobView, ...]) -> None:
        self._pages = pages

    async def pages(self, request: ListRequest) -> AsyncIterator[JobList]:
        for jobs in self._pages:
            yield JobList(jobs=jobs)


async def test_the_rows_of_an_array_share_their_request() -> None:
    spec = msgspec.structs.replace(SHOWN[0].spec, argv=("other",))
    alone = msgspec.structs.replace(SHOWN[0], spec=spec)
    pages = cast("Client", Pages(SHOWN[:2], (*SHOWN[2:], alone)))
    rows = (await job_calls._listed(pages, ListRequest(), None)).rows
    assert rows == [views.part(job) for job in (*SHOWN, alone)]
    assert len({id(row["spec"]) for row in rows[:-1]}) == 1
    assert rows[-1]["spec"]["argv"] == ["other"]
