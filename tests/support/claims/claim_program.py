"""Programs that claim GPUs, for tests with several processes and several users.

``actor`` does what each line on its standard input says and answers with a line of JSON. ``race`` lets many processes
claim the same few GPUs and kills them at random. Both import all that they need before they give root's rights away:
the interpreter may stand where other users cannot read.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import sys
import time
from random import Random

import gpu_tracker.gpus.claims.locks
from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.gpus.claims.folder import ClaimFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.claims.folder import HeldClaim

GPUS = ('GPU-0', 'GPU-1', 'GPU-2', 'GPU-3')


def first_free(count: int) -> Callable[[list[Claim]], Sequence[str]]:
    """Return what chooses that many GPUs or none."""

    def choose(claims: list[Claim]) -> Sequence[str]:
        claimed = {uuid for claim in claims for uuid in claim.uuids}
        free = [uuid for uuid in GPUS if uuid not in claimed]
        return free[:count] if len(free) >= count else []

    return choose


class Actor:
    """Somebody who claims GPUs."""

    def __init__(self, path: str, lock_timeout: float) -> None:
        self._path = path
        self._folder = ClaimFolder(path, lock_timeout=lock_timeout)
        self._held: list[HeldClaim] = []

    def run(self) -> None:
        """Answer every line of the standard input."""
        for line in sys.stdin:
            word, *arguments = json.loads(line)
            try:
                answer = getattr(self, word)(*arguments)
            except (GpuTrackerError, OSError) as error:
                answer = {'error': str(error)}
            print(json.dumps(answer), flush=True)

    def claim(self, count: int, seconds: float | None = None) -> object:
        """Claim that many GPUs, for as long as this process runs or for a time; tell which."""
        return self._claim(count, os.getpid() if seconds is None else None, seconds)

    def claim_for_both(self, count: int, seconds: float) -> object:
        """Claim that many GPUs, for as long as this process runs and for a time at most; tell which."""
        return self._claim(count, os.getpid(), seconds)

    def claim_for_programs(self, count: int) -> object:
        """Claim that many GPUs, for this process and whatever program it becomes; tell which."""
        return self._claim(count, os.getpid(), None, survives_exec=True)

    def outlive_process(self) -> object:
        """Let only its time end the oldest claim."""
        return self._held[0].outlive_process()

    def claims(self) -> object:
        """Tell what is claimed, and by whom."""
        return [[claim.user_id, *claim.uuids] for claim in self._folder.claims()]

    def release(self) -> object:
        """Give back the oldest claim."""
        return self._held.pop(0).release()

    def release_in_a_child(self) -> object:
        """Let a forked child do so."""
        child = os.fork()
        if child == 0:
            self._held[0].release()
            os._exit(0)
        return os.waitpid(child, 0)[1]

    def spawn(self, *words: str) -> object:
        """Start a program that inherits what there is to inherit; tell its process ID."""
        return os.posix_spawn(words[0], words, os.environ)

    def fork(self) -> object:
        """Start a child that does nothing; tell its process ID."""
        child = os.fork()
        if child == 0:
            while True:
                signal.pause()
        return child

    def lock(self) -> object:
        """Lock the folder for good."""
        fcntl.flock(os.open(self._path, os.O_RDONLY), fcntl.LOCK_SH)
        return True

    def end_as_zombie(self) -> object:
        """Let a child claim a GPU and end, and do not wait for it."""
        answer, ready = os.pipe()
        if os.fork() == 0:
            os.write(ready, str(self.claim(1)).encode())
            os._exit(0)
        os.close(ready)
        os.read(answer, 100)
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        return True

    def fill_the_disk(self) -> object:
        """Work where no file can grow any more."""
        return resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    def take_rights(self, umask: int) -> object:
        """Set which rights files are made without."""
        return os.umask(umask)

    def count_opened(self) -> object:
        """Read the claims; tell how many files were opened for that, and how many claims there are."""
        opened: list[object] = []
        sys.addaudithook(lambda event, arguments: opened.append(arguments[0]) if event == 'open' else None)
        claims = self._folder.claims()
        return [sum(isinstance(name, str) and name.endswith('.json') for name in opened), len(claims)]

    def sees(self, pid: int) -> object:
        """Tell whether a process is to be seen."""
        return os.path.exists(f'/proc/{pid}')

    def harm(self) -> object:
        """Try all that could take somebody's claim away; tell how each attempt ended."""
        names = sorted(os.listdir(self._path))
        victim = f'{self._path}/{names[0]}'
        own = f'{self._path}/own'
        with open(own, 'w', encoding='utf-8'):
            pass
        attempts: list[Callable[[], object]] = [
            lambda: os.unlink(victim),
            lambda: os.rename(victim, f'{victim}.away'),
            lambda: os.rename(own, victim),
            lambda: os.chmod(victim, 0o600),
            lambda: os.utime(victim, (0, 0)),
            lambda: os.truncate(victim, 0),
            lambda: os.rmdir(self._path),
            lambda: os.rename(self._path, f'{self._path}.away'),
            lambda: os.chmod(self._path, 0o700),
        ]
        return [self._outcome(attempt) for attempt in attempts]

    def leave(self) -> None:
        """End as a program does that has nothing more to do."""
        sys.exit()

    def execute(self, *words: str) -> None:
        """Become another program."""
        os.execv(words[0], words)

    def _claim(
        self, count: int, process_id: int | None, seconds: float | None, *, survives_exec: bool = False
    ) -> object:
        held = self._folder.claim(
            first_free(count), process_id=process_id, seconds=seconds, command='actor', survives_exec=survives_exec
        )
        if held is None:
            return None
        self._held.append(held)
        return held.claim.uuids

    @staticmethod
    def _outcome(attempt: Callable[[], object]) -> str:
        try:
            attempt()
        except OSError as error:
            return type(error).__name__
        return 'done'


class Race:
    """Processes that race for the same GPUs, and are killed.

    Each owner proves that it is the only one without any help of claims: as long as it owns a GPU it holds a lock on a
    file that stands for it, which the kernel lifts when the owner ends. Whoever finds such a file locked has found a
    second owner.
    """

    def __init__(self, path: str, witnesses: str, racers: int, seconds: float) -> None:
        self._path = path
        self._witnesses = witnesses
        self._racers = racers
        self._seconds = seconds
        self._alive: list[int] = []
        self._dead: list[int] = []
        self._news, self._tell = os.pipe()
        os.set_blocking(self._news, False)

    def run(self) -> dict[str, int]:
        """Race for that long, and longer where too little has happened yet; tell what has happened."""
        counts = {'claims': 0, 'twice': 0, 'killed': 0, 'killed_with_lock': 0, 'folder_removed': 0, 'failed': 0}
        end = time.monotonic() + self._seconds
        latest = end + 40
        chance = Random()  # noqa: S311 - as in _race
        while time.monotonic() < end or (
            time.monotonic() < latest and not (counts['claims'] > len(GPUS) and counts['killed_with_lock'])
        ):
            while len(self._alive) < self._racers:
                self._start()
            time.sleep(0.002)
            holder = self._holder() if chance.random() < 0.5 else None
            counts['killed_with_lock'] += holder is not None
            counts['killed'] += 1
            self._kill(holder or chance.choice(self._alive))
            if chance.random() < 0.3:
                self._reap()  # else they stay zombies for a while
            try:
                os.rmdir(self._path)  # as one who cleans /tmp would
                counts['folder_removed'] += 1
            except OSError:
                pass  # there are claims in it
            self._read(counts)
        for racer in list(self._alive):
            self._kill(racer)
        self._reap()
        self._read(counts)
        return counts

    def _start(self) -> None:
        racer = os.fork()
        if racer == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            try:
                self._race()
            finally:
                os.write(self._tell, b'f')
                os._exit(1)
        self._alive.append(racer)

    def _kill(self, racer: int) -> None:
        os.kill(racer, signal.SIGKILL)
        self._alive.remove(racer)
        self._dead.append(racer)

    def _reap(self) -> None:
        for racer in self._dead:
            os.waitpid(racer, 0)
        self._dead.clear()

    def _holder(self) -> int | None:
        """Return the racer that has the lock at the moment."""
        try:
            inode = os.stat(self._path).st_ino
            with open('/proc/locks', encoding='utf-8') as locks:
                lines = [line.split() for line in locks]
        except OSError:
            return None
        for words in lines:
            if words[1] == 'FLOCK' and words[5].endswith(f':{inode}') and int(words[4]) in self._alive:
                return int(words[4])
        return None

    def _read(self, counts: dict[str, int]) -> None:
        try:
            news = os.read(self._news, 65536)
        except BlockingIOError:
            return
        for kind, letter in (('claims', b'c'), ('twice', b't'), ('failed', b'f')):
            counts[kind] += news.count(letter)

    def _race(self) -> None:
        chance = Random()  # noqa: S311 - what happens is left to chance, and is no secret
        folder = ClaimFolder(self._path, lock_timeout=60)
        files = {gpu: os.open(f'{self._witnesses}/{gpu}', os.O_RDWR | os.O_CREAT, 0o600) for gpu in GPUS}
        while True:
            held = folder.claim(
                first_free(chance.choice((1, 1, 2))), process_id=os.getpid(), seconds=None, command='racer'
            )
            if held is None:
                time.sleep(chance.uniform(0, 0.05))
                continue
            for gpu in held.claim.uuids:
                try:
                    fcntl.flock(files[gpu], fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.write(self._tell, b't')
            os.write(self._tell, b'c')
            time.sleep(chance.uniform(0, 0.01))
            for gpu in held.claim.uuids:
                fcntl.flock(files[gpu], fcntl.LOCK_UN)
            held.release()


def main() -> None:
    """Become the user that is named, and then what is named."""
    role, user, *arguments = sys.argv[1:]
    assert gpu_tracker.gpus.claims.locks
    if user:
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    if role == 'actor':
        Actor(arguments[0], float(arguments[1])).run()
    else:
        race = Race(arguments[0], arguments[1], int(arguments[2]), float(arguments[3]))
        print(json.dumps(race.run()))


if __name__ == '__main__':
    main()
