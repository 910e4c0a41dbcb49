# SPDX-License-Identifier: Apache-2.0
"""The streams that keep the newest telemetry, one for each kind: names, subjects and bounds.

No other file spells a bound. Streams are in the memory of one broker, so a flood of telemetry costs
the log neither disk nor room: `broker_config.py` reserves the memory of both apart.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from stoker.mesh.wire import subjects
from stoker.mesh.wire.subjects import PREFIX, token
from stoker.native.errors import BadRequest

STREAM_BYTES: Final = 32 << 20
"""The most bytes of one stream; beyond that its oldest messages are discarded."""
STREAM_AGE_S: Final = 600
"""A message is kept for this long."""
STREAM_MESSAGE_BYTES: Final = 256 * 1024
"""The largest message that a stream keeps."""
STREAM_CONSUMERS: Final = 4
"""The most consumers of one stream; readers use none."""
OBSERVATIONS_OF_NODE: Final = 2 * STREAM_AGE_S
"""The most kept observations of one node, so that a flood of one displaces only its own."""
ALERTS_OF_NODE: Final = 1024
"""The most kept changes of alerts of one node."""
SUMMARIES_OF_JOB: Final = 2 * STREAM_AGE_S
"""The most kept kernel summaries of one job on one node."""


class TelemetryStream(NamedTuple):
    """One stream. `of_user` is the subject of one user's messages, with a place for the name;
    empty if only administrators read this kind."""

    kind: str
    subject: str
    of_user: str
    each_subject: int = -1
    """The most kept messages of one subject; -1: no bound of its own."""

    @property
    def name(self) -> str:
        """The stream's name in JetStream."""
        return f"TELEMETRY_{self.kind}"

    def readable(self, user: str | None) -> str:
        """Return the subject of what a user may read; None is an administrator."""
        if user is None:
            return self.subject
        if not self.of_user:
            raise BadRequest(f"only an administrator reads {self.kind}")
        return self.of_user.format(token(user))


STREAMS: Final = (
    TelemetryStream("observations", subjects.EVERY_OBSERVATION, "", OBSERVATIONS_OF_NODE),
    TelemetryStream(
        "kernels", f"{PREFIX}.kernels.*.*.*", f"{PREFIX}.kernels.{{}}.*.*", SUMMARIES_OF_JOB
    ),
    TelemetryStream("decisions", f"{PREFIX}.decisions.*", f"{PREFIX}.decisions.{{}}"),
    TelemetryStream("outcomes", f"{PREFIX}.outcomes.*", f"{PREFIX}.outcomes.{{}}"),
    TelemetryStream("events", f"{PREFIX}.events.>", f"{PREFIX}.events.job.{{}}"),
    TelemetryStream("alerts", f"{PREFIX}.alerts.*", "", ALERTS_OF_NODE),
)
"""All streams."""
KINDS: Final = tuple(stream.kind for stream in STREAMS)
MEMORY_BYTES: Final = STREAM_BYTES * len(STREAMS)
"""The most memory of all streams together."""


def stream_of(kind: str) -> TelemetryStream:
    """Return the stream of this kind; BadRequest names the kinds there are."""
    for stream in STREAMS:
        if stream.kind == kind:
            return stream
    raise BadRequest(f"no telemetry is called {kind[:40]!r}: {', '.join(KINDS)}")


class TelemetryConfig(msgspec.Struct, kw_only=True, frozen=True):
    """The settings of a stream, as JetStream names them."""

    name: str
    subjects: tuple[str, ...]
    retention: str = "limits"
    storage: str = "memory"
    num_replicas: int = 1
    discard: str = "old"
    max_bytes: int = STREAM_BYTES
    max_age: int = STREAM_AGE_S * 1_000_000_000
    max_msgs: int = -1
    max_msgs_per_subject: int = -1
    max_msg_size: int = STREAM_MESSAGE_BYTES
    max_consumers: int = STREAM_CONSUMERS
    no_ack: bool = True
    """No publisher of telemetry ever gets an acknowledgement, whatever it asks for."""
    allow_direct: bool = True
    """Readers fetch messages by number and make no consumer."""
    deny_delete: bool = True
    deny_purge: bool = True


def config_of(stream: TelemetryStream) -> TelemetryConfig:
    """Return the settings that the stream must have."""
    return TelemetryConfig(
        name=stream.name, subjects=(stream.subject,), max_msgs_per_subject=stream.each_subject
    )
