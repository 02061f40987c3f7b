"""Random programs whose use of memory and CPU time is known, to compare the tracker's figures with.

``generate`` makes a :class:`~random_programs.script.Program` from a seed: a script of bodies that processes perform,
and what is known of them by construction; ``acts`` are what processes may do. ``actor.c`` performs it. ``run`` has it
tracked and asks the kernel about it meanwhile; ``expect`` makes from that the bounds between which each figure has to
lie, and how exact the physics lets it be. ``outcomes`` lists the violated bounds of many programs, ``rates`` how many
programs violate each.

    export PYTHONPATH=src:tests
    python -m support.random_programs 17                        # print all about the program of seed 17
    python -m support.random_programs --repeat=50 --beside=4 17 # run it 50 times, 25 of them beside 4 busy loops
    python -m support.random_programs --fresh=100 --repeat=1    # list the violations of 100 fresh seeds
"""
