"""Random programs whose use of memory and CPU time is known, to hold the tracker's figures against.

``generate`` makes a :class:`~random_programs.script.Program` from a seed: a script of bodies that processes perform,
and what is known of them by construction; ``acts`` are what processes may do. ``actor.c`` performs it. ``run`` has it
tracked and asks the kernel about it meanwhile; ``expect`` makes from that the bounds between which each figure has to
lie, and how exact the physics lets it be.

    PYTHONPATH=src:tests python -m support.random_programs 17     # runs the program of one seed and prints everything

Seeds are fixed, so that every run tests the same programs; RANDOM_PROGRAMS in the environment tells how many.
"""
