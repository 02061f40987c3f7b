"""Measures gpu-tracker and its peers side by side.

    python -m benchmarks                    all parts, some five hours on 2 cores
    python -m benchmarks --quick cost       one part, less exact
    python -m benchmarks --from=FILE        makes the tables from the raw figures of an earlier run

It runs on Linux, from the checkout, with what ``pip install --group benchmark`` installs, and needs pip's index for the
peers and ``cc`` for the floor and the simulated driver, and for the part ``fleet`` Chromium and what ``pip install
--group browser`` installs. As root it sees all that it wants to see. The machine should do nothing else. Each peer has
a virtual environment in ``.benchmarks/``; ours is made from the checkout itself, anew each time.

How it is measured
------------------

In a round all peers are run in turn, and each round begins with another one. A figure is the median over the rounds; a
ratio is the median of the ratios of the same rounds, so that what changes on the machine between two rounds has no part
in it. A peer that fails or takes longer than a minute has a dash and the reason, and is not tried again.

``cost``
    A peer is started around a program (``programs/workload.py``, in Python), which allocates memory and then sleeps.
    It is measured from outside for some seconds, from a second after the program is ready. A variable in the
    environment marks its processes. Their CPU time is read from their CPU clocks, in nanoseconds, and includes reaped
    children. CPU a sample is the CPU time in the window, divided by the window and multiplied by the mean period,
    which is read from the peer's own log. Start and end of the peer are not in it. *Over a run* is the time that the
    sampler has used since it was started 30 seconds ago, its own start included and what it reads while the program
    grows.
    What a peer does for a sample differs: psrecord reads two figures of each process, gpu-tracker the memory that
    processes share too. The tracking file, by which alone gpu-tracker 5.0.1 tells its samples, costs it 60 µs each,
    which are counted.
    *Idle* processes only sleep. *Working* ones each wake every 0.1 s and compute for some microseconds: gpu-tracker
    does not read again what belongs to a process whose CPU clock stands still, so idle ones alone would flatter it.
    The floor is ``floor.c``, which says at its top what it reads.
``latency``
    Import is what an interpreter takes longer that imports what a program would use (``from gpu_tracker import
    Tracker``) than one that does not. start() and stop() are timed in a program that
    tracks itself; the first sample of gpu-tracker 5.0.1 is complete when its tracking file says so, ours when start()
    returns. Commands are timed from outside, with 0.1 s between samples.
``effect``
    A program (``programs/timed.py``) takes the time of its own work, plain and measured in turn: as a command, and by
    its pid (``programs/attached.py``). The interval is Student's, of the mean of the paired differences.
``scale``
    The same as cost, for ours and gpu-tracker 5.0.1, with one round; and the memory of our sampler over 100,000
    samples.
``gpu``
    The same as cost with the simulated driver of the tests, whose own work at each call counts for each peer. nvitop's
    collector runs in a program of its own and watches the workload.
``drm``
    ``programs/drm_reading.py`` reads many processes as the sampler's thread for GPUs does, in our environment, without
    the sampler around it. What a kind of processes costs is the median of 200 readings; the first, which lists all
    descriptors, is left out, and none takes place when they are due again. No driver is there: files in memory stand in
    for those that it would write.
``inventory``
    The driver is that of ``gpu``, with 8 GPUs and 200 processes that sleep and can be looked up. What a command answers
    is checked each time that it runs: one that answers wrongly or fails has a dash and the reason. CPU time is what the
    kernel tells when a command is waited for, that of the children that it has waited for included. The driver's calls
    are counted in a run of their own, which is not timed. With ``more_nvml.c`` the driver answers nvitop's calls that
    the tests' does not have: otherwise nvitop would log a traceback for each. Floors are an interpreter of our
    environment that does nothing, and one that imports nvidia-ml-py, without which there is no GPU to be told of.
``atopgpud``
    The daemon that atop reads, with 8 GPUs and 500 processes and a reading each second. Clients are one C program
    (``atop_clients.c``) that has all connections, over the abstract socket in version 2 of the protocol or over TCP in
    version 1. The original daemon is in no package index and in no package of Debian, so it could not be run beside
    ours. The floor is ``programs/constant_server.py``, an asyncio server in our environment whose answer is always the
    same and as long as ours. The tests' driver reads and parses its state file at each call, which would be most of
    what the daemon seems to use; with ``kept_driver.c`` it reads the file once, and tells the CPU time that its calls
    still use. CPU time is that of the server's CPU clock, from when all clients have connected and been answered once
    until they have their last answer; memory is read then too. The daemon looks at its GPUs some times before.
``idle``
    Stand-in devices, as root device nodes, otherwise plain files. *Time to yield*: the benchmark opens a device and
    waits at the pidfds of the program's processes, which it knows by a variable in their environment. All monitors run
    all the time, each with a device of its own, and are measured in turn. gpu_mon itself is not run: the peer is
    ``programs/fuser_monitor.py``, which does what is known of gpu_mon's ways: it asks fuser each interval and sends
    SIGKILL to the process that it has started. *What watching costs*: 2,000 processes that sleep, with four descriptors
    each, or of which 100 work as those of ``cost`` do; device nodes whose number no driver has, since nobody has to
    open them. CPU time is that of the CPU clocks, with the children that were waited for. *Being told*:
    ``programs/device_watcher.py``, one way after the other.
``fleet``
    ``programs/simulated_agents.py`` is 1,000 agents with 8 GPUs each, at addresses of 127.0.0.0/8; what it answers is
    made before, so that it uses about 20 ms of CPU in a round. Some of them are dead, some never answer, and some send
    random bytes, HTML, half a JSON document or deep nesting. *A round* is measured by the agents' clocks, from the
    first complete request until the last answer has been written, or until the dashboard has closed the last
    connection to a host that does not answer. What it still does with the answers then is not in that, but in *until
    told*: that is when a client of the page's events has got all that has changed. The dashboard is the real program,
    which asks every 5 s; each figure is checked against the number of hosts that it then knows to be up. CPU time is
    that of its CPU clock over whole rounds, the first left out. *Memory* is read after given numbers of rounds, of
    which there are as many as in an hour, with 0.5 s between two. *The page* is opened in Chromium, driven by
    playwright, in a context that has nothing stored; GPUs are there in the picture after they are in the document.
    Where either is missing, there is a dash. While it is *scrolled*, its own work is told by Chromium's trace, in CPU
    time of the main thread; frames are from one animation frame to the next, in real time, and on 2 cores without a
    graphics card, with 1,000 agents and a dashboard besides, an empty page has long ones too. *nvgpu's master* runs
    with Flask's server, as its documentation says, and asks the same agents as our dashboard, in nvgpu's form. Each
    request comes over a new connection.
``cuda``
    As root. The program is the stand-in for CUDA of the tests, whose calls do next to nothing, and which knows what it
    has called. ``gpu-tracker probe`` is started around it, as are bpftrace (``programs/cuda_*.bt``) and a program with
    BCC (``programs/cuda_bcc.py``); the program waits until they look. What a *call costs* is the CPU time of the
    program's thread in a loop of that call, less that of the same loop in the same round without anybody; the first
    calls are not counted. Each tracer tells in the end how many launches it has seen: what is missing of those that the
    program knows of *was not told*. When the *first call of a running process* is counted follows from the calls that
    are missing, which come each 0.1 ms. *Maps in the kernel* are what ``/proc/PID/fdinfo`` tells of them. Where the
    kernel's headers are not installed, BCC is given the few declarations that its program needs (``bcc_headers.py``).
    Pieces of a launch: ``programs/probe_twice.py`` compiles the probe so that it does one of them twice, with clang.
``jobs``
    One rank really runs for ten seconds, with a region each tenth of a second and 50 samples a second. The folder of a
    job of many ranks holds what it has written again and again, with other ranks and nodes, eight ranks a node, and has
    just been written, so that no disk is waited for. A program of its own (``programs/read_job.py``) reads it, in turn
    as ``gpu-tracker merge`` does and with the json module in a loop, which is the least that any reader does. Its peak
    of memory is the kernel's mark of that process. A *rank* is gpu-tracker around ``true``, with ``--job`` and with a
    report as JSON in turn; ``programs/all_cpu.py`` counts the CPU time of all that it starts, the sampler included.
``truth``
    What the peers say, divided by what is true. *Hard programs* (``programs/hard.py``) are measured without root too:
    by ``setpriv``, if there is one, and if an ordinary user can read the interpreter. Their RAM is counted once, in a
    run without a tool in which they hold still at their largest. ``--rows=^hard`` selects them.
``children``
    ``short_children.c`` has children that live as long as the row says, and touch new pages at a steady pace until
    their end: 0.5 GB a second and 150 MB at most where there is one, 0.1 GB a second and 50 MB each where there are
    eight, which end together. In a run there is one child or one batch, since a second one would hide that the first
    was missed. It begins after half a second or more in which the tree is quiet, at moments that are spread over a
    sampling interval, or over the first second of a longer one: so at 10 s no sample of the grid is in a child's life.
    gpu-tracker 5.0.1 gets a second more, until it is ready. *By library*: ``programs/tracked_children.py``, which
    starts one child itself, and eight through the C program, which is a descendant as well. *By command*: the C program
    is main. Each process reads its own high-water mark at its end. What they have in common, a megabyte each of the C
    library, is found once by the page frames of processes that hold still, for which it takes root. Several runs take
    place at once, one a core or two: they mostly wait. Where the machine did not let children live as briefly as they
    were to, a note says so. Runs in which a tool says that it does not know are counted (N/A), and have no ratio. All
    rows take about 70 minutes on 2 cores, those of ours alone (``--peers=gpu-tracker``) about 45.
``children-cost``
    The same children again and again around ours, for a minute, since a sampler may spend later what it has saved
    before; with --quick it is 10 s, in which the closer look at a command that has just begun has a part. The sampler
    is found by the word that is in its command line. By the library it is measured at 1 s only. All rows take more than
    two hours, one round of one interval (``--rounds=1 --rows='st=1$'``) 25 minutes.
``before``
    ``cost``, of this checkout and of the revision that --against names, whose files ``git archive`` puts into
    ``.benchmarks/before``; and one process beside 1,000 others that sleep and a program that forks 15 times a second.
    The sign test makes no assumption on how figures are distributed: with 10 rounds the interval is from the second
    smallest ratio to the second largest, with more rounds it is narrower. It takes about 25 minutes.
"""
