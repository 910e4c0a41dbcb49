# SPDX-License-Identifier: Apache-2.0
"""stoker: runs GPU jobs on a node, and says what each GPU is doing and why.

Everything below imports in one direction only (see docs/developer/architecture.md).
"""

from __future__ import annotations

TYPE_CHECKING = False
"""True to a checker of types alone: the `typing` module takes longer to load than the version."""

if TYPE_CHECKING:
    from stoker.mesh.client.blocking_client import BlockingClient as Client
    from stoker.mesh.client.client import Client as AsyncClient
    from stoker.mesh.wire.job_request import JobRequest

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "JobRequest", "__version__"]

_PLACES = {
    "AsyncClient": ("stoker.mesh.client.client", "Client"),
    "Client": ("stoker.mesh.client.blocking_client", "BlockingClient"),
    "JobRequest": ("stoker.mesh.wire.job_request", "JobRequest"),
}


def __getattr__(name: str) -> object:
    """Import what a program uses, and nothing for those that use nothing of it."""
    if name not in _PLACES:
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")
    import importlib

    module, what = _PLACES[name]
    return getattr(importlib.import_module(module), what)
