# SPDX-License-Identifier: Apache-2.0
"""Carries out the effects of the agent's core: files, the lease, jobs, messages to the scheduler.

The newest position is stored before any other effect of its batch. Starts and acknowledgements of a
batch are merged; a stop or a release never overtakes the starts before it.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.agent.job_executor import JobExecutor
from stoker.agent.jobs import steps
from stoker.agent.jobs.job_folders import JobFolders
from stoker.agent.jobs.steps import Effect
from stoker.agent.link.scheduler_requests import SchedulerRequests
from stoker.agent.link.status_reporter import StatusReporter
from stoker.agent.state.command_position import PositionFile
from stoker.agent.state.lease import Lease
from stoker.scheduler.nouns import StartJob, TaskKey


class EffectRunner:
    """Carries out batches of effects. `executor` is set once the spawner has answered."""

    def __init__(
        self,
        position: PositionFile,
        lease: Lease,
        folders: JobFolders,
        requests: SchedulerRequests,
        status: StatusReporter,
        *,
        keep_schedulers: Callable[[tuple[str, ...]], None],
        keep_returned: Callable[[tuple[TaskKey, ...]], None],
    ) -> None:
        self._keep_schedulers = keep_schedulers
        self._keep_returned = keep_returned
        self._position = position
        self._lease = lease
        self._folders = folders
        self._requests = requests
        self._status = status
        self.executor: JobExecutor | None = None

    def carry_out(self, effects: list[Effect]) -> None:
        """Carry out one batch in order, except that the newest position is stored first."""
        executor = self.executor
        positions = [effect for effect in effects if isinstance(effect, steps.Persist)]
        if positions:
            self._position.store(positions[-1].position)
        starts: list[StartJob] = []
        done: list[TaskKey] = []
        for effect in effects:
            match effect:
                case steps.StartAttempts():
                    starts += effect.starts
                case steps.Acknowledge():
                    done += effect.keys
                case steps.ReleaseAttempts(keys):
                    assert executor is not None
                    executor.start(starts)
                    starts = []
                    executor.release(keys)
                case steps.StopAttempt():
                    assert executor is not None
                    executor.start(starts)
                    starts = []
                    executor.stop(effect)
                case steps.Settle(key):
                    assert executor is not None
                    executor.settle(key)
                case _:
                    self._carry_out_one(effect)
        if executor is not None and starts:
            executor.start(starts)
        if executor is not None and done:
            executor.acknowledge(done)

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case steps.SendOutcomes() | steps.SayHello() | steps.RequestState():
                self._requests.begin(effect)
            case steps.Thaw():
                self._thaw(effect)
            case steps.KeepSchedulers(keys):
                self._keep_schedulers(keys)
                self._status.note("the roster of the schedulers is another one")
            case steps.KeepReturned(keys):
                self._keep_returned(keys)
            case steps.DropFolder(job):
                self._folders.forget(job)
            case steps.LogNote(text):
                self._status.note(text)

    def _thaw(self, thaw: steps.Thaw) -> None:
        self._lease.thaw(thaw.epoch, thaw.until_ns)
        self._status.note(f"jobs go on after freeze {thaw.epoch}: the log was read past it")
