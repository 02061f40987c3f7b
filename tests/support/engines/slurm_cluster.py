"""A Slurm cluster of two nodes on one machine: a real ``slurmctld``, two real ``slurmd`` and ``munged``.

slurm.conf(5) gives both nodes the same address and different ports. What a job asks of memory and cores is booked and
not enforced, unless the cluster is to make control groups.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any, Self

from support.engines.own_machine import ADDRESS, OwnMachine, need
from support.waiting import eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

_TOOLS = ('munged', 'slurmctld', 'slurmd', 'srun', 'sbatch', 'scancel', 'scontrol', 'sinfo', 'squeue', 'sstat')
_PACKAGES = "Debian's packages munge, slurmctld, slurmd, slurm-client and slurm-wlm-basic-plugins"

# batch_sched_delay and bf_interval: a job starts within a second of its submission, with one of several components too.
# sched_interval: so does one whose time to start has come, of which the scheduler is not told; else within a minute.
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost=head({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType={tracking}
TaskPlugin={task}
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_interval=1
ReturnToService=2
GresTypes=gpu
KillWait=5
NodeName=n[1-2] NodeHostname=head NodeAddr={address} Port=[17001-17002] CPUs=4 RealMemory=4000 Gres=gpu:2
PartitionName=all Nodes=ALL Default=YES State=UP DefMemPerCPU=100
"""
_WITHOUT_GROUPS = {'tracking': 'proctrack/linuxproc', 'task': 'task/none'}
_WITH_GROUPS = {'tracking': 'proctrack/cgroup', 'task': 'task/cgroup'}
_OF_GROUPS = 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n'
"""cgroup.conf(5): each task is in a group of its own, which has the memory that the job asks for."""
_MUNGE_FILES = {'key-file': 'key', 'socket': 'socket', 'pid-file': 'pid', 'seed-file': 'seed', 'log-file': 'log'}


class SlurmCluster:
    """A cluster with the nodes ``n1`` and ``n2``, each with four cores, 4,000 MiB and two GPUs for Slurm to give.

    :param folder: Where it keeps its state and its logs.
    :param settings: Further lines of slurm.conf, such as TaskProlog.
    :param has_groups: It makes control groups of version 1, which this machine has in common with others.
    """

    def __init__(self, folder: Path, settings: Mapping[str, object] | None = None, *, has_groups: bool = False) -> None:
        need(_TOOLS, _PACKAGES)
        self.folder = folder
        configuration = folder / 'etc'
        for made in (configuration, folder / 'state', folder / 'spool-n1', folder / 'spool-n2'):
            made.mkdir()
        lines = [f'{name}={value}\n' for name, value in (settings or {}).items()]
        plugins = _WITH_GROUPS if has_groups else _WITHOUT_GROUPS
        text = _CONFIGURATION.format(address=ADDRESS, folder=folder, **plugins)
        (configuration / 'cgroup.conf').write_text(_OF_GROUPS if has_groups else '')
        (configuration / 'slurm.conf').write_text(text + ''.join(lines))
        (configuration / 'gres.conf').write_text('Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n')
        key = folder / 'munge.key'
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        self.machine = OwnMachine(folder, 'head', mounts=[(configuration, '/etc/slurm')])
        try:
            self._start_daemons()
        except BaseException:
            self.machine.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.close()

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program on the cluster to its end, as OwnMachine.run does."""
        return self.machine.run(*words, env=_environment(), **options)

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start a program on the cluster, as OwnMachine.start does."""
        return self.machine.start(*words, env=_environment(), **options)

    def asked(self, *words: str) -> str:
        """Return what one of Slurm's commands prints, which is to succeed."""
        finished = self.run(*words)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    def submit(self, folder: Path, script: str, *options: str) -> str:
        """Submit a batch script and return the ID of the job.

        :param folder: Where it runs; what the job prints is in ``slurm-ID.out`` there.
        :param script: Its lines, without the first.
        :param options: Those of sbatch.
        """
        file = folder / 'job.sh'
        file.write_text(f'#!/bin/sh\n{script}\n')
        finished = self.run('sbatch', '--parsable', *options, str(file), folder=folder)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout.strip()

    def requeue(self, job: str) -> None:
        """Have a running job run again from its beginning.

        Slurm waits for two minutes until the credential of the first run has expired. It is enough that the second run
        has one that is younger than the revocation of the first, in whole seconds.
        """
        self.asked('scontrol', 'requeue', job)
        eventually(lambda: self.asked('squeue', '--noheader', '--format=%T', f'--jobs={job}') == 'PENDING\n')
        self.asked('scontrol', 'update', f'job={job}', 'StartTime=now+2')

    def wait(self, job: str) -> None:
        """Wait until a job has ended, all tasks of it where it is an array."""
        eventually(lambda: not self.asked('squeue', '--noheader', f'--jobs={job}'))

    def _start_daemons(self) -> None:
        files = [f'--{name}={self.folder}/munge.{end}' for name, end in _MUNGE_FILES.items()]
        self._start('munged', '--force', *files)  # the folder is not for everybody, against which it warns
        self._start('slurmctld', '-i')
        for node in ('n1', 'n2'):
            self._start('slurmd', '-N', node)
        eventually(lambda: self.asked('sinfo', '--noheader', '--format=%T %D') == 'idle 2\n')

    def _start(self, *words: str) -> None:
        """Start a daemon, which leaves for the background when it is ready."""
        with open(self.folder / f'{words[0]}.out', 'a+', encoding='utf-8') as output:  # a pipe would be held by it
            finished = self.machine.run(*words, capture_output=False, stdout=output, stderr=output)
            output.seek(0)
            assert finished.returncode == 0, f'{words}: {output.read()}'


def _environment() -> dict[str, str]:
    """Return this process' environment without what a launcher has put there."""
    return {name: value for name, value in os.environ.items() if not name.startswith(('SLURM', 'PMI', 'OMPI'))}
