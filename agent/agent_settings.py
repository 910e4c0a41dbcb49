# SPDX-License-Identifier: Apache-2.0
"""The settings of an agent: its state folder, its node and the operator's configuration.

Everything is read once and checked before the agent serves; a wrong `config.toml` is refused with
the name of the setting and changes nothing.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
import stat
import sys
import time
import tomllib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec

from stoker.agent.alerts import rule
from stoker.agent.alerts.rule import AlertRule, AlertSettings
from stoker.agent.health.shortage import DiskReserve
from stoker.agent.jobs import rank_launcher
from stoker.agent.jobs.job_launch import LOADER_PATH, JobPlace
from stoker.agent.jobs.retention import RetentionLimits
from stoker.agent.power.plan.rules import PowerRules
from stoker.agent.state import (
    event_log_environment,
    host_facts,
    incarnation,
    metrics_config,
    node_instance,
    node_labels,
    otlp_environment,
    span_environment,
    state_folder,
    told_schedulers,
)
from stoker.agent.state.gossip_files import GossipConfig
from stoker.agent.state.job_bounds import Bounds
from stoker.agent.state.metrics_config import Listener, MetricsConfig
from stoker.agent.state.otlp_config import OtlpConfig, target
from stoker.agent.state.signal_environment import Destination
from stoker.agent.state.span_environment import SpanTarget
from stoker.agent.state.state_folder import AGENT, ClusterFile, StateFolder
from stoker.mesh.connection.context import LOOPBACK, own_broker
from stoker.mesh.identity import identity
from stoker.mesh.recording import ring_files
from stoker.mesh.recording.ring_files import RecordingLimits
from stoker.mesh.wire.known_schedulers import KnownSchedulers
from stoker.native import paths
from stoker.native.errors import BadRequest
from stoker.native.setting import mark
from stoker.native.structured_log import structlog
from stoker.probes.kernels.tracer_environment import LIBCUPTI, LIBRARIES, find_cupti

_log = structlog.get_logger("agent")

LAYER = LIBRARIES["opencl"]
SYSTEM_PYTHON = Path("/usr/bin/python3")
SIM_NODE = "STOKER_SIM_NODE"
SIM_DRIVERS = ("libcuda.so.1", "libnccl.so.2", "libnvidia-ml.so.1")


class NodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[node]` of config.toml."""

    labels: Annotated[tuple[str, ...], mark("--label")] = ()
    """Labels of the node, by which jobs ask for it; those of `up --label` are added."""
    ping_host: str = ""
    """The own address at which the node answers the pings of other nodes; by default the one at
    which other hosts reach it, and loopback on a node that is alone."""
    rank_cordon: bool = False
    """Jobs may ask that a device gets no more jobs because a rank on it keeps others waiting."""


class Config(msgspec.Struct, frozen=True):
    """The agent's tables of `config.toml`; other tables are ignored."""

    retention: RetentionLimits = msgspec.field(default_factory=RetentionLimits)
    device: list[dict[str, Any]] = []
    jobs: Bounds = msgspec.field(default_factory=Bounds)
    node: NodeConfig = msgspec.field(default_factory=NodeConfig)
    gossip: GossipConfig = msgspec.field(default_factory=GossipConfig)
    disk: DiskReserve = msgspec.field(default_factory=DiskReserve)
    otlp: OtlpConfig = msgspec.field(default_factory=OtlpConfig)
    power: PowerRules = msgspec.field(default_factory=PowerRules)
    metrics: MetricsConfig = msgspec.field(default_factory=MetricsConfig)
    recording: RecordingLimits = msgspec.field(default_factory=RecordingLimits)
    alert: tuple[AlertRule, ...] = ()
    alerts: AlertSettings = msgspec.field(default_factory=AlertSettings)


class AgentSettings(msgspec.Struct, frozen=True, dict=True):
    """Everything that one agent is started with."""

    state: StateFolder
    cluster: ClusterFile
    config: Config
    boot_id: str
    incarnation: int
    """A number that grows with every start: `agent/state/incarnation.py`."""
    instance: int
    """The number of this node in this boot: `agent/state/node_instance.py`."""
    place: JobPlace
    missing: tuple[str, ...] = ()
    """Parts that were missing at the start, one sentence each."""
    labels: tuple[str, ...] = ()
    """Labels from config.toml and from `stoker up --label`."""
    metrics: Listener | None = None
    """The address of the metrics page; None: there is none."""
    spans: SpanTarget | None = None
    event_logs: Destination | None = None
    """The destination of spans; None: there is none."""

    @property
    def node(self) -> str:
        return self.cluster.node

    @property
    def agent(self) -> Path:
        return self.state.agent

    @property
    def jobs(self) -> Path:
        return self.state.agent / "jobs"

    def jobs_cgroup(self) -> Path | None:
        """Return the cgroup of all jobs once the spawner has made it; None without cgroups."""
        return host_facts.jobs_cgroup(self.state.instance)

    @cached_property
    def members(self) -> KnownSchedulers:
        """The keys of the cluster's schedulers, by position in the roster."""
        told = told_schedulers.load(self._told_schedulers, self.cluster.scheduler_keys)
        return KnownSchedulers(told)

    @property
    def _told_schedulers(self) -> Path:
        return self.agent / "schedulers.json"

    def keep_schedulers(self, keys: tuple[str, ...]) -> None:
        """Have the next agent begin with this roster."""
        told_schedulers.store(self._told_schedulers, keys, self.cluster.scheduler_keys)

    def brokers(self) -> tuple[str, ...]:
        """Return the brokers' addresses: that of this node, which may change when its broker
        restarts, then those of the others. A node that joined has no broker of its own."""
        if self.cluster.joined:
            return self.cluster.brokers
        return own_broker(self.state.root), *self.cluster.brokers

    @property
    def pinned(self) -> Path | None:
        """The certificates of brokers; None for one that its socket's owner proves."""
        return self.state.broker_pins if self.cluster.address else None

    @property
    def key(self) -> str:
        """The public key of the agent, as its file has it now."""
        return identity.load(self.state.key(AGENT)).public

    @property
    def ping_host(self) -> str:
        """The own address at which the node answers pings."""
        return self.config.node.ping_host or self.cluster.address or LOOPBACK


def load(option: str | None) -> AgentSettings:
    """Read and prepare everything; raises StokerError with the name of what is wrong."""
    where = state_folder.locate(option)
    cluster = state_folder.load(where)
    file = read_config(where.root / "config.toml")
    config = with_environment(file, os.environ)
    jobs = where.agent / "jobs"
    jobs.mkdir(mode=0o700, exist_ok=True)
    layer, why = place_layer(where.run / "lib")
    tracers = place_tracers(where.run / "lib")
    return AgentSettings(
        state=where,
        cluster=cluster,
        config=config,
        boot_id=host_facts.boot_id(),
        incarnation=incarnation.begin(where.agent / "incarnation", time.time_ns()),
        instance=node_instance.of_boot(where.agent / "instance", host_facts.boot_id()),
        place=JobPlace(
            cluster.node,
            str(jobs),
            str(where.shm),
            layer,
            tracers,
            place_simulated(where.run / "lib", os.environ),
            config.jobs.resolve(host_facts.processes_max(), host_facts.jobs_memory_bytes()),
            place_launcher(where.run / "lib"),
        ),
        missing=(why,) if why else (),
        labels=node_labels.of_node(config.node.labels, where),
        metrics=metrics_config.of_node(config.metrics, where),
        spans=_spans(file.otlp, os.environ),
        event_logs=_event_logs(file.otlp, os.environ),
    )


def read_config(path: Path) -> Config:
    """Return `config.toml`, or the defaults if there is none."""
    try:
        table: Mapping[str, Any] = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadRequest(f"{path}: {error}") from None
    try:
        config = msgspec.convert(table, Config)
        if config.otlp.endpoint:
            target(config.otlp)
        metrics_config.check(config.metrics)
        ring_files.check(config.recording)
        rule.check(config.alert)
        rule.check_settings(config.alerts)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{path}: {error}") from None
    except BadRequest as error:
        raise BadRequest(f"{path}: {error.message}") from None
    return config


def with_environment(config: Config, variables: Mapping[str, str]) -> Config:
    """Return the configuration with OpenTelemetry's variables over it; what of them is not taken is
    in the log."""
    otlp, refused = otlp_environment.configured(config.otlp, variables)
    for why in refused:
        _log.warning(why)
    return msgspec.structs.replace(config, otlp=otlp)


def _spans(file: OtlpConfig, variables: Mapping[str, str]) -> SpanTarget | None:
    found, refused = span_environment.span_target(file, variables)
    for why in refused:
        _log.warning(why)
    return found


def _event_logs(file: OtlpConfig, variables: Mapping[str, str]) -> Destination | None:
    found, refused = event_log_environment.event_log_target(file, variables)
    for why in refused:
        _log.warning(why)
    return found


def place_layer(folder: Path) -> tuple[str, str]:
    """Put the OpenCL layer where every job can read it; return (path, ""), or ("", the reason)."""
    try:
        return _placed(folder, paths.library(LAYER)), ""
    except OSError as error:  # NotBuilt is an OSError
        return "", f"no GPU kernels are traced: {error}"


def place_tracers(folder: Path) -> dict[str, str]:
    """Put the built tracers of vendors' runtimes where every job can read them, with NVIDIA's
    library that the CUPTI tracer needs; return name -> path. `stoker doctor` shows which are
    missing."""
    placed: dict[str, str] = {}
    for name, library in LIBRARIES.items():
        with contextlib.suppress(OSError):
            if library != LAYER:
                placed[name] = _placed(folder, paths.library(library))
    cupti = find_cupti() if "cupti" in placed else None
    if cupti is not None:
        with contextlib.suppress(OSError):
            placed[LIBCUPTI] = _placed(folder, cupti)
    return placed


def place_simulated(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """On a simulated node (SIM), return the variables that lead a job to the simulated NVIDIA
    drivers, those that the agent itself loads; empty on other nodes. `variables`: the agent's
    environment."""
    node = variables.get(SIM_NODE)
    if not node:
        return {}
    folders = [Path(place) for place in variables.get(LOADER_PATH, "").split(":") if place]
    for name in SIM_DRIVERS:
        with contextlib.suppress(OSError, StopIteration):
            source = next(place / name for place in folders if (place / name).exists())
            _placed(folder / "sim", source)
    return {SIM_NODE: node, LOADER_PATH: str(folder / "sim")}


def place_launcher(folder: Path) -> tuple[str, ...]:
    """Put the launcher of ranks where every job can read it; return the words that begin it, or
    none if there is no interpreter that every job can run: this one may be in root's own folder."""
    known = (Path(sys.executable).resolve(), SYSTEM_PYTHON)
    interpreter = next(filter(_is_public, known), None)
    if interpreter is None:
        return ()
    return str(interpreter), "-I", "-S", _placed(folder, Path(rank_launcher.__file__))


def _is_public(program: Path) -> bool:
    """True if every user may run a program."""
    try:
        return all(place.stat().st_mode & stat.S_IXOTH for place in (program, *program.parents))
    except OSError:
        return False


def _placed(folder: Path, source: Path) -> str:
    """Copy a library, replacing the name and not the file: running jobs have the old one mapped."""
    target = folder / source.name
    folder.mkdir(mode=0o755, exist_ok=True)
    if not target.exists() or not filecmp.cmp(target, source, shallow=False):
        partial = folder / f".{source.name}.new"
        shutil.copyfile(source, partial)
        partial.chmod(0o755)
        partial.replace(target)
    return str(target)
